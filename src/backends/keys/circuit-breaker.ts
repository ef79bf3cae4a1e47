/**
 * Refuses calls to a provider that failed several times in a row, so that requests do not wait for it. After a pause one call is let
 * through; its outcome closes the circuit or opens it again.
 */
import type { Clock } from '../../ports/clock.ts';
import { type KeyCircuit, KeyFailure } from '../../ports/key-provider.ts';

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
export class CircuitOpen extends KeyFailure {}

export class CircuitBreaker {
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
