/** A key provider outside of this process: limits of time, retries of unwraps only, and the circuit breaker. */
import { expect, test } from 'vitest';
import { failuresMax, openMs } from '../../src/backends/keys/common/circuit-breaker.ts';
import { steadyProvider } from '../../src/backends/keys/common/steady-provider.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../src/ports/crypto/key-provider.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const wrapped = { keyId: 'key', wrapped: new Uint8Array(1) };

function open() {
  const clock = virtualClock();
  const state = { calls: 0, answer: 'ok' as KeyFailureReason | 'ok' | 'hang' | 'bug' };
  const logged: string[] = [];
  const call = async <T>(value: T): Promise<T> => {
    state.calls += 1;
    if (state.answer === 'hang') return new Promise(() => undefined);
    if (state.answer === 'bug') throw new TypeError('a bug');
    if (state.answer !== 'ok') throw new KeyFailure(state.answer, 'so');
    return value;
  };
  const inner: KeyProvider = {
    describe: (keyId) => call({ keyId, encryptsFor: 'every', decryptsFor: 'every' }),
    generate: (keyId) => call({ keyId, key: new Uint8Array(32), wrapped: new Uint8Array(1) }),
    wrap: () => call(wrapped),
    unwrap: () => call(new Uint8Array(32)),
  };
  const telemetry = { ...silentTelemetry, log: (_: string, message: string) => void logged.push(message) };
  const provider = steadyProvider(inner, { clock, telemetry, timeoutMs: 5_000 });
  const outcome = async (asked: Promise<unknown>) => {
    const settled = asked.then(
      () => 'ok',
      (cause: unknown) => (cause instanceof KeyFailure ? cause.reason : cause),
    );
    await clock.advance(10_000);
    return settled;
  };
  return { clock, state, logged, provider, outcome };
}

test('an unwrap is tried three times, a wrap once', async () => {
  const { state, provider, outcome } = open();
  state.answer = 'unavailable';
  expect(await outcome(provider.unwrap(wrapped, {}))).toBe('unavailable');
  expect(state.calls).toBe(3);
  expect(await outcome(provider.wrap('key', new Uint8Array(32), {}))).toBe('unavailable');
  expect(state.calls).toBe(4);
});

test('an answer is not asked for again, whatever it says', async () => {
  const { state, provider, outcome } = open();
  for (const answer of ['denied', 'tampered', 'unknown-key'] as const) {
    state.calls = 0;
    state.answer = answer;
    for (let i = 0; i < 2 * failuresMax; i += 1)
      expect(await outcome(provider.unwrap(wrapped, {}))).toBe(answer);
    expect(state.calls).toBe(2 * failuresMax);
  }
});

test('a provider that hangs is given up after the limit, and other errors are failures of the port', async () => {
  const { state, provider, outcome } = open();
  state.answer = 'hang';
  expect(await outcome(provider.generate('key', {}))).toBe('unavailable');
  state.answer = 'bug';
  expect(await outcome(provider.generate('key', {}))).toBe('unavailable');
});

test('the circuit opens after failures in a row; then one call tries whether it may close', async () => {
  const { clock, state, logged, provider } = open();
  const ask = () =>
    provider.generate('key', {}).then(
      () => 'ok',
      ({ reason }: KeyFailure) => reason,
    );
  state.answer = 'unavailable';
  for (let i = 0; i < failuresMax + 3; i += 1) expect(await ask()).toBe('unavailable');
  expect([state.calls, logged.length]).toEqual([failuresMax, 1]);
  await clock.advance(openMs);
  expect(await Promise.all([ask(), ask(), ask()])).toEqual(Array(3).fill('unavailable'));
  expect(state.calls).toBe(failuresMax + 1);
  state.answer = 'ok';
  expect(await ask()).toBe('unavailable');
  await clock.advance(openMs);
  expect(await ask()).toBe('ok');
  expect(await Promise.all([ask(), ask()])).toEqual(['ok', 'ok']);
  expect(logged).toHaveLength(2);
});
