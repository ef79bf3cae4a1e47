/**
 * The rest of a worker that has found nothing to do. Where the store tells cheaply whether any process has committed, the worker looks for
 * work again only after a commit or at a due time. It checks for both as often as it would look, so work begins as early as with looks.
 */
import type { Clock } from '../../ports/clock.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import type { Pulses } from './pulses.ts';

/** A rest up to this length is shared with other workers. */
const sharedRestMs = 60_000;
/** The longest time without a look, in case the clock of the store jumps. Heartbeats are commits too. */
const quietMaxMs = 90_000;
/** Rests in front of a distant store are shorter by up to this share, so that processes do not look at the same instants. */
const jitter = 0.2;

const always = (): number => Number.NEGATIVE_INFINITY;

interface IdleContext {
  readonly metadata: Pick<MetadataStore, 'watchCommits' | 'isDistant'>;
  readonly clock: Clock;
  readonly random: Random;
}

export class IdleRest {
  readonly #ctx: IdleContext;
  readonly #pulses: Pulses | undefined;
  #hasChanged: (() => boolean) | undefined;
  #due = always;

  /** @param pulses absent: it rests at times of its own */
  constructor(ctx: IdleContext, pulses?: Pulses) {
    this.#ctx = ctx;
    this.#pulses = pulses;
  }

  /** A look for work begins: a commit from now on ends the next rest. */
  begin(): void {
    this.#hasChanged = this.#ctx.metadata.watchCommits?.();
    this.#due = always;
  }

  /**
   * Until a commit there is nothing to do before this time.
   * @param due store time (ms), asked for again at each check; `Infinity`: only a commit brings work
   */
  nothingBefore(due: number | (() => number)): void {
    this.#due = typeof due === 'number' ? () => due : due;
  }

  /** Rests until it is time for the next look, or until the signal aborts. @param everyMs the time between two checks */
  async rest(everyMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#ctx;
    const lookAt = clock.elapsed() + quietMaxMs;
    const isTime = (): boolean => clock.elapsed() >= lookAt || !this.#isQuiet();
    if (this.#pulses !== undefined && everyMs > 0 && everyMs <= sharedRestMs)
      return this.#pulses.next(everyMs, signal, isTime);
    do {
      await this.#sleep(everyMs, signal);
    } while (!signal.aborted && !isTime());
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { clock, metadata, random } = this.#ctx;
    if (!metadata.isDistant) return clock.sleep(ms, signal);
    const [byte = 0] = random.bytes(1);
    return clock.sleep(ms * (1 - (jitter * byte) / 255), signal);
  }

  /** Only stores of this machine tell of commits, and their time is that of its clock. */
  #isQuiet(): boolean {
    if (this.#hasChanged === undefined) return false;
    try {
      return !this.#hasChanged() && this.#ctx.clock.now() < this.#due();
    } catch {
      // The look itself meets the fault, and reports it.
      return false;
    }
  }
}
