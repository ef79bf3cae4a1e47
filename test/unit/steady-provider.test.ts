/** A key provider outside of this process: limits of time, retries of unwraps only, and the circuit breaker. */

import { describe, expect, test } from 'vitest';
import {
  failuresMax,
  openMs,
  type RemoteProvider,
  steadyProvider,
} from '../../src/backends/keys/steady-provider.ts';
import { KeyFailure, type KeyFailureReason } from '../../src/ports/key-provider.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import { onCount, onSet } from '../support/metric-calls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const limitMs = 5_000;
const wrapped = { keyId: 'key', wrapped: new Uint8Array(1) };

/** @param double with `isProbed` it can be probed */
function open({ isProbed = false, ...turns }: { isProbed?: boolean; turnsMax?: number } = {}) {
  const clock = virtualClock();
  const state = { calls: 0, answer: 'ok' as KeyFailureReason | 'ok' | 'hang' | 'bug', ms: 0 };
  const probe = { calls: 0, answer: 'ok' as KeyFailureReason | 'ok', ms: 0 };
  const logged: string[] = [];
  const counted: string[] = [];
  /** Such as `keys.generate 0.5`, in seconds. */
  const measured: string[] = [];
  const call = async <T>(value: T): Promise<T> => {
    state.calls += 1;
    if (state.ms > 0) await clock.sleep(state.ms);
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
    ...(isProbed && {
      probe: async () => {
        probe.calls += 1;
        const { answer } = probe;
        await clock.sleep(probe.ms);
        if (answer !== 'ok') throw new KeyFailure(answer, 'no answer to a probe');
      },
    }),
  };
  const telemetry = {
    ...silentTelemetry,
    log: (_: string, message: string) => void logged.push(message),
    observe: (...[, labels, seconds]: Parameters<Telemetry['observe']>) =>
      void measured.push(`${Object(labels).call} ${seconds}`),
    ...onCount({
      svc_key_calls_total: ({ provider, call, outcome }) =>
        void counted.push([provider, call, outcome].join(' ')),
    }),
    ...onSet({
      svc_key_circuit_open: ({ provider }, open) =>
        void counted.push(`${provider} ${open === 1 ? 'open' : 'closed'}`),
    }),
  };
  const provider = steadyProvider(inner, { name: 'double', clock, telemetry, timeoutMs: limitMs, ...turns });
  const outcome = async (asked: Promise<unknown>) => {
    const settled = asked.then(
      () => 'ok',
      (cause: unknown) => (cause instanceof KeyFailure ? cause.reason : cause),
    );
    await clock.advance(10_000);
    return settled;
  };
  /** After how many ms, and with which message, it is refused. */
  const refusal = async (asked: Promise<unknown>) => {
    const startedAt = clock.elapsed();
    const settled = asked.then(
      () => 'ok',
      ({ message }: Error) => `${clock.elapsed() - startedAt} ms: ${message}`,
    );
    await clock.advance(2 * limitMs);
    return settled;
  };
  return { clock, state, probe, logged, counted, measured, provider, outcome, refusal };
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

describe('a provider that can be probed', () => {
  /** The failures of a key, but for the one that makes the breaker ask. */
  async function openNearlyFailing() {
    const world = open({ isProbed: true });
    const generate = (keyId = 'key') => world.provider.generate(keyId, {});
    world.state.answer = 'unavailable';
    for (let i = 1; i < failuresMax; i += 1) expect(await world.outcome(generate())).toBe('unavailable');
    expect(world.probe.calls).toBe(0);
    return { ...world, generate };
  }

  /** Where the circuit has opened, and its pause has passed. */
  async function openHalfOpen() {
    const world = await openNearlyFailing();
    world.probe.answer = 'unavailable';
    expect(await world.outcome(world.generate())).toBe('unavailable');
    expect(world.provider.circuit?.()).toMatchObject({ isOpen: true, failures: failuresMax });
    world.probe.calls = 0;
    world.state.calls = 0;
    return world;
  }

  const tooLate = `${limitMs} ms: the key provider did not answer within ${limitMs} ms`;

  test('a call takes the limit at most, although it hangs and the probe hangs too', async () => {
    const { state, probe, generate, refusal } = await openNearlyFailing();
    state.answer = 'hang';
    probe.ms = 10 * limitMs;
    expect(await refusal(generate())).toBe(tooLate);
    expect(probe.calls).toBe(1);
  });

  test.each([0, 2_000])(
    'a call that fails after %i ms waits for the verdict of a probe, for the limit at most',
    async (ms) => {
      const { clock, state, probe, generate, provider, refusal } = await openNearlyFailing();
      state.ms = ms;
      probe.ms = 10 * limitMs;
      await clock.advance(openMs);
      expect(await refusal(generate())).toBe(`${limitMs} ms: so`);
      expect(provider.circuit?.()).toMatchObject({ isOpen: true });
    },
  );

  test('a call that is let through the open circuit takes the limit at most, its probe included', async () => {
    const { clock, state, probe, generate, refusal } = await openHalfOpen();
    Object.assign(probe, { answer: 'ok', ms: 10 * limitMs });
    expect(await refusal(generate())).toBe(tooLate);
    await clock.advance(openMs);
    expect(state.calls).toBe(0);

    probe.ms = limitMs - 2_000;
    state.answer = 'hang';
    expect(await refusal(generate())).toBe(tooLate);
    // Behind the call that hangs, the provider is probed again.
    expect([state.calls, probe.calls]).toEqual([1, 3]);
  });

  test('a key rests while the provider is probed for it, and after that only if the provider answered', async () => {
    const { clock, state, probe, generate, provider } = await openNearlyFailing();
    state.answer = 'hang';
    probe.ms = 3_000;
    const ask = (keyId?: string) =>
      generate(keyId).then(
        () => 'ok',
        ({ reason }: KeyFailure) => reason,
      );
    const last = ask();
    await clock.advance(limitMs);
    expect(await last).toBe('unavailable');
    const before = state.calls;
    expect(await ask()).toBe('key-unavailable');
    await clock.advance(probe.ms);
    expect(await ask()).toBe('key-unavailable');
    expect(state.calls).toBe(before);

    // After its rest it hangs again, and now the provider does not answer either.
    await clock.advance(openMs);
    Object.assign(probe, { answer: 'unavailable' });
    const again = ask();
    await clock.advance(limitMs);
    expect(await again).toBe('unavailable');
    await clock.advance(probe.ms);
    Object.assign(state, { answer: 'ok', calls: 0 });
    expect(provider.circuit?.()).toMatchObject({ isOpen: false, failures: 1 });
    expect(await Promise.all([ask(), ask(), ask()])).toEqual(['ok', 'ok', 'ok']);
  });

  test('an answer to the probe of the breaker closes the circuit that opened meanwhile, and is seen', async () => {
    const { clock, probe, logged, counted, generate, provider } = await openNearlyFailing();
    probe.ms = 3_000;
    const last = generate().catch(({ reason }: KeyFailure) => reason);
    await clock.settle();
    Object.assign(probe, { answer: 'unavailable', ms: 1_000 });
    const byOperator = provider.probe?.().catch(({ reason }: KeyFailure) => reason);
    await clock.advance(1_000);
    expect(await byOperator).toBe('unavailable');
    expect(provider.circuit?.()).toMatchObject({ isOpen: true, failures: failuresMax });
    await clock.advance(2_000);
    expect(await last).toBe('unavailable');
    expect(provider.circuit?.()).toEqual({ isOpen: false, failures: 0, lastFailure: undefined });
    expect(counted.filter((each) => /open|closed/.test(each)).slice(-2)).toEqual([
      'double open',
      'double closed',
    ]);
    expect(logged).toHaveLength(2);
  });

  test('the durations of calls do not include its probes', async () => {
    const { clock, state, probe, measured, generate, outcome } = await openNearlyFailing();
    measured.length = 0;
    Object.assign(probe, { answer: 'unavailable', ms: 3_000 });
    expect(await outcome(generate())).toBe('unavailable');
    expect(measured).toEqual(['keys.generate 0']);
    await clock.advance(openMs);
    // The probe refuses it, so it is no call.
    expect(await outcome(generate())).toBe('unavailable');
    expect(measured).toEqual(['keys.generate 0']);
    await clock.advance(openMs);
    probe.answer = 'ok';
    state.answer = 'ok';
    expect(await outcome(generate())).toBe('ok');
    expect(measured).toEqual(['keys.generate 0', 'keys.generate 0']);
  });

  test.each(['denied', 'throttled', 'unknown-key', 'key-unavailable'] as const)(
    'a caller that is let through the open circuit gets the answer of its own key where the probe was answered %s',
    async (answer) => {
      const { clock, state, probe, generate, provider, outcome } = await openHalfOpen();
      await clock.advance(openMs);
      probe.answer = answer;
      state.answer = 'ok';
      expect(await outcome(generate('of another account'))).toBe('ok');
      expect([probe.calls, state.calls]).toEqual([1, 1]);
      expect(provider.circuit?.()).toEqual({ isOpen: false, failures: 0, lastFailure: undefined });
    },
  );

  test("an operator's probe through the open circuit asks the provider once, and closes it", async () => {
    const { probe, provider, outcome } = await openHalfOpen();
    expect(await outcome(provider.probe?.() ?? Promise.reject())).toBe('unavailable');
    expect([probe.calls, provider.circuit?.().failures]).toEqual([1, failuresMax + 1]);
    probe.answer = 'ok';
    expect(await outcome(provider.probe?.() ?? Promise.reject())).toBe('ok');
    expect([probe.calls, provider.circuit?.()]).toEqual([
      2,
      { isOpen: false, failures: 0, lastFailure: undefined },
    ]);
  });
});

test('an unwrap that is refused without asking is not tried again', async () => {
  const { state, clock, counted, provider, outcome } = open();
  state.answer = 'unavailable';
  for (let i = 0; i < failuresMax - 1; i += 1) await outcome(provider.generate('key', {}));
  const last = provider.generate('key', {}).catch(({ reason }: KeyFailure) => reason);
  expect(await last).toBe('unavailable');
  state.calls = 0;
  const startedAt = clock.elapsed();
  expect(await provider.unwrap(wrapped, {}).catch(({ message }: Error) => message)).toContain('in a row');
  expect([state.calls, clock.elapsed() - startedAt]).toEqual([0, 0]);
  expect(counted.filter((each) => each === 'double unwrap refused')).toHaveLength(1);
});

test('an unwrap whose retry gets no turn fails as the provider did, not for the turn', async () => {
  const { state, clock, provider, outcome } = open({ turnsMax: 1 });
  state.answer = 'unavailable';
  state.ms = 0.6 * limitMs;
  const unwrapped = provider.unwrap(wrapped, {});
  const failed = unwrapped.catch(({ reason, message }: KeyFailure) => [reason, message]);
  await clock.advance(0.5 * limitMs);
  // It has the turn from the first failure on.
  const other = provider.generate('key', {});
  other.catch(() => undefined);
  await clock.advance(limitMs);
  expect(await failed).toEqual(['unavailable', 'so']);
  expect(state.calls).toBe(2);
  expect(await outcome(other)).toBe('unavailable');
});
