/** A provider outside of this process, with a limit for the time of each call, bounded retries of unwraps, and a circuit breaker. */
import type { Clock } from '../../../ports/clock.ts';
import { KeyFailure, type KeyProvider } from '../../../ports/crypto/key-provider.ts';
import type { Telemetry } from '../../../ports/telemetry.ts';
import { CircuitBreaker } from './circuit-breaker.ts';

export interface SteadyOptions {
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'log'>;
  /** The limit of a whole call, its retries included. */
  readonly timeoutMs: number;
}

/** Pauses before the second and third attempt. Only `unwrap` has them: it changes nothing at the provider. */
const retryPausesMs = [50, 250];

export function steadyProvider(
  provider: KeyProvider,
  { clock, telemetry, timeoutMs }: SteadyOptions,
): KeyProvider {
  const breaker = new CircuitBreaker({
    clock,
    onChange: (state, cause) =>
      state === 'open'
        ? telemetry.log('ERROR', 'the key provider does not answer; calls to it are refused for a while', {
            cause,
          })
        : telemetry.log('INFO', 'the key provider answers again'),
  });

  async function within<T>(ms: number, call: () => Promise<T>): Promise<T> {
    const answered = new AbortController();
    const late = clock.sleep(ms, answered.signal).then(() => {
      throw new KeyFailure('unavailable', `the key provider did not answer within ${timeoutMs} ms`);
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([call(), late]);
    } catch (cause) {
      if (cause instanceof KeyFailure) throw cause;
      throw new KeyFailure('unavailable', describe(cause), { cause });
    } finally {
      answered.abort();
    }
  }

  const once = <T>(call: () => Promise<T>): Promise<T> => breaker.run(() => within(timeoutMs, call));

  async function retried<T>(call: () => Promise<T>): Promise<T> {
    const until = clock.elapsed() + timeoutMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await breaker.run(() => within(Math.max(1, until - clock.elapsed()), call));
      } catch (cause) {
        const pause = retryPausesMs[attempt];
        const isTransient = cause instanceof KeyFailure && cause.reason === 'unavailable';
        if (!isTransient || pause === undefined || clock.elapsed() + pause >= until) throw cause;
        await clock.sleep(pause);
      }
    }
  }

  const { rewrap, probe, isStuck } = provider;
  return {
    isDistant: true,
    describe: (...asked) => once(() => provider.describe(...asked)),
    generate: (...asked) => once(() => provider.generate(...asked)),
    wrap: (...asked) => once(() => provider.wrap(...asked)),
    unwrap: (...asked) => retried(() => provider.unwrap(...asked)),
    ...(rewrap === undefined ? {} : { rewrap: (...asked) => retried(() => rewrap(...asked)) }),
    ...(probe === undefined ? {} : { probe: () => once(() => probe()) }),
    ...(isStuck === undefined ? {} : { isStuck: () => isStuck() }),
    close: async () => provider.close?.(),
  };
}

const describe = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
