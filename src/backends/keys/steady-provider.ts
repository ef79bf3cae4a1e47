/** A provider outside of this process, with a limit for the time of each call, bounded retries of unwraps and rewraps, and a circuit breaker. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { SharedSemaphore } from '../../base/mutex.ts';
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
import type { CallUse } from '../../ports/trace.ts';

export interface RemoteProvider extends KeyProvider {
  /**
   * What is known of a key without asking the provider; `stale`: also what is older than it should be. Such an answer
   * says nothing about the provider, so the circuit breaker does not see it.
   */
  describeKnown(keyId: string, age: 'fresh' | 'stale'): KeyDescription | undefined;
}

interface SteadyOptions {
  /** The label of its metrics: the value of SVC_KEY_PROVIDER. */
  readonly name: string;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'log' | 'count' | 'set' | 'observe' | 'know'>;
  /** The limit of a whole call: with its retries, and with probes of the circuit breaker that it waits for. */
  readonly timeoutMs: number;
  /** Calls at a time, in rotation among accounts. Absent where the provider shares out what it has itself. */
  readonly turnsMax?: number;
}

/** Calls that a provider over HTTP carries out at a time. One account alone gets 16 of these turns. */
export const keyTurnsMax = 21;

/** Pauses before the second and third attempt. Only `unwrap` and `rewrap` have them: they change nothing at the provider. */
const retryPausesMs = [50, 250];

function openBreaker(
  { name, clock, telemetry, timeoutMs }: SteadyOptions,
  probe: BreakerOptions['probe'],
): CircuitBreaker {
  const labels = { provider: name };
  telemetry.know('provider', name);
  telemetry.set('svc_key_circuit_open', labels, 0);
  return new CircuitBreaker({
    clock,
    probe,
    timeoutMs,
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
type Once = (asked: Asked, call: () => Promise<KeyDescription>) => Promise<KeyDescription>;

/**
 * Callers of one account and key share a call, which the breaker counts once. A stale description serves while the
 * provider does not answer.
 */
function describer(provider: RemoteProvider, once: Once): Describe {
  const running = new Map<string, Promise<KeyDescription>>();
  const shared: Describe = (keyId, use) => {
    const account = use?.account;
    // A call of another account may wait for its turn.
    const id = `${account ?? ''} ${keyId}`;
    const present = running.get(id);
    if (present !== undefined) return present;
    const asked = { what: 'describe', keyId, account };
    const call = once(asked, () => provider.describe(keyId, use)).finally(() => running.delete(id));
    running.set(id, call);
    return call;
  };
  return async (keyId, use) => {
    const known = provider.describeKnown(keyId, 'fresh');
    if (known !== undefined) return known;
    try {
      return await shared(keyId, use);
    } catch (cause) {
      const stale = isPassing(cause) ? provider.describeKnown(keyId, 'stale') : undefined;
      if (stale !== undefined) return stale;
      throw cause;
    }
  };
}

type Within = <T>(until: number, call: () => Promise<T>) => Promise<T>;

/** Gives calls up at a time of the monotonic clock, and makes a failure of the port of whatever they throw. */
function limiter({ clock, timeoutMs }: Pick<SteadyOptions, 'clock' | 'timeoutMs'>): Within {
  return async (until, call) => {
    const answered = new AbortController();
    const late = clock.sleep(Math.max(1, until - clock.elapsed()), answered.signal).then(() => {
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
  };
}

type BeginTurn = (attempt: Attempt) => Promise<() => void>;

/**
 * Lets calls through in rotation among accounts. One that gets no turn in half of its time is refused, because a call
 * that begins too late would count as one that the provider does not answer.
 */
function turnstile({ clock, timeoutMs, turnsMax }: SteadyOptions): BeginTurn {
  if (turnsMax === undefined) return async () => () => undefined;
  const turns = new SharedSemaphore(turnsMax);
  return async ({ keyId, account = '', until }) => {
    // A probe is of no account, and has a connection of its own.
    if (keyId === undefined) return () => undefined;
    const late = new AbortController();
    const begun = new AbortController();
    void clock.sleep(Math.max(1, until - timeoutMs / 2 - clock.elapsed()), begun.signal).then(() => {
      if (begun.signal.aborted) return;
      const message = `the call got no turn at the key provider within ${timeoutMs / 2} ms`;
      late.abort(new NotAsked('throttled', message));
    });
    try {
      return await turns.begin(account, late.signal);
    } finally {
      begun.abort();
    }
  };
}

/** @returns a function that makes one attempt of a call, in its turn and through the circuit breaker */
function attempter(
  options: SteadyOptions,
  { within, breaker }: { readonly within: Within; readonly breaker: CircuitBreaker },
) {
  const { name, clock, telemetry } = options;
  const beginTurn = turnstile(options);

  /** The duration is that of the call alone: the breaker may probe the provider before and after it. */
  async function measured<T>({ what, until }: Attempt, call: () => Promise<T>): Promise<T> {
    const startedAt = clock.elapsed();
    try {
      return await within(until, call);
    } finally {
      const seconds = (clock.elapsed() - startedAt) / 1000;
      telemetry.observe('svc_backend_duration_seconds', { call: `keys.${what}` }, seconds);
    }
  }

  /** The turn ends when the call does, also where its caller has given it up before. */
  async function inTurn<T>(asked: Attempt, call: () => Promise<T>): Promise<T> {
    breaker.assertLetsThrough(asked);
    const end = await beginTurn(asked);
    let running: Promise<T> | undefined;
    try {
      return await breaker.run(asked, () =>
        measured(asked, () => {
          running = call();
          // Not after `run`, which waits for a probe where the call has failed.
          void running.then(end, end);
          return running;
        }),
      );
    } finally {
      if (running === undefined) end();
    }
  }

  /** With its outcome in the metrics. */
  return async <T>(asked: Attempt, call: () => Promise<T>): Promise<T> => {
    const count = (outcome: KeyFailureReason | 'ok' | 'refused'): void =>
      telemetry.count('svc_key_calls_total', { provider: name, call: asked.what, outcome });
    try {
      const answer = await inTurn(asked, call);
      count('ok');
      return answer;
    } catch (cause) {
      if (cause instanceof KeyFailure) count(cause instanceof NotAsked ? 'refused' : cause.reason);
      throw cause;
    }
  };
}

export function steadyProvider(provider: RemoteProvider, options: SteadyOptions): KeyProvider {
  const { clock, timeoutMs } = options;
  const { rewrap, probe, isStuck } = provider;
  const within = limiter(options);
  const breaker = openBreaker(options, probe && ((until) => within(until, probe)));
  const attempt = attempter(options, { within, breaker });

  const limit = (asked: Asked): Attempt => ({ ...asked, until: clock.elapsed() + timeoutMs });

  const once = <T>(asked: Asked, call: () => Promise<T>): Promise<T> => attempt(limit(asked), call);

  async function retried<T>(asked: Asked, call: () => Promise<T>): Promise<T> {
    const limited = limit(asked);
    let last: unknown;
    for (let tries = 0; ; tries += 1) {
      try {
        return await attempt(limited, call);
      } catch (cause) {
        const pause = retryPausesMs[tries];
        // An open circuit refuses longer than the pauses are, and a call without a turn has no time left. What the attempt
        // before met is then why the call fails.
        if (cause instanceof NotAsked) throw last ?? cause;
        if (!isPassing(cause) || pause === undefined) throw cause;
        if (clock.elapsed() + pause >= limited.until) throw cause;
        last = cause;
        await clock.sleep(pause);
      }
    }
  }

  return {
    isDistant: true,
    describe: describer(provider, once),
    generate: (keyId, context, use) =>
      once(toAsked('generate', keyId, use), () => provider.generate(keyId, context, use)),
    wrap: (keyId, key, context, use) =>
      once(toAsked('wrap', keyId, use), () => provider.wrap(keyId, key, context, use)),
    unwrap: (wrapped, context, use) =>
      retried(toAsked('unwrap', wrapped.keyId, use), () => provider.unwrap(wrapped, context, use)),
    ...(rewrap === undefined
      ? {}
      : {
          rewrap: (wrapped, context, use) =>
            retried(toAsked('rewrap', wrapped.keyId, use), () => rewrap(wrapped, context, use)),
        }),
    ...(probe === undefined ? {} : { probe: () => once({ what: 'probe' }, () => probe()) }),
    circuit: () => breaker.state,
    ...(isStuck === undefined ? {} : { isStuck: () => isStuck() }),
    close: async () => provider.close?.(),
  };
}

/** What is asked of the provider, of which key, and for which account. */
interface Asked {
  readonly what: string;
  readonly keyId?: string | undefined;
  readonly account?: string | undefined;
}

const toAsked = (what: string, keyId: string, use: CallUse | undefined): Asked => ({
  what,
  keyId,
  account: use?.account,
});

interface Attempt extends Asked {
  /** Its caller waits no longer, by the monotonic clock. */
  readonly until: number;
}

/** What fails for itself: a key may be described although each use of it fails. */
const nameSubject = ({ what, keyId }: Asked): string | undefined =>
  keyId === undefined ? undefined : `${what === 'describe' ? 'description' : 'use'} of the key ${keyId}`;

const describe = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

interface BreakerOptions {
  readonly clock: Pick<Clock, 'now' | 'elapsed' | 'sleep'>;
  /** Resolves if the provider answers, whatever becomes of single keys. Rejects at `until`, by the monotonic clock. */
  readonly probe?: ((until: number) => Promise<unknown>) | undefined;
  /** The limit of a probe that no caller has to wait for. */
  readonly timeoutMs: number;
  /** Called when the circuit opens and when it closes. */
  onChange?(state: 'open' | 'closed', cause?: unknown): void;
}

/** Failures in a row that open the circuit, and those of one key after which its calls are refused although the provider answers. */
export const failuresMax = 5;
/** How long an open circuit refuses calls before one is let through, and how long calls for one failing key are refused. */
export const openMs = 5_000;
const failingMax = 4_096;

/** Calls for one key that had no answer. */
interface FailingKey {
  /** In a row. */
  readonly failures: number;
  /** Until when calls for it are refused, by the monotonic clock; absent where the provider may be the cause. */
  readonly restsUntil?: number | undefined;
}

/** Whether the provider answered, although it refused. */
const isAnswer = (cause: unknown): boolean => cause instanceof KeyFailure && cause.reason !== 'unavailable';

/** The provider was not asked. */
class NotAsked extends KeyFailure {}

/**
 * Where the provider can be probed, its answer to that decides whether it fails: a tenant whose own key fails, or whose calls hang, could
 * otherwise close the provider for all by five requests.
 */
class CircuitBreaker {
  readonly #options: BreakerOptions;
  readonly #failing = new BoundedCache<FailingKey>({ name: 'failing-keys', entriesMax: failingMax });
  /** Under way. */
  #probe: Promise<boolean> | undefined;
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

  /** @throws NotAsked while the circuit is open, or the key rests */
  assertLetsThrough(asked: Asked): void {
    const { clock } = this.#options;
    const subject = nameSubject(asked);
    const known = subject === undefined ? undefined : this.#failing.get(subject);
    if (clock.elapsed() < (known?.restsUntil ?? 0))
      throw new NotAsked('key-unavailable', `each ${subject} fails`);
    if (this.#failures >= failuresMax && (this.#isProbing || clock.elapsed() < this.#retryAt))
      throw new NotAsked(
        'unavailable',
        `the key provider failed ${this.#failures} times in a row, last with: ${this.#last?.message}`,
      );
  }

  /**
   * Only `unavailable` counts as a failure. Every other refusal is an answer of the provider, `throttled` too: one account that asks too
   * much would otherwise close the provider for all.
   */
  async run<T>(asked: Attempt, call: () => Promise<T>): Promise<T> {
    this.assertLetsThrough(asked);
    const { probe } = this.#options;
    const subject = nameSubject(asked);
    const known = subject === undefined ? undefined : this.#failing.get(subject);
    const isOpen = this.#failures >= failuresMax;
    this.#isProbing = isOpen;
    // After its rest one call tries the key. The others are refused meanwhile, because each would wait for the whole limit.
    if (subject !== undefined && known?.restsUntil !== undefined) this.#letRest(subject, known.failures);
    let called: string | undefined;
    try {
      if (isOpen && subject !== undefined && probe !== undefined) {
        // The call of the client may be about a key that fails in any case. A call without a key is a probe itself.
        await probe(asked.until).catch((cause: unknown) => {
          // Any other failure is an answer, which is about the probe only: the caller gets that of its own key.
          if (!isAnswer(cause)) throw cause;
        });
        this.#answered();
      }
      called = subject;
      const answer = await call();
      this.#answered(subject);
      return answer;
    } catch (cause) {
      if (!(cause instanceof KeyFailure) || isAnswer(cause)) this.#answered(called);
      // A caller that comes after this one then meets the verdict. A call that took its whole limit does not wait.
      else await this.#wait(this.#failed(cause, called), asked.until);
      throw cause;
    } finally {
      if (isOpen) this.#isProbing = false;
    }
  }

  #letRest(subject: string, failures: number): void {
    this.#failing.set(subject, { failures, restsUntil: this.#options.clock.elapsed() + openMs });
  }

  #answered(subject?: string): void {
    if (subject !== undefined) this.#failing.delete(subject);
    if (this.#failures >= failuresMax) this.#options.onChange?.('closed');
    this.#failures = 0;
    this.#last = undefined;
  }

  async #wait(settled: Promise<void>, until: number): Promise<void> {
    const { clock } = this.#options;
    const ms = until - clock.elapsed();
    if (ms <= 0) return;
    const isSettled = new AbortController();
    await Promise.race([settled, clock.sleep(ms, isSettled.signal)]);
    isSettled.abort();
  }

  /** Resolves once it is known whether the provider fails. Never rejects. */
  async #failed(cause: KeyFailure, subject: string | undefined): Promise<void> {
    const failures = subject === undefined ? 0 : this.#countFailure(subject);
    const { probe } = this.#options;
    if (subject !== undefined && probe !== undefined) {
      // A key rests for its own failures only, and not because it met the last one of many.
      const rests = failures >= failuresMax;
      if (rests) this.#letRest(subject, failures);
      if (rests || this.#failures === failuresMax - 1) {
        if (await this.#doesAnswer(probe)) {
          this.#answered();
          return;
        }
        if (rests) this.#endRest(subject);
      }
    }
    this.#failures += 1;
    this.#last = { message: cause.message, at: this.#options.clock.now() };
    this.#retryAt = this.#options.clock.elapsed() + openMs;
    if (this.#failures === failuresMax) this.#options.onChange?.('open', cause);
  }

  /** The provider may be the cause of the failures, which stay counted. */
  #endRest(subject: string): void {
    const known = this.#failing.get(subject);
    if (known !== undefined) this.#failing.set(subject, { failures: known.failures });
  }

  /** @returns how often the key has failed in a row */
  #countFailure(subject: string): number {
    const known = this.#failing.get(subject);
    const failures = (known?.failures ?? 0) + 1;
    this.#failing.set(subject, { ...known, failures });
    return failures;
  }

  /** Calls that fail together share one probe. It has a limit of its own, because a call that hung has no time left. */
  #doesAnswer(probe: NonNullable<BreakerOptions['probe']>): Promise<boolean> {
    const { clock, timeoutMs } = this.#options;
    this.#probe ??= probe(clock.elapsed() + timeoutMs)
      .then(() => true, isAnswer)
      .finally(() => {
        this.#probe = undefined;
      });
    return this.#probe;
  }
}
