/** Randomness as a port, so that a test can repeat a run with its seed. */

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
