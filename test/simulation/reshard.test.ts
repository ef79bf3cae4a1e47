/** A resharding worker dies at any call of its store; clients continue, and its successor finishes. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { beginResharding, findResharding } from '../../src/domain/buckets/reshard.ts';
import { reshardBuckets } from '../../src/workers/buckets.ts';
import { elements, pathOf } from '../support/load-client.ts';
import { shardedMemory } from '../support/sharded-memory.ts';
import type { RequestSpec } from '../support/sign.ts';
import { type FrontDoor, frontDoor, type Process } from './front-door.ts';

const keys = Array.from({ length: 10 }, (_, each) => `key ${each}`);
const never = new AbortController().signal;

const openDoor = (): FrontDoor =>
  frontDoor(
    { SVC_BUCKET_SHARDS: '2' },
    {
      over: (metadata, clock) =>
        // A process that waits for a row lets the others run.
        shardedMemory(metadata, { clock: { ...clock, sleep: () => turn() }, leaseMs: 20, batchRows: 4 }),
    },
  );

async function ok(client: Process, spec: RequestSpec): Promise<string> {
  const answer = await client.send(spec);
  if (answer.status >= 300) throw new Error(`${spec.method} ${spec.path}: ${answer.status} ${answer.text}`);
  return answer.text;
}
const put = (key: string, body: string): RequestSpec => ({
  method: 'PUT',
  path: pathOf('bucket', key),
  body,
});

async function worldOf(): Promise<FrontDoor> {
  const world = openDoor();
  const client = world.process();
  await ok(client, { method: 'PUT', path: pathOf('bucket') });
  await ok(client, {
    method: 'PUT',
    path: pathOf('bucket'),
    query: { versioning: '' },
    body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
  });
  for (const key of keys) for (const body of ['one', 'two']) await ok(client, put(key, body));
  for (const key of keys.slice(0, 3)) await ok(client, { method: 'DELETE', path: pathOf('bucket', key) });
  await beginResharding(world, 'bucket', { to: 4 });
  return world;
}

/** Works until nothing is left to do or the process is killed. */
async function work(world: FrontDoor, process: Process): Promise<void> {
  const unit = reshardBuckets(process.ctx);
  for (let round = 0; round < 100; round += 1) {
    let said: 'busy' | 'idle' | undefined;
    const working = unit(never).then((answer) => {
      said = answer;
    });
    for (let turns = 0; turns < 5_000 && said === undefined && !process.hasDied(); turns += 1) {
      await turn();
      if (turns % 20 === 19) await world.clock.advance(30);
    }
    if (process.hasDied()) return;
    await working;
    if (said === 'idle') return;
  }
  throw new Error('resharding does not come to an end');
}

async function visible(client: Process): Promise<readonly string[]> {
  const versions = await ok(client, { path: pathOf('bucket'), query: { versions: '' } });
  const live = await ok(client, { path: pathOf('bucket'), query: { 'list-type': '2' } });
  const gets = keys.map(async (key) => {
    const { status, text } = await client.send({ path: pathOf('bucket', key) });
    return `${key} ${status} ${status === 200 ? text : ''}`;
  });
  const markers = [...versions.matchAll(/<(DeleteMarker|Version)>/g)].map(([, each]) => each);
  return [
    elements(versions, 'Key').join(),
    elements(versions, 'IsLatest').join(),
    markers.join(),
    elements(live, 'Key').join(),
    ...(await Promise.all(gets)),
  ];
}

test('killed at any call, a worker leaves its successor and every client what they need', async () => {
  let calls = 0;
  for (const when of ['before', 'after'] as const)
    for (let call = 1, lived = false; !lived; call += 1) {
      const world = await worldOf();
      const client = world.process();
      const before = await visible(client);
      const process = world.process({ call, when });
      await work(world, process);
      lived = !process.hasDied();
      const at = `${when} call ${call}`;
      expect(await visible(client), at).toEqual(before);
      // A key that was being moved when the mover died can still be written and deleted.
      for (const key of keys) await ok(client, put(key, `${key} at last`));
      for (const key of keys.slice(5)) await ok(client, { method: 'DELETE', path: pathOf('bucket', key) });
      const after = await visible(client);
      await world.clock.advance(100);
      await work(world, world.process());
      expect(await visible(world.process()), `${at}, resumed`).toEqual(after);
      expect(await findResharding(world, 'bucket'), at).toMatchObject({
        shards: 4,
        state: { shardsDone: 2 },
      });
      await world.cleanUp();
      expect(await world.faults(), at).toEqual([]);
      calls = Math.max(calls, call);
    }
  expect(calls).toBeGreaterThan(30);
});
