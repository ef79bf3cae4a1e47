/**
 * Large arrays are given back as soon as their readers must be done with them. Left to the collector they force it to
 * look through the whole heap for every 30 MiB of body, and each new one is cold memory.
 */
const returnedBytesMin = 16 * 1024;

export class LentArrays {
  readonly #max: number;
  readonly #lent: ArrayBuffer[] = [];

  /** @param max how many of them readers may use */
  constructor(max: number) {
    this.#max = max;
  }

  lend({ buffer, byteLength }: Uint8Array): void {
    // Only memory that no other array shares: what TLS decrypts comes in slices.
    if (byteLength < returnedBytesMin || buffer.byteLength !== byteLength) return;
    this.#lent.push(buffer as ArrayBuffer);
    // Detached, its memory goes back at once.
    if (this.#lent.length > this.#max) this.#lent.shift()?.transfer(0);
  }
}
