/** Turns and connections of a replication peer are shared out among accounts, regardless of how much each has queued. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { SharedSemaphore } from '../../src/base/mutex.ts';
import { Destinations } from '../../src/domain/replication/destinations.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { Credential } from '../../src/ports/credentials.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, type GatewayWorldOptions, openGateway, person } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { makeRole } from '../support/replication-role.ts';
import { never, settings } from '../support/replication-sites.ts';
import { openStubPeer, replicateToStub, stubPeerBody } from '../support/stub-peer.ts';

const patience = { timeout: 120_000, interval: 10 };
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** A peer that holds some versions until they are released or the test ends, and the owners of its buckets. */
async function openHoldingPeer({
  ownerOf,
  isHeld,
}: {
  readonly ownerOf: (bucket: string) => string;
  readonly isHeld: (bucket: string, size: number) => boolean;
}) {
  /** The versions that are on their way, and those that arrived, of which the peer takes each at once. */
  const seen = { inFlight: 0, most: 0, arrived: 0 };
  const gate = Promise.withResolvers<void>();
  onTestFinished(() => gate.resolve());
  const endpoint = await openStubPeer({
    ownerOf,
    async take(bucket, size) {
      seen.inFlight += 1;
      seen.most = Math.max(seen.most, seen.inFlight);
      const held = isHeld(bucket, size);
      if (held) await gate.promise;
      seen.inFlight -= 1;
      if (!held) seen.arrived += 1;
    },
  });
  return { seen, endpoint };
}

/** A gateway with the peer `far`, which serves all accounts. */
async function openSender(
  endpoint: string,
  people: readonly Credential[] = [],
  peer: object = {},
  options: Pick<GatewayWorldOptions, 'clock'> = {},
) {
  // Longer than the tests wait: no version that the peer holds ends by its time-out.
  const sites = { ...settings, SVC_REPLICATION_TIMEOUT: '5m' };
  const world = await openGateway({ ...options, settings: sites, people });
  onTestFinished(() => world.close());
  for (const root of [alice, bob, ...people]) await makeRole(world, { root });
  await operatorOf(world).must('PUT', '/replication/peers/far', { ...stubPeerBody(endpoint), ...peer });
  const replicate = async (credential: Credential, bucket: string): Promise<Client> => {
    const client = world.as({ credential });
    await replicateToStub(client, { owner: credential.owner, bucket });
    return client;
  };
  const start = (): void => {
    const running = startWorkers(world.context, ['replicator'], never);
    onTestFinished(() => running.stop());
  };
  return { replicate, start };
}

test('a version of one account does not wait for those that another account has queued at a slow bucket', async () => {
  const isBobs = (bucket: string): boolean => bucket.startsWith('bob');
  const { seen, endpoint } = await openHoldingPeer({
    ownerOf: (bucket) => (isBobs(bucket) ? bob : alice).owner,
    isHeld: isBobs,
  });
  const { replicate, start } = await openSender(endpoint);
  const client = await replicate(alice, 'alices');
  for (const name of ['bob0', 'bob1', 'bob2', 'bob3']) {
    const bobs = await replicate(bob, name);
    for (let i = 0; i < 100; i += 1) await bobs.put(`/${name}/k${i}`, { body: 'x' });
  }
  start();
  await vi.waitFor(() => expect(seen.inFlight).toBeGreaterThanOrEqual(60), patience);
  await client.put('/alices/k', { body: 'x' });
  // While the peer holds all that bob has under way.
  await vi.waitFor(() => expect(seen.arrived).toBe(1), patience);
  // Those of bob, and the one of alice.
  expect(seen.most).toBeLessThanOrEqual(64 + 1);
});

test('a version does not wait for the bandwidth of the peer behind all that another account sends', async () => {
  const arrived: string[] = [];
  const endpoint = await openStubPeer({
    ownerOf: (bucket) => (bucket === 'bobs' ? bob : alice).owner,
    take: async (bucket) => void arrived.push(bucket),
  });
  const { replicate, start } = await openSender(endpoint, [], { bandwidth: 300_000 });
  const client = await replicate(alice, 'alices');
  const bobs = await replicate(bob, 'bobs');
  const body = new Uint8Array(60_000);
  for (let i = 0; i < 80; i += 1) await bobs.put(`/bobs/k${i}`, { body });
  start();
  await vi.waitFor(() => expect(arrived.length).toBeGreaterThan(2), patience);
  const before = arrived.length;
  await client.put('/alices/k', { body });
  await vi.waitFor(() => expect(arrived).toContain('alices'), patience);
  expect(arrived.indexOf('alices') - before).toBeLessThan(30);
});

test('few bodies at a time share a low bandwidth of a peer, and all arrive', async () => {
  let underWay = 0;
  let most = 0;
  let arrived = 0;
  const endpoint = await openStubPeer({
    ownerOf: () => alice.owner,
    begin() {
      underWay += 1;
      most = Math.max(most, underWay);
    },
    async take() {
      underWay -= 1;
      arrived += 1;
    },
  });
  // A minute takes a second and a half.
  const hurry = 40;
  const clock: Clock = {
    ...systemClock,
    elapsed: () => systemClock.elapsed() * hurry,
    sleep: (ms, signal) => systemClock.sleep(ms / hurry, signal),
  };
  const { replicate, start } = await openSender(endpoint, [], { bandwidth: 65_536 }, { clock });
  const client = await replicate(alice, 'alices');
  const body = new Uint8Array(100 * 1024);
  for (let i = 0; i < 60; i += 1) await client.put(`/alices/k${i}`, { body });
  start();
  await vi.waitFor(() => expect(arrived).toBe(60), patience);
  expect(most).toBeGreaterThan(1);
  // Bodies of this size have three of seven turns.
  expect(most).toBeLessThanOrEqual(3);
});

const mebibyte = new Uint8Array(1024 * 1024);

test.for([
  { of: 'its own account', backlogs: [100], isOwn: true },
  { of: 'four other accounts', backlogs: [160, 60, 30, 20], isOwn: false },
])(
  'a small version does not wait for large contents of $of that wait for each other',
  async ({ backlogs, isOwn }) => {
    const people = backlogs.map((_, i) => person(`sender${i}`));
    const owners = new Map([alice, ...people].map(({ displayName, owner }) => [displayName, owner]));
    const { seen, endpoint } = await openHoldingPeer({
      ownerOf: (bucket) => owners.get(bucket.split('-')[0] ?? '') ?? '',
      isHeld: (_, size) => size >= mebibyte.length,
    });
    const { replicate, start } = await openSender(endpoint, people);
    const sender = (isOwn ? people[0] : undefined) ?? alice;
    const small = `${sender.displayName}-small`;
    const client = await replicate(sender, small);
    start();
    for (const [i, person] of people.entries()) {
      const large = `${person.displayName}-large`;
      const sends = await replicate(person, large);
      for (let n = 0; n < (backlogs[i] ?? 0); n += 1) await sends.put(`/${large}/k${n}`, { body: mebibyte });
      // One account after the other, until all of its versions wait that may wait at the same time.
      await sleep(300);
    }
    await client.put(`/${small}/k`, { body: 'x' });
    // While the peer holds every large content that has a turn.
    await vi.waitFor(() => expect(seen.arrived).toBe(1), patience);
    expect(seen.most).toBeLessThanOrEqual(5 + 1);
  },
);

test('large contents of accounts go in rotation, and one account never has all turns', async () => {
  const destinations = new Destinations();
  const order: string[] = [];
  const bobs = { peer: 'far', account: 'bob' };
  const all = Array.from({ length: 200 }, () =>
    destinations.runLarge(bobs, async () => {
      await sleep(10);
      order.push('bob');
    }),
  );
  for (let i = 0; i < 3; i += 1)
    all.push(destinations.runLarge({ peer: 'far', account: 'alice' }, async () => void order.push('alice')));
  await Promise.all(all);
  expect(order).toHaveLength(203);
  expect(order.indexOf('alice')).toBe(0);
  expect(order.lastIndexOf('alice')).toBeLessThan(10);
});

test('shared semaphore: an owner gets three quarters alone, newcomers begin at once, waiters in rotation', async () => {
  const turns = new SharedSemaphore(85);
  const running: string[] = [];
  const ends: (() => void)[] = [];
  const hold = (owner: string) =>
    turns.run(owner, async () => {
      running.push(owner);
      await new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = Array.from({ length: 300 }, () => hold('a'));
  await sleep(0);
  expect(running.length).toBe(64);
  for (let i = 0; i < 300; i += 1) all.push(hold('b'));
  await sleep(0);
  const counts = () => ['a', 'b', 'c'].map((owner) => running.filter((each) => each === owner).length);
  expect(counts()).toEqual([64, 16, 0]);
  all.push(hold('c'));
  await sleep(0);
  expect(counts()).toEqual([64, 16, 1]);
  while (ends.length > 0) {
    for (const end of ends.splice(0)) end();
    await sleep(0);
  }
  await Promise.all(all);
  expect(counts()).toEqual([300, 300, 1]);
});
