/** Time as a port, so that tests control it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds on a clock that never jumps, for durations. */
  elapsed(): number;
  /** Resolves after `ms`, or immediately when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
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

/** Randomness as a port, so that a test can repeat a run with its seed. */
export interface Random {
  bytes(length: number): Uint8Array;
}

const poolBytes = 4096;

/** Cryptographic randomness, read from the runtime in blocks, so that most calls need no system call. */
export function systemRandom(): Random {
  let pool = new Uint8Array(0);
  let used = 0;
  return {
    bytes(length) {
      if (length > poolBytes) return crypto.getRandomValues(new Uint8Array(length));
      if (used + length > pool.length) {
        pool = crypto.getRandomValues(new Uint8Array(poolBytes));
        used = 0;
      }
      used += length;
      return pool.slice(used - length, used);
    },
  };
}
