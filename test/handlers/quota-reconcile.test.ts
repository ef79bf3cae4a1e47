/** The quota-reconcile worker corrects counters that drifted, and invents no drift beside writers. */

import { describe, expect, test } from 'vitest';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { readUsage, usageChanges } from '../../src/metadata/buckets/usage.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { reconcileQuotas } from '../../src/workers/buckets.ts';
import { unsupervised, type WorkerServices } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { openDice } from '../support/dice.ts';
import { domainWorld } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type Backend, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { lateAdditions } from '../support/late-additions.ts';
import { onReplace } from '../support/metric-calls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
/** With these thresholds the smallest drift is corrected. */
const strict = {
  SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES: '0',
  SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: '0%',
} as const;

async function openObserved(backend: Backend, settings: Partial<Record<keyof typeof strict, string>> = {}) {
  const clock = virtualClock();
  let drifts: ReadonlyMap<string, number> = new Map();
  const warnings: string[] = [];
  const world = await openGateway({
    backend,
    clock,
    settings,
    wrap: (context) => ({
      ...context,
      telemetry: {
        ...context.telemetry,
        ...onReplace({
          svc_quota_reconcile_drift_bytes: (series) => {
            drifts = new Map(series.map(([{ bucket }, bytes]) => [bucket, bytes]));
          },
        }),
        log: (level, message) => {
          if (level === 'WARN') warnings.push(message);
        },
      },
    }),
  });
  const unit = reconcileQuotas(world.context, 1);
  return Object.assign(world, {
    warnings,
    drifts: () => drifts,
    async pass() {
      clock.jump(7 * 3_600_000);
      while ((await unit(never)) === 'busy');
    },
  });
}

/** Falsifies the counter of `/bucket`. */
async function falsify({ context: { metadata } }: GatewayWorld, bytes: number, objects = 0): Promise<void> {
  const id = (await findBucket(metadata, 'bucket'))?.row.id ?? '';
  await metadata.apply(usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes, objects }]));
}

describe.each(['memory', 'embedded+file'] as const)('quota-reconcile: %s', (backend) => {
  test('the walk over a large bucket waits for the clients again and again', async () => {
    await using world = await openObserved(backend, strict);
    await world.client.put('/bucket');
    for (let n = 0; n < 450; n += 1) await world.client.put(`/bucket/${n}`);
    let waits = 0;
    const services = {
      ...unsupervised,
      async yieldToClients() {
        waits += 1;
      },
    };
    await reconcileQuotas(world.context, 2, services)(never);
    expect(waits).toBeGreaterThanOrEqual(2);
  });

  test('a counter that drifted is corrected, and the gauge is positive where it was too low', async () => {
    await using world = await openObserved(backend, strict);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'ten bytes.' });
    for (const bytes of [-4, 6]) {
      await falsify(world, bytes, 2);
      await world.pass();
      expect(world.drifts()).toEqual(new Map([['bucket', -bytes]]));
      expect(await world.usage('bucket')).toEqual({ bytes: 10, objects: 1 });
    }
    await world.pass();
    expect(world.drifts()).toEqual(new Map([['bucket', 0]]));
    expect(world.warnings).toHaveLength(2);
  });

  test('passes beside writers, overwrites, versions and deletions change no counter', async () => {
    await using world = await openObserved(backend, strict);
    const seed = Math.floor(Math.random() * 2 ** 31);
    const dice = openDice(seed);
    await world.client.put('/bucket');
    let isOver = false;
    const writer = async (): Promise<void> => {
      for (let i = 0; i < 40; i += 1) {
        const path = `/bucket/key${dice.roll(6)}`;
        if (dice.chance(3)) await world.client.delete(path);
        else await world.client.put(path, { body: 'x'.repeat(dice.roll(50)) });
        if (dice.chance(40)) {
          const status = dice.pick(['Enabled', 'Suspended']);
          const body = `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`;
          await world.client.put('/bucket?versioning', { body });
        }
      }
    };
    const passes = (async () => {
      while (!isOver) await world.pass();
    })();
    await Promise.all([writer(), writer(), writer()]).finally(() => {
      isOver = true;
    });
    await passes;
    expect(world.warnings, `seed ${seed}`).toEqual([]);
    const listed = await world.client.get('/bucket?versions');
    const sizes = listed.all('Size').map(Number);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(await world.usage('bucket'), `seed ${seed}`).toEqual({ bytes, objects: sizes.length });
    await world.pass();
    expect(world.drifts()).toEqual(new Map([['bucket', 0]]));
  });
});

test('a write that is committed behind the position of each walk is no drift', async () => {
  await using world = await openObserved('memory', strict);
  await world.client.put('/bucket');
  await world.client.put('/bucket/m', { body: 'x' });
  // A real drift, so that the worker tries to prove it.
  await falsify(world, 5);
  let writes = 0;
  const { metadata } = world.context;
  const scan = ((at, range) => {
    const cursor = metadata.scan(at, range);
    if (at.table.name !== 'objects') return cursor;
    return faulty(cursor, {
      next: async (count) => {
        const rows = await cursor.next(count);
        writes += 1;
        // The walk has read this page, and misses a key that sorts before all of it.
        if (rows.length > 0) await world.client.put(`/bucket/a${writes}`, { body: 'behind' });
        return rows;
      },
    });
  }) as typeof metadata.scan;
  const unit = reconcileQuotas({ ...world.context, metadata: faulty(metadata, { scan }) }, 2);
  while ((await unit(never)) === 'busy');
  expect(writes).toBeGreaterThan(4);
  expect(world.warnings).toEqual([]);
  const sizes = (await world.client.get('/bucket?versions')).all('Size').map(Number);
  const bytes = sizes.reduce((sum, size) => sum + size, 5);
  expect(await world.usage('bucket')).toEqual({ bytes, objects: sizes.length });
});

test('a drift of bytes is corrected above both thresholds only, and a drift of objects always', async () => {
  const settings = {
    SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES: '100',
    SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: '50%',
  };
  await using world = await openObserved('memory', settings);
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await falsify(world, 100);
  await world.pass();
  expect(await world.usage('bucket')).toEqual({ bytes: 110, objects: 1 });
  expect(world.drifts()).toEqual(new Map([['bucket', -100]]));
  await falsify(world, 1);
  await world.pass();
  expect(await world.usage('bucket')).toEqual({ bytes: 10, objects: 1 });
  await world.client.put('/bucket/key', { body: 'x'.repeat(1_000) });
  // The counter says 667 then, half of which is more than what is missing.
  await falsify(world, -333);
  await world.pass();
  expect(await world.usage('bucket')).toEqual({ bytes: 667, objects: 1 });
  await falsify(world, -2);
  await world.pass();
  expect((await world.usage('bucket')).bytes).toBe(1_000);
  await falsify(world, 0, 1);
  await world.pass();
  expect(await world.usage('bucket')).toEqual({ bytes: 1_000, objects: 1 });
});

test('the additions of a gateway that was killed after its commits are no drift', async () => {
  const world = await domainWorld();
  const { metadata, dying, settle } = lateAdditions(world.metadata);
  await world.over(dying).put('killed', 'content');
  const pass = async (generation: number): Promise<void> => {
    const unit = reconcileQuotas({ ...world, metadata, telemetry: silentTelemetry }, generation);
    while ((await unit(never)) === 'busy');
  };
  await pass(1);
  await settle();
  expect(await readUsage(metadata, (await world.bucket()).id)).toEqual(
    new Map([['STANDARD', { bytes: 7, objects: 1 }]]),
  );
});

test('a leader of quota-reconcile that resumes after its successor has begun is refused', async () => {
  await using world = await openObserved('memory');
  await world.client.put('/bucket');
  await world.pass();
  while ((await reconcileQuotas(world.context, 2)(never)) === 'busy');
  await expect(world.pass()).rejects.toThrow(LeaseLost);
});

test('buckets that appear in a pass that a new leader resumes are examined once each', async () => {
  await using world = await openObserved('memory', strict);
  for (let i = 0; i < 5; i += 1) await world.client.put(`/bucket${i}`);
  for (let generation = 2; generation < 9; generation += 1)
    await reconcileQuotas(world.context, generation)(never);
  expect(await reconcileQuotas(world.context, 9)(never)).toBe('idle');
});

test('a bucket that cannot be entered in the quota of its account does not keep the pass from the others', async () => {
  let isPending = false;
  const clock = virtualClock();
  const warnings: string[] = [];
  await using world = await openGateway({
    clock,
    settings: strict,
    wrap: (context) => ({
      ...context,
      telemetry: { ...silentTelemetry, log: (level, message) => level === 'WARN' && warnings.push(message) },
      // A gateway died whose additions to the counters are not settled.
      metadata: faulty(context.metadata, { hasPendingAdditions: async () => isPending }),
    }),
  });
  const { metadata } = world.context;
  for (const bucket of ['bucket', 'other-1', 'other-2', 'left-out']) {
    await world.client.put(`/${bucket}`);
    await world.client.put(`/${bucket}/key`, { body: 'ten bytes.' });
  }
  const quota = { maxBuckets: 10, totalMaxBytes: '1TiB' };
  await operatorOf(world).must('PUT', `/iam/users/${alice.owner}/quota`, quota);
  const found = await findBucket(metadata, 'left-out');
  if (found === undefined) throw new Error('there is no bucket');
  const { accountQuota: _, ...row } = found.row;
  await replaceBucket(metadata, found, row);
  isPending = true;
  let compared = 0;
  const report: WorkerServices['report'] = ({ done = 0 }) => {
    compared += done;
  };
  const unit = reconcileQuotas(world.context, 1, { ...unsupervised, report });
  let isOver = false;
  const pass = (async () => {
    clock.jump(7 * 3_600_000);
    while ((await unit(never)) === 'busy');
    isOver = true;
  })();
  for (let step = 0; step < 2_000 && !isOver; step += 1) await clock.advance(100);
  await pass;
  expect(compared).toBe(4);
  expect(warnings).toContain('a bucket is left to the next pass of quota-reconcile');
});
