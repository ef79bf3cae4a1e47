/** What the consumer of a queue remembers is shared out: many refused or waiting objects of a tenant change nothing for others (ADR 33). */
import { expect, test } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import { type Subject, TargetStates } from '../../src/domain/lanes/target-states.ts';
import { WaitingRows } from '../../src/domain/lanes/waiting-rows.ts';
import { type ReplicationCtx, replicationQueue } from '../../src/domain/replication/deliver-tasks.ts';
import { Destinations } from '../../src/domain/replication/destinations.ts';
import { laneSlot } from '../../src/metadata/background/hourly-queues.ts';
import type { HourlyRow } from '../../src/metadata/records/queues.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { openDice } from '../support/dice.ts';

const subject = (tenant: string, key: string, account?: string): Subject => ({
  ...{ target: 'hook', tenant, owner: account ?? '', account, object: `hook ${tenant} ${key}` },
});

function openStates() {
  let now = 0;
  const dice = openDice(1);
  const bytes = (count: number): Uint8Array<ArrayBuffer> =>
    Uint8Array.from({ length: count }, () => dice.roll(256));
  const states = new TargetStates({ clock: { elapsed: () => now }, random: { bytes } });
  const wait = (ms: number): void => {
    now += ms;
  };
  return { states, wait };
}

/** How often an object is tried in 400 ms, whose target refuses it and answers. */
function countTries({ states, wait }: ReturnType<typeof openStates>, victim: Subject): number {
  let tries = 0;
  for (let n = 0; n < 40; n += 1) {
    if (!states.isTenantResting(victim) && !states.isObjectResting(victim)) {
      tries += 1;
      states.refused(victim, 'x', 'reached');
    }
    wait(10);
  }
  return tries;
}

test('10,000 targets that take nothing rest, and a failure of another one is remembered beside them', () => {
  const { states, wait } = openStates();
  const names = Array.from({ length: 10_000 }, (_, n) => `peer/bucket-${n}`);
  for (let round = 0; round < 6; round += 1) {
    for (const name of names) states.unavailable(name, 'no answer');
    wait(60_000);
  }
  for (const name of names) states.unavailable(name, 'no answer');
  states.unavailable('peer/another', 'no answer');
  wait(400);
  expect(names.filter((name) => !states.isResting(name))).toEqual([]);
  expect([states.isResting('peer/another'), states.isResting('peer/live')]).toEqual([true, false]);
});

test.each<[buckets: number, accounted: string]>([
  [50, 'of another account'],
  [1, 'of the only account'],
  [12_000, 'of another account'],
])(
  'objects of %i buckets %s that are refused in any number leave room for one of another bucket',
  (buckets, accounted) => {
    const world = openStates();
    const { states } = world;
    const hasAccounts = accounted === 'of another account';
    for (let n = 0; n < 12_000; n += 1)
      states.refused(subject(`bad-${n % buckets}`, `${n}`, hasAccounts ? 'bob' : undefined), 'x', 'reached');
    world.wait(120_000);
    const victim = subject('bucket', 'poison', hasAccounts ? 'alice' : undefined);
    expect(countTries(world, victim)).toBe(1);
    expect(states.isTenantResting(subject('bucket', 'good', victim.account))).toBe(false);
    // Its refusals are counted, so that it is given up in the end.
    for (let n = 0; n < 5; n += 1) states.refused(victim, 'x', 'reached');
    expect(states.isRefusedSteadily(victim)).toBe(true);
    expect(states.refusedByTarget().get('hook')?.objects).toBe(10_000);
  },
);

test('objects of a large bucket that a replication destination refuses are remembered, however many small buckets another account has', () => {
  const { states } = openStates();
  const config = { SVC_REPLICATION_RETRY_MAX: 1_000 } as ReplicationCtx['config'];
  const { subjectOf } = replicationQueue({ config } as ReplicationCtx, new Destinations());
  const of = (account: string, bucket: string, key: string): Subject => {
    const destination = { Bucket: 'arn:sluice:replication::far:photos' };
    return subjectOf({
      task: { account, bucket, bucketId: bucket, key, destination },
    } as unknown as HourlyRow);
  };
  const large = Array.from({ length: 100 }, (_, n) => of('alice', 'large', `${n}`));
  for (const subject of large) states.refused(subject, 'x', 'reached');
  for (let n = 0; n < 12_000; n += 1) states.refused(of('bob', `small-${n}`, 'k'), 'x', 'reached');
  expect(large.filter((subject) => states.lastFailure(subject).attempts === 1)).toHaveLength(100);
  expect(states.refusedByTarget().get('far/photos')?.objects).toBe(10_000);
});

test('an object whose rows were removed without a delivery is forgotten after an hour, and one that is refused again is not', () => {
  const { states, wait } = openStates();
  const kept = subject('bucket', 'kept');
  states.refused(subject('bucket', 'trimmed'), 'x');
  states.refused(kept, 'x');
  states.takeChanged();
  for (let n = 0; n < 70; n += 1) {
    wait(60_000);
    states.refused(kept, 'x');
    states.takeChanged();
    states.forgetStale();
    if (n === 40) expect(states.refusedByTarget().get('hook')?.objects).toBe(2);
    if (states.hasChanged) expect(n).toBeGreaterThan(55);
  }
  expect(states.refusedByTarget().get('hook')?.objects).toBe(1);
  expect(states.isObjectResting(kept)).toBe(true);
});

/** Names of which all share a waiting lane with `bucket`, and one that does not. */
function openWaiting() {
  // Nothing is read or moved here.
  const metadata = {} as MetadataStore;
  const waiting = new WaitingRows({ caches: new Caches(), metadata, clock: { elapsed: () => 0 } as never });
  const slotOf = (key: string): number => laneSlot('hook', key);
  const rowOf = (key: string): HourlyRow =>
    ({
      queue: 'notify',
      slot: slotOf(key),
      hour: 0,
      due: 0,
      id: key,
      task: {},
      attempts: 0,
      requestId: '',
    }) as HourlyRow;
  return {
    waiting,
    reserve: (tenant: string, key: string) => waiting.reserve(rowOf(key), subject(tenant, key)),
    has: (tenant: string, key: string) => waiting.has(rowOf(key), subject(tenant, key)),
  };
}

test('objects of a bucket that wait in any number make no other object of another bucket wait', async () => {
  const { waitingSlot } = await import('../../src/metadata/background/hourly-queues.ts');
  const { reserve, has } = openWaiting();
  const shared = waitingSlot(0, 'bucket');
  let n = 0;
  while (waitingSlot(0, `bad-${n}`) !== shared) n += 1;
  const colliding = `bad-${n}`;
  for (let key = 0; key < 30_000; key += 1) {
    reserve(key % 2 === 0 ? colliding : 'elsewhere', `k${key}`);
    if (key === 15_000 || key === 29_000) reserve('bucket', `own-${key}`);
  }
  expect(has('bucket', 'own-15000')).toBe(true);
  expect(has('bucket', 'own-29000')).toBe(true);
  for (let key = 0; key < 1_000; key += 1) expect(has('bucket', `k${key}`)).toBe(false);
  // What is no longer remembered by name counts as waiting.
  for (let key = 0; key < 30_000; key += 2) expect(has(colliding, `k${key}`)).toBe(true);
});
