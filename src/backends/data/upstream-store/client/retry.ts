/** Retries of failed upstream requests, for as long as a client waits. */
import type { Clock } from '../../../../ports/clock.ts';
import type { Random } from '../../../../ports/random.ts';
import { DataUnavailable } from '../../../../ports/storage/object-bytes.ts';
import { isPassing, UpstreamError } from './upstream-error.ts';

export interface RetryContext {
  readonly clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly random: Random;
}

const attemptsMax = 4;
const pauseFirstMs = 100;
const pauseMaxMs = 2_000;
/** After so long there is no further attempt: clients retry too. */
const patienceMs = 10_000;

/** One series of attempts; `progress` starts it again. */
export class Attempts {
  readonly #ctx: RetryContext;
  readonly #signal: AbortSignal | undefined;
  #failed = 0;
  #since: number;

  constructor(ctx: RetryContext, signal?: AbortSignal) {
    this.#ctx = ctx;
    this.#signal = signal;
    this.#since = ctx.clock.elapsed();
  }

  progress(): void {
    this.#failed = 0;
    this.#since = this.#ctx.clock.elapsed();
  }

  /** Returns after a pause when it is worth another attempt, and throws otherwise: `DataUnavailable` for an outage. */
  async failed(cause: unknown, { isRepeatable }: { readonly isRepeatable: boolean }): Promise<void> {
    this.#signal?.throwIfAborted();
    if (!(cause instanceof UpstreamError) || !isPassing(cause)) throw cause;
    this.#failed += 1;
    const pause = this.#pauseMs(cause);
    const { clock } = this.#ctx;
    const isLate = clock.elapsed() - this.#since + pause > patienceMs;
    if (!isRepeatable || isLate || this.#failed >= attemptsMax)
      throw new DataUnavailable(cause.message, { cause });
    await clock.sleep(pause, this.#signal);
    this.#signal?.throwIfAborted();
  }

  /** Doubling, spread over its second half, and never before the upstream's `Retry-After`. */
  #pauseMs({ retryAfterMs = 0 }: UpstreamError): number {
    const longest = Math.min(pauseFirstMs * 2 ** (this.#failed - 1), pauseMaxMs);
    const share = (this.#ctx.random.bytes(1)[0] ?? 0) / 255;
    return Math.max(retryAfterMs, longest * (0.5 + share / 2));
  }
}

export async function retrying<T>(
  ctx: RetryContext,
  {
    signal,
    isRepeatable = () => true,
  }: { readonly signal?: AbortSignal | undefined; isRepeatable?(): boolean },
  attempt: () => Promise<T>,
): Promise<T> {
  const attempts = new Attempts(ctx, signal);
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      await attempts.failed(cause, { isRepeatable: isRepeatable() });
    }
  }
}
