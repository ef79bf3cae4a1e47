/**
 * How much all writes of a process may hold in memory together (design §4, `SVC_MEMORY_MAX`). Who comes when
 * it is spent waits in line, with what the client sends kept in the kernel; nobody is refused.
 *
 * A chunk is what takes: it holds its share only while it is written, and needs no other to be done, so
 * that whoever waits waits for somebody who does not.
 */

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** What a chunk of any size holds at most: a piece of the store's, and what the socket has ahead of it. */
const shareMax = 512 * 1024;

export class WriteBudget {
  readonly #bytesMax: number;
  #taken = 0;
  readonly #waiting: Waiter[] = [];

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes that are held now. */
  get taken(): number {
    return this.#taken;
  }

  /**
   * Takes the share of a chunk of this size, which `give` gets back. A promise only where it must wait;
   * rejects with the signal's reason.
   */
  take(size: number | undefined, signal?: AbortSignal): number | Promise<number> {
    const bytes = Math.min(size ?? shareMax, shareMax, this.#bytesMax);
    if (this.#waiting.length > 0 || this.#taken + bytes > this.#bytesMax) return this.#wait(bytes, signal);
    this.#taken += bytes;
    return bytes;
  }

  give(bytes: number): void {
    this.#taken -= bytes;
    this.#admit();
  }

  /** In line, so that a large share is not passed by small ones for ever. */
  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#taken + next.bytes > this.#bytesMax) return;
      this.#waiting.shift();
      this.#taken += next.bytes;
      next.admit();
    }
  }

  #wait(bytes: number, signal: AbortSignal | undefined): Promise<number> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal?.reason);
        // It may have been the one that the others waited behind.
        this.#admit();
      };
      const waiter: Waiter = {
        bytes,
        admit: () => {
          signal?.removeEventListener('abort', leave);
          resolve(bytes);
        },
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiter);
    });
  }
}
