/**
 * A map in key order: a hash table finds an entry, and sorted blocks of at most 512 keys know the order, so that an
 * insertion moves one block's keys and not the whole map's, and overwriting moves nothing.
 */
const blockSize = 512;

interface Place {
  block: number;
  slot: number;
}

export class SortedMap<Value> {
  readonly #values = new Map<string, Value>();
  readonly #blocks: string[][] = [[]];

  get size(): number {
    return this.#values.size;
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    const { size } = this.#values;
    this.#values.set(key, value);
    if (this.#values.size > size) this.#insert(key);
  }

  #insert(key: string): void {
    const { block, slot } = this.#place(key);
    const keys = this.#block(block);
    keys.splice(slot, 0, key);
    if (keys.length > blockSize) this.#blocks.splice(block + 1, 0, keys.splice(keys.length >> 1));
  }

  delete(key: string): void {
    if (!this.#values.delete(key)) return;
    const { block, slot } = this.#place(key);
    const keys = this.#block(block);
    keys.splice(slot, 1);
    if (keys.length === 0 && this.#blocks.length > 1) this.#blocks.splice(block, 1);
  }

  /** The entries from `low` (inclusive) to `high` (exclusive), each in its state when it is reached. */
  *between(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(low);
    for (; block < this.#blocks.length; block++, slot = 0) {
      const keys = this.#block(block);
      for (; slot < keys.length; slot++) {
        const key = keys[slot] as string;
        if (key >= high) return;
        yield [key, this.#values.get(key) as Value];
      }
    }
  }

  /** The same entries from the last to the first. */
  *backwards(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(high);
    for (slot--; block >= 0; slot = this.#lengthOf(--block) - 1) {
      const keys = this.#block(block);
      for (; slot >= 0; slot--) {
        const key = keys[slot] as string;
        if (key < low) return;
        yield [key, this.#values.get(key) as Value];
      }
    }
  }

  /** The place of a key, or where it would be inserted. */
  #place(key: string): Place {
    const last = this.#blocks.length - 1;
    const block = firstWhere(last, (index) => (this.#block(index).at(-1) as string) >= key);
    const keys = this.#block(block);
    return { block, slot: firstWhere(keys.length, (index) => (keys[index] as string) >= key) };
  }

  #block(index: number): string[] {
    return this.#blocks[index] as string[];
  }

  #lengthOf(index: number): number {
    return this.#blocks[index]?.length ?? 0;
  }
}

/** The lowest index for which `holds` is true, given that it is true for all above; `end` if there is none. */
function firstWhere(end: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
