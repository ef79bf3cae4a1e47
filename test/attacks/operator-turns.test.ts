/** Many long calls of one operator at once: its account has its turns of the event loop like any other, however many calls it has open. */
import { expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import { failedReplication } from '../../src/metadata/background/replication.ts';
import { trafficChanges } from '../../src/metadata/buckets/usage.ts';
import { retainAudit } from '../../src/workers/retention.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { slowClock } from '../support/virtual-clock.ts';

const hourMs = 3_600_000;
const day = '2025-12-28';
const rows = 400;
const buckets = 200;
/** Calls of the operator, and keys that another account deletes meanwhile. */
const calls = 16;
const keys = 20;

async function furnish({ context, client, clock }: GatewayWorld & { clock: ReturnType<typeof slowClock> }) {
  const { metadata } = context;
  const now = clock.now();
  const expiresAt = now + 1_000 * hourMs;
  const about = { bucketId: 'id', bucket: 'bucket', day, requester: 'r', payer: 'r' };
  const amounts = { requestsA: 1, requestsB: 1, requestsFree: 0, ingressBytes: 1, egressBytes: 1 };
  const request = { action: 'PutObject', resource: 'bucket:bucket', status: 200, principal: '' };
  const caller = { accessKey: '', account: '', source: '127.0.0.1' };
  const failure = {
    bucketId: 'id',
    bucket: 'bucket',
    account: 'r',
    destination: { Bucket: 'arn:aws:s3:::far' },
  };
  const queued = { slot: 0, due: now, attempts: 1, requestId: '' };
  for (let index = 0; index < rows; index += 1) {
    const id = `row-${index}`;
    await metadata.apply([
      audited({ ...request, ...caller, id, time: now + index }, { retentionMs: 1_000 * hourMs }),
      ...trafficChanges({ ...about, ...amounts, bucketId: id, writer: 'w' }, expiresAt),
      ...deadLetter(
        { ...queued, queue: 'notify', id, task: { sink: 'hook', message: {} } },
        { error: 'gone', now, expiresAt, bucket: 'bucket' },
      ),
      ...failedReplication(
        { ...queued, queue: 'replication', id, task: { ...failure, key: id, version: 'v' } },
        { error: 'gone', now, expiresAt },
      ),
    ]);
  }
  for (let index = 0; index < buckets; index += 1) await client.put(`/bucket-${index}`);
  await clock.advance(hourMs + 16 * 60_000);
  const seal = retainAudit(context, 1);
  while ((await seal(new AbortController().signal)) !== 'idle');
}

test('while one operator has 16 exports, verifications, explanations, redrives or sums, a deletion of another account has every second turn', async () => {
  const clock = slowClock();
  await using world = await openGateway({ clock });
  await furnish({ ...world, clock });
  const client = world.as({ credential: operator });
  const Keys = Array.from({ length: keys }, (_, index) => `<Object><Key>key-${index}</Key></Object>`);
  /** Turns that pass until the keys are deleted beside the calls of the operator. */
  const turnsBeside = async ([method, path, body]: readonly [string, string, object?]) => {
    const left = new AbortController();
    const asked = Array.from({ length: calls }, () =>
      client
        .send(method, `/admin/v1${path}`, {
          signal: left.signal,
          ...(body === undefined
            ? {}
            : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
        })
        .catch(() => undefined),
    );
    // All calls have begun to read once the operator has had as many turns.
    const start = clock.slept.length;
    while (clock.slept.length < start + calls) await clock.settle();
    const before = clock.slept.length;
    const { status } = await world.client.post('/bucket-0?delete', {
      body: `<Delete>${Keys.join('')}</Delete>`,
    });
    const turns = clock.slept.slice(before).filter((ms) => ms === 0).length;
    left.abort();
    await Promise.all(asked);
    expect(status).toBe(200);
    return turns;
  };
  const id = 'none';
  const asks: readonly (readonly [string, string, object?])[] = [
    ['GET', '/audit?bucket=none'],
    ['GET', '/audit/export?bucket=none'],
    ['GET', '/audit/verify'],
    ['GET', `/usage/export?of=traffic&day=${day}`],
    ['GET', `/accounts/${alice.owner}`],
    ['GET', `/iam/users/${alice.owner}/usage`],
    ['POST', '/why', { requestId: '0123456789ABCDEF' }],
    ['POST', '/notify/redrive', { bucket: 'bucket', id }],
    ['POST', '/notify/discard', { bucket: 'bucket', id }],
    ['POST', '/replication/retry', { bucket: 'bucket', id }],
  ];
  const seen: Record<string, number> = {};
  for (const ask of asks) seen[ask[1]] = await turnsBeside(ask);
  // Those of the deletion, as many of the operator, and a few pieces that had begun.
  for (const [path, turns] of Object.entries(seen))
    expect([path, turns > 1.5 * keys, turns <= 2 * keys + 5], JSON.stringify(seen)).toEqual([
      path,
      true,
      true,
    ]);
});
