/** A key provider outside of this process: limits of time, retries of unwraps only, and the circuit breaker. */

import { expect, test } from 'vitest';
import {
  failuresMax,
  openMs,
  type RemoteProvider,
  steadyProvider,
} from '../../src/backends/keys/steady-provider.ts';
import { KeyFailure, type KeyFailureReason } from '../../src/ports/key-provider.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { onCount, onSet } from '../support/metric-calls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const wrapped = { keyId: 'key', wrapped: new Uint8Array(1) };

function open() {
  const clock = virtualClock();
  const state = { calls: 0, answer: 'ok' as KeyFailureReason | 'ok' | 'hang' | 'bug' };
  const logged: string[] = [];
  const counted: string[] = [];
  const call = async <T>(value: T): Promise<T> => {
    state.calls += 1;
    if (state.answer === 'hang') return new Promise(() => undefined);
    if (state.answer === 'bug') throw new TypeError('a bug');
    if (state.answer !== 'ok') throw new KeyFailure(state.answer, 'so');
    return value;
  };
  const inner: RemoteProvider = {
    describeKnown: (keyId) =>
      keyId === 'local' ? { keyId, encryptsFor: 'every', decryptsFor: 'every' } : undefined,
    describe: (keyId) => call({ keyId, encryptsFor: 'every', decryptsFor: 'every' }),
    generate: (keyId) => call({ keyId, key: new Uint8Array(32), wrapped: new Uint8Array(1) }),
    wrap: () => call(wrapped),
    unwrap: () => call(new Uint8Array(32)),
  };
  const telemetry = {
    ...silentTelemetry,
    log: (_: string, message: string) => void logged.push(message),
    ...onCount({
      svc_key_calls_total: ({ provider, call, outcome }) =>
        void counted.push([provider, call, outcome].join(' ')),
    }),
    ...onSet({
      svc_key_circuit_open: ({ provider }, open) =>
        void counted.push(`${provider} ${open === 1 ? 'open' : 'closed'}`),
    }),
  };
  const provider = steadyProvider(inner, { name: 'double', clock, telemetry, timeoutMs: 5_000 });
  const outcome = async (asked: Promise<unknown>) => {
    const settled = asked.then(
      () => 'ok',
      (cause: unknown) => (cause instanceof KeyFailure ? cause.reason : cause),
    );
    await clock.advance(10_000);
    return settled;
  };
  return { clock, state, logged, counted, provider, outcome };
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

test('throttling, and one key that is away, are tried again and never open the circuit', async () => {
  const { state, counted, provider, outcome } = open();
  for (const answer of ['throttled', 'key-unavailable'] as const) {
    state.calls = 0;
    state.answer = answer;
    for (let i = 0; i < 2 * failuresMax; i += 1)
      expect(await outcome(provider.generate('key', {}))).toBe(answer);
    expect(state.calls).toBe(2 * failuresMax);
    expect(await outcome(provider.unwrap(wrapped, {}))).toBe(answer);
    expect(state.calls).toBe(2 * failuresMax + 3);
    expect(counted.filter((each) => each === `double generate ${answer}`)).toHaveLength(2 * failuresMax);
  }
  expect([provider.circuit?.(), counted.includes('double open')]).toEqual([
    { isOpen: false, failures: 0, lastFailure: undefined },
    false,
  ]);
});

test('callers who ask about one key together share a call, and its failure counts once', async () => {
  const { state, provider, outcome } = open();
  state.answer = 'unavailable';
  const together = Array.from({ length: 3 * failuresMax }, () => provider.describe('key'));
  expect(await Promise.all(together.map(outcome))).toEqual(together.map(() => 'unavailable'));
  expect([state.calls, provider.circuit?.().failures]).toEqual([1, 1]);
  state.answer = 'ok';
  expect(await outcome(provider.describe('key'))).toBe('ok');
  expect(state.calls).toBe(2);
});

test('a description that needs no call neither closes the circuit nor is refused by it', async () => {
  const { clock, state, counted, provider, outcome } = open();
  state.answer = 'unavailable';
  for (let i = 0; i < failuresMax; i += 1) {
    expect(await outcome(provider.describe('local'))).toBe('ok');
    expect(await outcome(provider.generate('key', {}))).toBe('unavailable');
  }
  expect(provider.circuit?.()).toEqual({
    isOpen: true,
    failures: failuresMax,
    lastFailure: { message: 'so', at: expect.any(Number) },
  });
  expect(state.calls).toBe(failuresMax);
  expect(await provider.describe('local')).toMatchObject({ keyId: 'local' });
  expect(provider.circuit?.().isOpen).toBe(true);
  // The time that `outcome` lets pass has ended the pause, so the next call tries.
  const asked = () => provider.generate('key', {}).catch(({ message }: Error) => message);
  expect([await asked(), await asked()]).toEqual(['so', expect.stringContaining('failed 6 times')]);
  expect(counted.slice(-2)).toEqual(['double generate unavailable', 'double generate refused']);
  await clock.advance(openMs);
  state.answer = 'ok';
  expect(await outcome(provider.generate('key', {}))).toBe('ok');
  expect(counted.filter((each) => !each.includes('generate'))).toEqual([
    'double closed',
    'double open',
    'double closed',
  ]);
});
