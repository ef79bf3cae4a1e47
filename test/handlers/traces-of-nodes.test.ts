/** Traces of all gateways: a process asks those of other nodes through the metadata that they share. */
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { putHeartbeats } from '../../src/metadata/background/heartbeats.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { createTracer } from '../../src/telemetry/tracer.ts';
import { NodeQuestions } from '../../src/workers/node-questions.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { openUser } from '../support/iam-users.ts';

const ends = new AbortController();
afterAll(() => ends.abort());
const opened: GatewayWorld[] = [];
afterEach(async () => {
  for (const world of opened.splice(0)) await world[Symbol.asyncDispose]();
});

/** A process waits 4 s for the answers of others; on a busy machine these may take longer, so that its time runs at a tenth. */
const patientClock = { ...systemClock, elapsed: () => systemClock.elapsed() / 10 };

/** Each process has its own traces; all use the metadata of the first one. */
async function openNode(
  name: string,
  {
    shared,
    serves = true,
    clock = patientClock,
  }: { readonly shared?: MetadataStore; readonly serves?: boolean; readonly clock?: Clock } = {},
) {
  const tracer = createTracer({
    clock: systemClock,
    random: systemRandom(),
    process: `${name}:1`,
    sample: 0,
    browser: true,
  });
  let questions: NodeQuestions | undefined;
  const world = await openGateway({
    wrap: (context): Context => {
      const metadata = shared ?? context.metadata;
      questions = new NodeQuestions({ ...context, metadata, clock, telemetry: silentTelemetry });
      return { ...context, otherNodes: questions, ...(tracer === undefined ? {} : { tracer }) };
    },
  });
  opened.push(world);
  const metadata = shared ?? world.context.metadata;
  const about = { slot: 0, node: `${name} http://0.0.0.0:9000`, place: 0, process: `${name}:1` };
  const beat = (beatAt: number) =>
    putHeartbeats(metadata, [], {
      ...about,
      address: 'http://0.0.0.0:9000',
      version: '1',
      runtime: 'node',
      processes: 1,
      startedAt: beatAt,
      uptimeMs: 1,
      beatAt,
      requests: { seconds: 60, requests: 0, refused: 0, failed: 0 },
    });
  await beat(await metadata.now());
  if (serves) questions?.serve(about, ends.signal).catch(() => {});
  const admin = world.as({ credential: operator });
  const json = async (path: string, client = admin) => {
    const { status, text } = await client.get(`/admin/v1/traces${path}`);
    return { status, ...JSON.parse(text) };
  };
  return { world, metadata, json, beat };
}

const idOf = (reply: Answer): string => reply.header('*-request-id') ?? '';

test('a trace is found and listed at every node, whichever has served its request', async () => {
  const first = await openNode('one');
  const second = await openNode('two', { shared: first.metadata });
  const refused = await second.world.anonymous.put('/nothing-here');
  const found = await first.json(`/${idOf(refused)}`);
  expect(found.status).toBe(200);
  expect(found.traces[0]).toMatchObject({ requestId: idOf(refused), process: 'two:1' });
  const list = await first.json('?status=4xx');
  expect(list).toMatchObject({ processes: 2, silent: 0 });
  expect(list.traces.map(({ requestId }: { requestId: string }) => requestId)).toContain(idOf(refused));
  const own = await first.world.anonymous.put('/nothing-either');
  expect((await second.json(`/${idOf(own)}`)).traces[0]).toMatchObject({ process: 'one:1' });
  const none = await first.json('/0000000000000000');
  expect([none.status, none.message]).toEqual([404, expect.not.stringContaining('did not answer')]);
});

test.each([
  ['ahead', 600_000],
  ['behind', -600_000],
])(
  'a node whose clock is ten minutes %s finds the traces of others, and they find its own',
  async (_, offsetMs) => {
    const clock = { ...patientClock, now: () => systemClock.now() + offsetMs };
    const right = await openNode('right');
    const wrong = await openNode('wrong', { shared: right.metadata, clock });
    for (const [here, there] of [
      [right, wrong],
      [wrong, right],
    ] as const) {
      const refused = await there.world.anonymous.put('/nothing-here');
      expect(await here.json(`/${idOf(refused)}`)).toMatchObject({ status: 200 });
      expect(await here.json('?status=4xx')).toMatchObject({ processes: 2, silent: 0 });
    }
  },
);

test('an answer that takes many rows arrives, whatever characters clients have sent', async () => {
  const first = await openNode('one');
  const second = await openNode('two', { shared: first.metadata });
  const keys = ['%22', '%E2%82%AC', '%F0%9D%84%9E'].map((char) => `${char.repeat(600)}`);
  const ids: string[] = [];
  for (let n = 0; n < 60; n += 1)
    ids.push(idOf(await second.world.anonymous.put(`/nothing-here/${'x'.repeat(n % 2)}${keys[n % 3]}`)));
  const list = await first.json('?status=4xx&limit=100');
  expect(list).toMatchObject({ processes: 2, silent: 0 });
  const found = list.traces as { readonly requestId: string; readonly key: string }[];
  expect(found.map(({ requestId }) => requestId)).toEqual(expect.arrayContaining(ids));
  const own = (await second.json('?status=4xx&limit=100')).traces as typeof found;
  const keyOf = new Map(own.map(({ requestId, key }) => [requestId, key]));
  for (const { requestId, key } of found) expect(key).toBe(keyOf.get(requestId));
});

test('a node that does not answer is counted, and one whose heartbeat is old is not asked', async () => {
  const first = await openNode('one', { clock: systemClock });
  const silent = await openNode('silent', { shared: first.metadata, serves: false });
  expect(await first.json('')).toMatchObject({ processes: 1, silent: 1 });
  const none = await first.json('/0000000000000000');
  expect([none.status, none.message]).toEqual([404, expect.stringContaining('did not answer: 1')]);
  await silent.beat((await first.metadata.now()) - 600_000);
  const apply = vi.spyOn(first.metadata, 'apply');
  expect(await first.json('')).toMatchObject({ processes: 1, silent: 0 });
  const questions = apply.mock.calls.flat(2).filter((change) => change.at.table.name === 'node_messages');
  expect(questions).toEqual([]);
});

test('traces of another node about a bucket that policy denies are not shown', async () => {
  const first = await openNode('one');
  const second = await openNode('two', { shared: first.metadata });
  const { credential } = await openUser(first.world, 'watcher', {
    root: operator,
    policy: JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
        { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::buckets/secret*' },
      ],
    }),
  });
  const client = first.world.as({ credential });
  const hidden = await second.world.anonymous.get('/secret/plan');
  const open = await second.world.anonymous.get('/open/plan');
  const { traces } = await first.json('?status=4xx', client);
  const ids = traces.map(({ requestId }: { requestId: string }) => requestId);
  expect(ids).toContain(idOf(open));
  expect(ids).not.toContain(idOf(hidden));
  expect((await first.json(`/${idOf(hidden)}`, client)).status).toBe(403);
});
