/**
 * Frees large arrays as soon as their readers must have finished with them. Left to the garbage collector they cause a collection of
 * the whole heap for every 30 MiB of body, and each new array is cold memory.
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
    // Free only memory that no other array shares, because decrypted TLS data arrives in slices.
    if (byteLength < returnedBytesMin || buffer.byteLength !== byteLength) return;
    this.#lent.push(buffer as ArrayBuffer);
    // Detaching frees its memory immediately.
    if (this.#lent.length > this.#max) this.#lent.shift()?.transfer(0);
  }
}
