/**
 * Every XML body of the API, damaged at random and sent through the front door: no internal error, a refused body changes nothing, and an
 * accepted one is returned as a document that is accepted again.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encryptingSettings } from '../support/encryption.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { awaitDefaultPeer } from '../support/replication-role.ts';
import { type XmlBody, xmlBodies } from '../support/xml-bodies.ts';
import { damaged, printTree } from '../support/xml-trees.ts';

const sinks = ['topic', 'queue', 'f'].map((id) => ({
  id,
  accounts: ['*'],
  type: 'webhook',
  url: 'https://example.com',
}));

/** A bucket with everything that the documents refer to. */
async function furnish(): Promise<GatewayWorld> {
  const world = await openGateway({
    settings: { ...(await encryptingSettings()), SVC_NOTIFY_TARGETS: JSON.stringify(sinks) },
  });
  const { client } = world;
  await awaitDefaultPeer(world);
  await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/bucket/key', { body: 'content' });
  await client.put('/bucket/archived', { body: 'content', headers: { '*-storage-class': 'GLACIER' } });
  for (const name of ['logs', 'reports']) await client.put(`/${name}`);
  return world;
}

const send = ({ client }: GatewayWorld, { on }: XmlBody, body: string): Promise<Answer> => {
  const [method = '', path = ''] = on.split(' ');
  return client.send(method, path, { body });
};

/** True for documents that a Get of the same address returns. */
const isShown = ({ on }: XmlBody): boolean =>
  on.startsWith('PUT') && !on.endsWith('/created') && !on.endsWith('key?encryption');

/** The answer of a Get, without the parts that differ from request to request. */
const comparable = ({ status, code, text }: Answer): unknown => [status, status === 200 ? text : code];

async function check(world: GatewayWorld, body: XmlBody, document: string): Promise<void> {
  const get = (): Promise<Answer> => world.client.get(body.on.split(' ')[1] ?? '');
  const before = isShown(body) ? await get() : undefined;
  const answer = await send(world, body, document);
  const isExpected = answer.status < 500 || answer.code === 'NotImplemented';
  expect(isExpected, `${answer.status} ${answer.code} for ${document}`).toBe(true);
  if (before === undefined) return;
  const now = await get();
  if (answer.status >= 300) {
    expect(comparable(now), document).toEqual(comparable(before));
  } else if (now.status === 200) {
    const again = await send(world, body, now.text);
    expect([again.status, again.code], now.text).toEqual([answer.status, '']);
    expect((await get()).text).toBe(now.text);
  }
}

describe.each(xmlBodies)('$root on $on', (body) => {
  test('is accepted whole, or refused for a reason', async () => {
    await using world = await furnish();
    const { status, code } = await send(world, body, body.document);
    expect(status < 300 ? undefined : code).toBe(body.refused);
  });

  test('does no harm however it is damaged', async () => {
    await using world = await furnish();
    await fc.assert(
      fc.asyncProperty(damaged(body.document), (tree) => check(world, body, printTree(tree))),
      { numRuns: 60 },
    );
  });
});
