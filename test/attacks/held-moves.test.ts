/** A worker that copies a version is held before its first byte while the cluster that it chose is drained and found empty. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { ObjectBytes } from '../../src/ports/object-bytes.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { evacuate, expectReady, extentsOn, fsckOf, openPair } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import type { Backend } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

type World = Awaited<ReturnType<typeof openPair>>;

const dayMs = 86_400_000;
const never = new AbortController().signal;
const settings = { SVC_REBALANCE_WEIGHTS: 'on', SVC_LIFECYCLE_RATE: '1000000' };
const transition =
  '<LifecycleConfiguration><Rule><ID>rule</ID><Status>Enabled</Status>' +
  '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>' +
  '<Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition></Rule></LifecycleConfiguration>';

const openWorker: Readonly<Record<string, (context: Context) => Unit>> = {
  /** On a clock of its own, which stands: like a process that is suspended, it does not renew the lease of its slot. */
  rebalance: (context) => rebalance({ ...context, clock: virtualClock(context.clock.now()) }),
  lifecycle: (context) => carryOutLifecycles(context),
};

/** An object on `b`, of which both workers think that it belongs on `a`. */
async function openMoving(backend: Backend): Promise<World> {
  const opened = await openPair(backend, { settings });
  const { world, admin, clock } = opened;
  const weigh = async (weights: Readonly<Record<string, number>>) => {
    for (const [id, weight] of Object.entries(weights))
      await admin.must('PUT', `/clusters/${id}/weight`, { weight });
  };
  await world.client.put('/bucket');
  expect((await world.client.put('/bucket?lifecycle', { body: transition })).status).toBe(200);
  await weigh({ b: 100, a: 0 });
  await world.client.put('/bucket/key', { body: 'content' });
  await weigh({ a: 100, b: 0 });
  expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 1]);
  clock.jump(2 * dayMs);
  return opened;
}

/** Runs the worker until it is idle, and `meanwhile` when it asks for the first byte of the object. */
async function whileCopyHeld(
  { context }: World['world'],
  open: (context: Context) => Unit,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const { promise: asked, resolve: begin } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const read: ObjectBytes['read'] = async function* (...input) {
    begin();
    await released;
    yield* context.bytes.read(...input);
  };
  const unit = open({ ...context, bytes: faulty(context.bytes, { read }) });
  const running = (async () => {
    while ((await unit(never)) === 'busy');
  })();
  expect(await Promise.race([asked.then(() => 'asked'), running])).toBe('asked');
  await meanwhile();
  release();
  await running;
}

/** Not on engines, which have their own clocks: there the drain of this test is too recent for the cluster to count as empty. */
describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test.each(Object.entries(openWorker))(
    'a held copy of the %s worker onto a cluster that was found empty meanwhile leaves the object where it is',
    async (_, open) => {
      const moving = await openMoving(backend);
      const { world, admin, clock, drain } = moving;
      await using _world = world;
      await whileCopyHeld(world, open, async () => {
        await drain();
        await evacuate(world.context, clock);
        await expectReady(world, { admin, backend });
      });
      await world.gc();
      expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 1]);
      await expectReady(world, { admin, backend });
      expect((await world.client.get('/bucket/key')).text).toBe('content');
      expect(await fsckOf(world)).toEqual([]);
      // The next pass finds another cluster, or none to be needed.
      await open(world.context)(never);
      expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 1]);
    },
  );
});
