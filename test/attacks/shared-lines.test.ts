/** What one tenant, or a client without an account, sends does not cost other tenants their lines in access logs. */
import { expect, test } from 'vitest';
import type { AccessLogTask } from '../../src/metadata/records/queues.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { tasksOf } from '../support/recorded.ts';

type Client = GatewayWorld['client'];

async function logInto(client: Client, bucket: string, prefix: string): Promise<void> {
  for (const name of [bucket, `${bucket}-logs`]) expect((await client.put(`/${name}`)).status).toBe(200);
  const body = `<BucketLoggingStatus><LoggingEnabled><TargetBucket>${bucket}-logs</TargetBucket><TargetPrefix>${prefix}</TargetPrefix></LoggingEnabled></BucketLoggingStatus>`;
  expect((await client.put(`/${bucket}?logging`, { body })).status).toBe(200);
}

/** Two buckets with logs; the attacker's one has the prefix that takes the most bytes. */
async function openWorld(): Promise<GatewayWorld> {
  const world = await openGateway();
  await logInto(world.client, 'victim', 'p/');
  await logInto(world.bob, 'attacker', '"'.repeat(1_000));
  await world.context.lateWrites.flush();
  return world;
}

async function linesOf({ context }: GatewayWorld, bucket: string): Promise<readonly string[]> {
  await context.lateWrites.flush();
  const tasks = await tasksOf<AccessLogTask>(context, 'access-log');
  return tasks.filter((task) => task.bucket === bucket).map(({ line }) => line);
}

const quotes = '"'.repeat(2_048);
const headers = { 'user-agent': quotes, referer: quotes };
const longRequests: readonly (readonly [string, string])[] = [
  ['quotes everywhere', `/attacker/${'%22'.repeat(1_000)}?versionId=${'%22'.repeat(2_048)}`],
  ['a key that is refused for its length', `/attacker/${'%22'.repeat(12_000)}`],
  ['a key of characters that are long in UTF-8', `/attacker/${'%E2%82%AC'.repeat(4_000)}`],
];

test.each(longRequests)('%s: the longest line costs no line of another bucket', async (_, path) => {
  await using world = await openWorld();
  const { client, anonymous } = world;
  for (let n = 0; n < 20; n += 1) {
    await client.get(`/victim/key-${n}`);
    if (n === 0) await anonymous.get(path, { headers });
  }
  expect(await linesOf(world, 'victim')).toHaveLength(20);
  const [line = '', ...others] = await linesOf(world, 'attacker');
  expect(others).toEqual([]);
  expect(line).toMatch(/ (403|400|404|414) /);
});
