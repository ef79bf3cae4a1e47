/** A provider outside of this process, with a limit for the time of each call, bounded retries of unwraps, and a circuit breaker. */
import type { Clock } from '../../ports/clock.ts';
import {
  isPassing,
  type KeyCircuit,
  type KeyDescription,
  KeyFailure,
  type KeyFailureReason,
  type KeyProvider,
} from '../../ports/key-provider.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

export interface RemoteProvider extends KeyProvider {
  /**
   * What is known of a key without asking the provider; `stale`: also what is older than it should be. Such an answer says nothing about the
   * provider, so the circuit breaker does not see it.
   */
  describeKnown(keyId: string, age: 'fresh' | 'stale'): KeyDescription | undefined;
}

interface SteadyOptions {
  /** The label of its metrics: the value of SVC_KEY_PROVIDER. */
  readonly name: string;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'log' | 'count' | 'set' | 'observe' | 'know'>;
  /** The limit of a whole call, its retries included. */
  readonly timeoutMs: number;
}

/** Pauses before the second and third attempt. Only `unwrap` has them: it changes nothing at the provider. */
const retryPausesMs = [50, 250];

function openBreaker({ name, clock, telemetry }: Omit<SteadyOptions, 'timeoutMs'>): CircuitBreaker {
  const labels = { provider: name };
  telemetry.know('provider', name);
  telemetry.set('svc_key_circuit_open', labels, 0);
  return new CircuitBreaker({
    clock,
    onChange(state, cause) {
      telemetry.set('svc_key_circuit_open', labels, state === 'open' ? 1 : 0);
      if (state === 'open') telemetry.count('svc_key_circuit_opened_total', labels);
      if (state === 'closed') telemetry.log('INFO', 'the key provider answers again');
      else
        telemetry.log('ERROR', 'the key provider does not answer; calls to it are refused for a while', {
          cause,
        });
    },
  });
}

type Describe = KeyProvider['describe'];
type Once = (call: () => Promise<KeyDescription>) => Promise<KeyDescription>;

/** Callers of one key share a call, which the breaker counts once. A stale description serves while the provider does not answer. */
function describer(provider: RemoteProvider, once: Once): Describe {
  const running = new Map<string, Promise<KeyDescription>>();
  const shared: Describe = (keyId, about) => {
    const present = running.get(keyId);
    if (present !== undefined) return present;
    const call = once(() => provider.describe(keyId, about)).finally(() => running.delete(keyId));
    running.set(keyId, call);
    return call;
  };
  return async (keyId, about) => {
    const known = provider.describeKnown(keyId, 'fresh');
    if (known !== undefined) return known;
    try {
      return await shared(keyId, about);
    } catch (cause) {
      const stale = isPassing(cause) ? provider.describeKnown(keyId, 'stale') : undefined;
      if (stale !== undefined) return stale;
      throw cause;
    }
  };
}

export function steadyProvider(
  provider: RemoteProvider,
  { name, clock, telemetry, timeoutMs }: SteadyOptions,
): KeyProvider {
  const breaker = openBreaker({ name, clock, telemetry });

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

  /** One attempt, with its outcome and duration in the metrics. */
  async function attempt<T>(what: string, ms: number, call: () => Promise<T>): Promise<T> {
    const startedAt = clock.elapsed();
    const measured = (): void => {
      const seconds = (clock.elapsed() - startedAt) / 1000;
      telemetry.observe('svc_backend_duration_seconds', { call: `keys.${what}` }, seconds);
    };
    const count = (outcome: KeyFailureReason | 'ok' | 'refused'): void =>
      telemetry.count('svc_key_calls_total', { provider: name, call: what, outcome });
    try {
      const answer = await breaker.run(() => within(ms, call));
      measured();
      count('ok');
      return answer;
    } catch (cause) {
      const isRefused = cause instanceof CircuitOpen;
      if (!isRefused) measured();
      if (cause instanceof KeyFailure) count(isRefused ? 'refused' : cause.reason);
      throw cause;
    }
  }

  const once = <T>(what: string, call: () => Promise<T>): Promise<T> => attempt(what, timeoutMs, call);

  async function retried<T>(what: string, call: () => Promise<T>): Promise<T> {
    const until = clock.elapsed() + timeoutMs;
    for (let tries = 0; ; tries += 1) {
      try {
        return await attempt(what, Math.max(1, until - clock.elapsed()), call);
      } catch (cause) {
        const pause = retryPausesMs[tries];
        if (!isPassing(cause) || pause === undefined || clock.elapsed() + pause >= until) throw cause;
        await clock.sleep(pause);
      }
    }
  }

  const { rewrap, probe, isStuck } = provider;
  return {
    isDistant: true,
    describe: describer(provider, (call) => once('describe', call)),
    generate: (...asked) => once('generate', () => provider.generate(...asked)),
    wrap: (...asked) => once('wrap', () => provider.wrap(...asked)),
    unwrap: (...asked) => retried('unwrap', () => provider.unwrap(...asked)),
    ...(rewrap === undefined ? {} : { rewrap: (...asked) => retried('rewrap', () => rewrap(...asked)) }),
    ...(probe === undefined ? {} : { probe: () => once('probe', () => probe()) }),
    circuit: () => breaker.state,
    ...(isStuck === undefined ? {} : { isStuck: () => isStuck() }),
    close: async () => provider.close?.(),
  };
}

const describe = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

interface BreakerOptions {
  readonly clock: Pick<Clock, 'now' | 'elapsed'>;
  /** Called when the circuit opens and when it closes. */
  onChange?(state: 'open' | 'closed', cause?: unknown): void;
}

/** Failures in a row that open the circuit. */
export const failuresMax = 5;
/** How long an open circuit refuses calls before one is let through. */
export const openMs = 5_000;

/** The provider was not asked. */
class CircuitOpen extends KeyFailure {}

class CircuitBreaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #retryAt = 0;
  #isProbing = false;
  #last: KeyCircuit['lastFailure'];

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get state(): KeyCircuit {
    return { isOpen: this.#failures >= failuresMax, failures: this.#failures, lastFailure: this.#last };
  }

  /**
   * Only `unavailable` counts as a failure. Every other refusal is an answer of the provider, `throttled` too: one account that asks too
   * much would otherwise close the provider for all.
   */
  async run<T>(call: () => Promise<T>): Promise<T> {
    const isOpen = this.#failures >= failuresMax;
    if (isOpen && (this.#isProbing || this.#options.clock.elapsed() < this.#retryAt))
      throw new CircuitOpen(
        'unavailable',
        `the key provider failed ${this.#failures} times in a row, last with: ${this.#last?.message}`,
      );
    this.#isProbing = isOpen;
    try {
      const answer = await call();
      this.#answered();
      return answer;
    } catch (cause) {
      if (cause instanceof KeyFailure && cause.reason === 'unavailable') this.#failed(cause);
      else this.#answered();
      throw cause;
    } finally {
      if (isOpen) this.#isProbing = false;
    }
  }

  #answered(): void {
    if (this.#failures >= failuresMax) this.#options.onChange?.('closed');
    this.#failures = 0;
    this.#last = undefined;
  }

  #failed(cause: KeyFailure): void {
    this.#failures += 1;
    this.#last = { message: cause.message, at: this.#options.clock.now() };
    this.#retryAt = this.#options.clock.elapsed() + openMs;
    if (this.#failures === failuresMax) this.#options.onChange?.('open', cause);
  }
}
