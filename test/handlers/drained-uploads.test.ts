/** Uploads that another gateway began on a draining cluster, because its cached view of the clusters was old. */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { rebalanceRows } from '../../src/metadata/background/clusters.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { evacuate, expectReady, extentsOn, openPair } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorld } from '../support/gateway.ts';
import { completion, createUpload, putPart } from '../support/gateway-bodies.ts';
import { openClient } from '../support/gateway-client.ts';
import { whileHeld } from '../support/held-body.ts';
import { heldContent } from '../support/held-writes.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

/** A client of another gateway, which keeps its present view of the clusters during the whole test. */
async function clientOfStaleGateway({ context }: GatewayWorld, clock: VirtualClock) {
  const view = await context.clusterStates.view();
  const gateway = createGateway(
    { ...context, clusterStates: { ...context.clusterStates, view: async () => view } },
    { basePath: '' },
  );
  return openClient(gateway, clock, { credential: alice });
}

const progressOf = (admin: Awaited<ReturnType<typeof openPair>>['admin']) =>
  admin.must('GET', '/clusters/a/drain-progress');
const uploadCount = /^1 open upload is bound to it/;

/** Not on engines, because the test cannot set their clocks. */
describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('an upload that another gateway began after the first pass of a drain keeps the cluster, until it is aborted', async () => {
    const { world, admin, clock, drain } = await openPair(backend);
    await using _ = world;
    await world.client.put('/bucket');
    const stale = await clientOfStaleGateway(world, clock);
    await drain();
    const unit = rebalance(world.context);
    await unit(never);
    expect(await progressOf(admin)).toMatchObject({ slotsSeen: 16, slots: 16 });
    await clock.advance(20_000);
    const uploadId = await createUpload(stale, '/bucket/key');
    await clock.advance(60_000);
    // No pass has found the upload, and yet the cluster is not reported as empty.
    expect(await progressOf(admin)).toMatchObject({ deregisterReady: false });
    await evacuate(world.context, clock);
    const kept = await progressOf(admin);
    expect(kept).toMatchObject({ deregisterReady: false, reasons: [expect.stringMatching(uploadCount)] });
    const part = await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'content' });
    const path = `/bucket/key?uploadId=${uploadId}`;
    expect((await world.client.post(path, { body: completion([part]) })).status).toBe(200);
    await evacuate(world.context, clock);
    await expectReady(world, { admin, backend });
    expect((await world.client.get('/bucket/key')).text).toBe('content');
  });

  test('the open uploads of a bucket are counted page by page, and a turn that ends among them is resumed there', async () => {
    const { world, admin, clock } = await openPair(backend);
    await using _ = world;
    const count = 350;
    await world.client.put('/bucket');
    for (let i = 0; i < count; i += 1)
      await createUpload(world.client, `/bucket/${String(i).padStart(3, '0')}`);
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    let elapsed = 0;
    let sessions = 0;
    const { metadata } = world.context;
    const get: typeof metadata.get = (at, ...key) => {
      if (at.table.name === 'uploads') sessions += 1;
      return metadata.get(at, ...key);
    };
    // A turn is over with the first position that is saved.
    const context = {
      ...world.context,
      clock: { ...clock, elapsed: () => (elapsed += 60_000) },
      metadata: faulty(metadata, { get }),
    };
    const ofUnits: number[] = [];
    for (let ended = false; !ended; ) {
      sessions = 0;
      await rebalance(context)(never);
      ofUnits.push(sessions);
      ended = (await rebalanceRows(metadata)).every(({ open }) => open === undefined);
    }
    expect(ofUnits.filter((reads) => reads > 0)).toEqual([100, 100, 100, 50]);
    expect(await progressOf(admin)).toMatchObject({
      reasons: expect.arrayContaining([expect.stringMatching(`^${count} open uploads are bound to it`)]),
    });
  });

  test('a part whose cluster was found empty while its content came is refused, and stores nothing', async () => {
    const { world, admin, clock, drain } = await openPair(backend, { settings: { SVC_BODY_RATE_MIN: '0' } });
    await using _ = world;
    await world.client.put('/bucket');
    const stale = await clientOfStaleGateway(world, clock);
    await drain();
    const units = [rebalance(world.context), collectGarbage(world.context)];
    await clock.advance(61_000);
    // This unit is a whole pass; the next unit marks the cluster as empty.
    await units[0]?.(never);
    const uploadId = await createUpload(stale, '/bucket/key');
    const path = `/bucket/key?partNumber=1&uploadId=${uploadId}`;
    const request = { method: 'PUT', path, ask: { body: heldContent }, early: 200_000 };
    const answer = await whileHeld(world.client, request, async () => {
      for (const unit of units) await unit(never);
      await expectReady(world, { admin, backend });
      await clock.advance(2_000);
    });
    expect([answer.status, answer.code]).toEqual([503, 'ServiceUnavailable']);
    expect((await world.client.get(`/bucket/key?uploadId=${uploadId}`)).all('PartNumber')).toEqual([]);
    await world.gc();
    expect(await extentsOn(world, 'a')).toBe(0);
  });
});
