/** An evacuation whose worker dies at any call of a port loses nothing and leaks nothing, and its successor finishes it. */
import { expect, test } from 'vitest';
import { changeCluster } from '../../src/domain/clusters/cluster-states.ts';
import { claimSlot } from '../../src/metadata/background/clusters.ts';
import { bucketSlotOf, bucketSlots } from '../../src/metadata/buckets/buckets.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { elements, pathOf } from '../support/load-client.ts';
import { md5Hex } from '../support/load-model.ts';
import type { RequestSpec } from '../support/sign.ts';
import { untilDeath } from './death.ts';
import { type FrontDoor, frontDoor, standingCall } from './front-door.ts';

const never = new AbortController().signal;

interface World {
  readonly world: FrontDoor;
  /** Reads every version as a client. */
  seen(): Promise<readonly string[]>;
}

async function worldOf(): Promise<World> {
  const world = frontDoor({ SVC_POOL_CLUSTERS: 'a,b', SVC_REBALANCE_RATE: '1TiB' });
  await world.clusterStates.view();
  await changeCluster(world, 'b', { trigger: 'weight', weight: 0 });
  const client = world.process();
  const ok = async (spec: RequestSpec) => {
    const answer = await client.send(spec);
    if (answer.status >= 300) throw new Error(answer.text);
    return answer;
  };
  const to = (key: string): string => pathOf('bucket', key);
  await ok({
    method: 'PUT',
    path: pathOf('bucket'),
    headers: { 'x-amz-bucket-object-lock-enabled': 'true' },
  });
  const held = { 'x-amz-object-lock-legal-hold': 'ON', 'x-amz-server-side-encryption': 'AES256' };
  await ok({ method: 'PUT', path: to('key'), body: 'one', headers: held });
  await ok({ method: 'PUT', path: to('key'), body: 'two' });
  const created = await ok({ method: 'POST', path: to('parts'), query: { uploads: '' } });
  const [uploadId = ''] = elements(created.text, 'UploadId');
  const part = await ok({
    method: 'PUT',
    path: to('parts'),
    query: { uploadId, partNumber: '1' },
    body: 'part',
  });
  const list = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers.get('etag')}</ETag></Part></CompleteMultipartUpload>`;
  await ok({ method: 'POST', path: to('parts'), query: { uploadId }, body: list });
  await changeCluster(world, 'b', { trigger: 'weight', weight: 100 });
  await changeCluster(world, 'a', { trigger: 'drain evacuate' });
  // The slots without a bucket are done, so the kills fall into the slot with the bucket.
  const now = await world.metadata.now();
  for (let slot = 0; slot < bucketSlots; slot += 1) {
    if (slot === bucketSlotOf('bucket')) continue;
    await (await claimSlot(world.metadata, slot, 0)).put({
      slot,
      ended: { startedAt: now, endedAt: now, clusters: ['a'], found: {} },
    });
  }
  return { world, seen: () => seenBy(world) };
}

async function seenBy(world: FrontDoor): Promise<readonly string[]> {
  const client = world.process();
  const versions = await client.send({ path: pathOf('bucket'), query: { versions: '' } });
  const seen: string[] = [];
  for (const xml of elements(versions.text, 'Version')) {
    const [key = '', versionId = '', etag = ''] = ['Key', 'VersionId', 'ETag'].map(
      (name) => elements(xml, name)[0],
    );
    const { status, text, headers } = await client.send({
      path: pathOf('bucket', key),
      query: { versionId },
    });
    seen.push(
      `${key} ${etag} ${status} ${md5Hex(Buffer.from(text))} ${headers.get('x-amz-object-lock-legal-hold')}`,
    );
  }
  return seen;
}

async function extentsOnA({ bytes }: FrontDoor): Promise<number> {
  let count = 0;
  for await (const _ of bytes.find('a', '')) count += 1;
  return count;
}

test('killed at any call of a port', async () => {
  let calls = 0;
  for (const when of ['before', 'after'] as const) {
    for (let call = 1, lived = false; !lived; call += 1) {
      const { world, seen } = await worldOf();
      const before = await seen();
      expect(before).toHaveLength(3);
      const process = world.process({ call, when });
      await untilDeath(process, rebalance(process.ctx)(never));
      lived = !process.hasDied();
      const at = `${when} call ${call}`;
      expect(await seen(), at).toEqual(before);
      await world.cleanUp();
      expect(await seen(), `${at}, cleaned up`).toEqual(before);
      expect(await world.faults(), at).toEqual([]);
      await rebalance(world)(never);
      await world.cleanUp();
      expect(await extentsOnA(world), `${at}, by its successor`).toBe(0);
      expect(await seen(), `${at}, by its successor`).toEqual(before);
      expect(await world.faults(), `${at}, by its successor`).toEqual([]);
      calls = Math.max(calls, call);
    }
  }
  expect(calls).toBeGreaterThan(40);
});

interface Acting {
  readonly ok: (spec: RequestSpec) => Promise<unknown>;
  readonly world: FrontDoor;
}

const key = pathOf('bucket', 'key');
/** What happens while the worker is paused. */
const meanwhile: Readonly<Record<string, (acting: Acting) => Promise<unknown>>> = {
  'its successor finishes': async ({ world }) => rebalance(world)(never),
  'clients remove versions for good, and an operator turns the drain around': async ({ world, ok }) => {
    const client = world.process();
    const versions = await client.send({ path: pathOf('bucket'), query: { versions: '' } });
    for (const xml of elements(versions.text, 'Version')) {
      const [name = '', versionId = ''] = ['Key', 'VersionId'].map((each) => elements(xml, each)[0]);
      await client.send({ method: 'DELETE', path: pathOf('bucket', name), query: { versionId } });
    }
    await rebalance(world)(never);
    await changeCluster(world, 'a', { trigger: 'undrain' });
    await changeCluster(world, 'b', { trigger: 'drain evacuate' });
    await rebalance(world)(never);
    await ok({ method: 'PUT', path: key, body: 'late' });
  },
};

for (const [name, act] of Object.entries(meanwhile))
  test(`paused at any call, while ${name}, a worker loses and leaks nothing`, async () => {
    let calls = 0;
    for (let call = 1, isOver = false; !isOver; call += 1) {
      const { world, seen } = await worldOf();
      const { disturbed, reached, goOn } = standingCall(call);
      const process = world.process(undefined, undefined, disturbed);
      const client = world.process();
      const ok = async (spec: RequestSpec) => {
        const answer = await client.send(spec);
        if (answer.status >= 300) throw new Error(answer.text);
      };
      const ending = rebalance(process.ctx)(never).catch((cause: unknown) => cause);
      await Promise.race([reached, ending]);
      isOver = process.calls() < call;
      // Beyond the leases.
      await world.clock.advance(60_000);
      await act({ ok, world });
      const at = `call ${call}`;
      const before = await seen();
      await world.cleanUp();
      goOn();
      await ending;
      for (let pass = 0; pass < 2; pass += 1) {
        expect(await seen(), `${at}, pass ${pass}`).toEqual(before);
        await rebalance(world)(never);
        await world.cleanUp();
      }
      expect(await seen(), at).toEqual(before);
      expect(await world.faults(), at).toEqual([]);
      calls = Math.max(calls, call);
    }
    expect(calls).toBeGreaterThan(20);
  });

test('where any call takes effect and its answer is lost, a worker loses and leaks nothing', async () => {
  for (let call = 1, isOver = false; !isOver; call += 1) {
    const { world, seen } = await worldOf();
    const before = await seen();
    const instead = async (run: () => Promise<unknown>): Promise<unknown> => {
      await run();
      throw new Error('no answer');
    };
    const process = world.process(undefined, undefined, { call, instead });
    await rebalance(process.ctx)(never).catch((cause: unknown) => cause);
    isOver = process.calls() < call;
    const at = `call ${call}`;
    await world.cleanUp();
    expect(await seen(), at).toEqual(before);
    expect(await world.faults(), at).toEqual([]);
    await rebalance(world)(never);
    await world.cleanUp();
    expect(await extentsOnA(world), `${at}, by its successor`).toBe(0);
    expect(await seen(), `${at}, by its successor`).toEqual(before);
  }
});
