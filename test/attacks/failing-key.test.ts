/** A key of one tenant whose uses fail, beside tenants with sound keys. */
import { expect, test } from 'vitest';
import { failuresMax, openMs } from '../../src/backends/keys/steady-provider.ts';
import { provider } from '../support/encryption.ts';
import { openKmsWorld, outcomeOf, served } from '../support/kms-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const unavailable = [503, 'KMSUnavailable'];

test('a key whose every use is an internal error of the provider is refused for a while, and other keys are served', async () => {
  const clock = virtualClock(Date.now());
  await using world = await openKmsWorld({}, { clock });
  const { double, bob } = world;
  await bob.put('/of-bob');
  const putOfBob = async (key: string) =>
    outcomeOf(await bob.put(`/of-bob/${key}`, { body: 'text', headers: provider() }));
  expect(await putOfBob('before')).toEqual(served);
  expect(await world.put('/bucket/before', 'alias/own')).toEqual(served);

  double.setState(world.own, 'Failing');
  const asked = () => double.proxy.count('GenerateDataKey');
  const before = asked();
  for (let at = 0; at < 4 * failuresMax; at += 1) {
    expect(await world.put('/bucket/key', 'alias/own')).toEqual(unavailable);
    // The provider is not asked for long.
    expect(asked() - before).toBeLessThanOrEqual(failuresMax);
  }
  expect(await putOfBob('beside')).toEqual(served);
  expect(outcomeOf(await bob.get('/of-bob/before'))).toEqual(served);

  double.setState(world.own, 'Enabled');
  expect(await world.put('/bucket/key', 'alias/own')).toEqual(unavailable);
  await clock.advance(openMs);
  expect(await world.put('/bucket/key', 'alias/own')).toEqual(served);
});

test('a failing key does not keep the circuit open once the provider answers again', async () => {
  const clock = virtualClock(Date.now());
  await using world = await openKmsWorld({}, { clock });
  const { double, bob } = world;
  await bob.put('/of-bob');
  double.setState(world.own, 'Failing');
  double.proxy.fault = { status: 500 };
  for (let at = 0; at < 2 * failuresMax; at += 1)
    expect(await world.put('/bucket/key', 'alias/own')).toEqual(unavailable);
  const putOfBob = async () => outcomeOf(await bob.put('/of-bob/key', { body: 'text', headers: provider() }));
  expect(await putOfBob()).toEqual(unavailable);
  double.proxy.fault = undefined;
  await clock.advance(openMs);
  expect(await world.put('/bucket/key', 'alias/own')).toEqual(unavailable);
  expect(await putOfBob()).toEqual(served);
});

/** Where one key fails, and bob's does once. */
async function openFailing() {
  const clock = virtualClock(Date.now());
  const world = await openKmsWorld({}, { clock });
  const { double, bob } = world;
  await bob.put('/of-bob');
  const putOfBob = async () => outcomeOf(await bob.put('/of-bob/key', { body: 'text', headers: provider() }));
  expect(await putOfBob()).toEqual(served);
  expect(await world.put('/bucket/before', 'alias/own')).toEqual(served);
  double.setState(world.own, 'Failing');
  const fail = () => world.put('/bucket/key', 'alias/own');
  const asked = () => double.proxy.count('GenerateDataKey');
  return { clock, world, double, putOfBob, fail, asked };
}

test('a key is not refused for a while because it met one failure after four of another key', async () => {
  const { world, double, putOfBob, fail, asked } = await openFailing();
  await using _ = world;
  for (let at = 0; at < failuresMax - 1; at += 1) expect(await fail()).toEqual(unavailable);
  Object.assign(double.proxy, { fault: { status: 500 }, on: 'GenerateDataKey' });
  expect(await putOfBob()).toEqual(unavailable);
  double.proxy.fault = undefined;
  expect(await putOfBob()).toEqual(served);
  // The fifth of the other key is counted for it.
  expect(await fail()).toEqual(unavailable);
  const before = asked();
  expect(await fail()).toEqual(unavailable);
  expect(asked()).toBe(before);
});

test('a failing key is refused for a while although uses of other keys succeed between', async () => {
  const { clock, world, double, putOfBob, fail, asked } = await openFailing();
  await using _ = world;
  for (let at = 0; at < failuresMax; at += 1) {
    expect(await fail()).toEqual(unavailable);
    expect(await putOfBob()).toEqual(served);
  }
  const before = asked();
  for (let at = 0; at < failuresMax; at += 1) expect(await fail()).toEqual(unavailable);
  expect(asked()).toBe(before);

  // After each rest one call asks, and those beside it do not wait for the answer.
  for (let rest = 1; rest <= 3; rest += 1) {
    await clock.advance(openMs);
    expect(await Promise.all([fail(), fail(), fail()])).toEqual([unavailable, unavailable, unavailable]);
    expect(asked()).toBe(before + rest);
  }
  double.setState(world.own, 'Enabled');
  await clock.advance(openMs);
  expect(await fail()).toEqual(served);
  expect(await Promise.all([fail(), fail(), fail()])).toEqual([served, served, served]);
});

test('a caller that is let through the open circuit gets the answer of its own key, not that of the probe', async () => {
  const clock = virtualClock(Date.now());
  await using world = await openKmsWorld({}, { clock });
  const { double, bob } = world;
  await bob.put('/of-bob');
  const putOfBob = async () => outcomeOf(await bob.put('/of-bob/key', { body: 'text', headers: provider() }));
  expect(await putOfBob()).toEqual(served);
  double.proxy.fault = { status: 500 };
  for (let at = 0; at < 2 * failuresMax; at += 1)
    expect(await world.put('/bucket/key', 'alias/own')).toEqual(unavailable);
  // The service answers again, and takes no more questions of the kind that a probe asks.
  const body = JSON.stringify({ __type: 'ThrottlingException', message: 'too many' });
  Object.assign(double.proxy, { fault: { status: 400, body }, on: 'DescribeKey' });
  await clock.advance(openMs);
  expect(await putOfBob()).toEqual(served);
});
