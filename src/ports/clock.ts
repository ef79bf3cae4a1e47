/** Time as a port, so that tests control it. */

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds on a clock that never jumps, for durations. */
  elapsed(): number;
  /** Resolves after `ms`, or immediately when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** True in workerd: a timer ends with the request that set it, so a request must not wait for a timer of another one. */
  readonly hasRequestScopedTimers?: boolean;
}

/** The present for the checks of a signature. It differs from `Clock` where clients keep another time, as in a server for tests. */
export interface SigningClock {
  /** @param signedAt when the client signed, by its own clock (ms since the epoch); absent: just now, as for a signature in headers */
  now(signedAt?: number): number;
}

/** A timer for a longer time fires at once, in Node and in workerd (2³¹ - 1 ms is 24.8 days). */
const timerMsMax = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      let leftMs = ms;
      let timer: ReturnType<typeof setTimeout>;
      const wait = (): void => {
        const pieceMs = Math.min(leftMs, timerMsMax);
        leftMs -= pieceMs;
        timer = setTimeout(leftMs > 0 ? wait : done, pieceMs);
      };
      wait();
      signal?.addEventListener('abort', done, { once: true });
    }),
};

export const workerdClock: Clock = { ...systemClock, hasRequestScopedTimers: true };
