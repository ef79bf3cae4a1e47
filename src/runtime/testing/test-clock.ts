/**
 * The clock of a test server: the system's, until a test advances it. Clients go on signing with the system's clock, so a link counts as
 * signed at the time that the test clock showed when the client signed it.
 */
import { parseDuration } from '../../config/kinds.ts';
import { type Clock, type SigningClock, systemClock } from '../../ports/clock.ts';

const secondMs = 1000;

interface Jump {
  /** System time (ms): a whole second, from which clients sign after the jump. */
  readonly from: number;
  /** How far the test clock is ahead from then on. */
  readonly aheadMs: number;
}

export class TestClock implements Clock {
  #aheadMs = 0;
  readonly #jumps: Jump[] = [];
  #jumping = new AbortController();

  readonly now = (): number => systemClock.now() + this.#aheadMs;
  readonly elapsed = (): number => systemClock.elapsed() + this.#aheadMs;

  /** Ends early when the clock is advanced past its end. */
  readonly sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
    const until = this.elapsed() + ms;
    let leftMs = ms;
    do {
      const ends = [this.#jumping.signal, ...(signal === undefined ? [] : [signal])];
      await systemClock.sleep(leftMs, AbortSignal.any(ends));
      leftMs = until - this.elapsed();
    } while (leftMs > 0 && signal?.aborted !== true);
  };

  readonly signing: SigningClock = {
    now: (signedAt = systemClock.now()) => {
      const before = this.#jumps.findLast(({ from }) => from <= signedAt);
      return this.now() - (before?.aheadMs ?? 0);
    },
  };

  /** Wakes those whose sleep ends. */
  advance(ms: number): void {
    this.#aheadMs += ms;
    const from = (Math.floor(systemClock.now() / secondMs) + 1) * secondMs;
    this.#jumps.push({ from, aheadMs: this.#aheadMs });
    const jumping = this.#jumping;
    this.#jumping = new AbortController();
    jumping.abort();
  }

  /** Resolves once clients sign after the last jump: signatures have whole seconds, and those of one second look alike. */
  async untilSigned(): Promise<void> {
    const from = this.#jumps.at(-1)?.from ?? 0;
    for (let leftMs = from - systemClock.now(); leftMs > 0; leftMs = from - systemClock.now())
      await systemClock.sleep(leftMs);
  }
}

const spelledMs: Readonly<Record<string, number>> = {
  second: secondMs,
  minute: 60 * secondMs,
  hour: 3_600 * secondMs,
  day: 86_400 * secondMs,
  week: 7 * 86_400 * secondMs,
};

/** @param duration ms, or a text such as `30 days`, `90 minutes` or `1h30m` @throws RangeError for anything else */
export function readDuration(duration: number | string): number {
  const [, count = '', unit = ''] = /^([0-9]+(?:\.[0-9]+)?) ([a-z]+?)s?$/.exec(String(duration)) ?? [];
  const spelled = spelledMs[unit];
  const ms = spelled === undefined ? parsedMs(duration) : Number(count) * spelled;
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new RangeError(
    `${JSON.stringify(duration)} is no duration: write milliseconds, or a text such as "30 days", "90 minutes" or "1h30m"`,
  );
}

const parsedMs = (duration: number | string): number | undefined =>
  typeof duration === 'number' ? duration : parseDuration(duration);
