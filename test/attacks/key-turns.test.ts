/** The calls to a key provider are shared among accounts, however many of them one account has under way. */
import { expect, test, vi } from 'vitest';
import { keyTurnsMax } from '../../src/backends/keys/steady-provider.ts';
import { provider } from '../support/encryption.ts';
import { openKmsWorld, outcomeOf, served } from '../support/kms-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** More than an account has turns. */
const writesMax = 60;
/** The turns that one account gets where it is the only one. */
const ownMax = 16;
/** Half of it is the time that a call waits for its turn, and nothing else sleeps that long. */
const timeoutMs = 22_000;

/** Where a flood of writes of alice waits for the provider, which answers all further calls immediately. */
async function openFlooded(options: Parameters<typeof openKmsWorld>[1] = {}) {
  const world = await openKmsWorld({ SVC_KEY_TIMEOUT: `${timeoutMs}ms` }, options);
  const { double, bob, client } = world;
  const { proxy } = double;
  await bob.put('/of-bob');
  const putOfBob = async (key: string, name?: string) =>
    outcomeOf(await bob.put(`/of-bob/${key}`, { body: 'text', headers: provider(name) }));
  const getOfBob = async (key: string) => outcomeOf(await bob.get(`/of-bob/${key}`));
  expect(await putOfBob('before', 'alias/own')).toEqual(served);
  const gate = Promise.withResolvers<void>();
  const before = proxy.count('GenerateDataKey');
  proxy.before = () => gate.promise;
  const sent = { answered: 0 };
  const put = async (at: string, name: string) => {
    const outcome = outcomeOf(await client.put(at, { body: 'text', headers: provider(name) }));
    sent.answered += 1;
    return outcome;
  };
  const flood = Array.from({ length: writesMax }, (_, at) => put(`/bucket/${at}`, 'alias/own'));
  const stalled = () => proxy.count('GenerateDataKey') - before;
  await vi.waitFor(() => expect(stalled()).toBe(ownMax), { timeout: 60_000, interval: 10 });
  proxy.before = undefined;
  return { world, double, put, putOfBob, getOfBob, flood, sent, gate, stalled };
}

test('writes that the key provider does not answer do not delay reads and writes of another account', async () => {
  const { world, double, putOfBob, getOfBob, flood, sent, gate, stalled } = await openFlooded();
  await using _ = world;
  expect(await getOfBob('before')).toEqual(served);
  expect(double.proxy.count('Decrypt')).toBe(1);
  for (let at = 0; at < keyTurnsMax; at += 1)
    expect(await putOfBob(`beside-${at}`, 'alias/own')).toEqual(served);
  expect([sent.answered, stalled()]).toEqual([0, ownMax + keyTurnsMax]);
  gate.resolve();
  expect(await Promise.all(flood)).toEqual(flood.map(() => served));
});

test('a key that another account named first, in a call that waits for its turn, is asked about immediately', async () => {
  const { world, put, putOfBob, flood, sent, gate } = await openFlooded();
  await using _ = world;
  const waiting = put('/bucket/of-main', 'alias/main');
  expect(await putOfBob('of-main', 'alias/main')).toEqual(served);
  expect(sent.answered).toBe(0);
  gate.resolve();
  expect(await Promise.all([...flood, waiting])).toEqual(Array(writesMax + 1).fill(served));
});

test('a call that gets no turn in half of its time is refused, which says nothing about the provider or the key', async () => {
  const clock = virtualClock(Date.now());
  const { world, putOfBob, flood, gate, stalled } = await openFlooded({ clock });
  await using _ = world;
  const begun = () => clock.slept.filter((ms) => ms === timeoutMs / 2);
  // All writes wait, or have a turn; the write of bob before asked for the description of the key and for a data key.
  await vi.waitFor(() => expect(begun()).toHaveLength(writesMax + 2), { timeout: 60_000, interval: 10 });
  await clock.advance(timeoutMs / 2);
  const refused = await Promise.all(flood.slice(ownMax));
  expect(refused).toEqual(refused.map(() => [503, 'KMSUnavailable']));
  expect(stalled()).toBe(ownMax);
  expect(await putOfBob('beside', 'alias/own')).toEqual(served);
  gate.resolve();
  expect(await Promise.all(flood.slice(0, ownMax))).toEqual(Array(ownMax).fill(served));
});
