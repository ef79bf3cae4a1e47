/** Large arrays that are lent again and again: fresh ones cost more than what is copied into them. */
const idleMs = 5000;

export class Buffers {
  readonly #bytes: number;
  readonly #sparesMax: number;
  readonly #spares: Uint8Array<ArrayBuffer>[] = [];
  /** So many were not needed since the timer was set. */
  #unused = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param sparesBytesMax memory that is kept while no stream uses it */
  constructor(bytes: number, sparesBytesMax: number) {
    this.#bytes = bytes;
    this.#sparesMax = Math.floor(sparesBytesMax / bytes);
  }

  /** Holds what was in it before. */
  borrow(): Uint8Array<ArrayBuffer> {
    const spare = this.#spares.pop();
    this.#unused = Math.min(this.#unused, this.#spares.length);
    return spare ?? freshBytes(this.#bytes);
  }

  giveBack(buffer: Uint8Array<ArrayBuffer>): void {
    if (this.#spares.length >= this.#sparesMax) {
      free(buffer);
      return;
    }
    this.#spares.push(buffer);
    this.#timer ??= setTimeout(() => this.#letGo(), idleMs).unref();
  }

  /** Frees buffers that were not needed for a while. */
  #letGo(): void {
    for (const buffer of this.#spares.splice(0, this.#unused)) free(buffer);
    this.#unused = this.#spares.length;
    this.#timer = this.#spares.length === 0 ? undefined : setTimeout(() => this.#letGo(), idleMs).unref();
  }
}

/** Not zeroed, and outside of the runtime's own heap, where the collector does not move it. */
export function freshBytes(length: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset } = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(buffer, byteOffset, length);
}

/** Frees the memory immediately: the garbage collector does not see its size, and may run late. */
function free({ buffer }: Uint8Array<ArrayBuffer>): void {
  buffer.transfer(0);
}
