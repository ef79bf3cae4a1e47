/**
 * A map in key order with O(log n) look-ups and seeks: sorted blocks of at most 512 keys, so that an
 * insertion moves one block's keys and not the whole map's.
 */
const blockSize = 512;

interface Block<Value> {
  readonly keys: string[];
  readonly values: Value[];
}

interface Place {
  block: number;
  slot: number;
}

export class SortedMap<Value> {
  readonly #blocks: Block<Value>[] = [{ keys: [], values: [] }];

  get(key: string): Value | undefined {
    const { block, slot } = this.#place(key);
    const found = this.#block(block);
    return found.keys[slot] === key ? found.values[slot] : undefined;
  }

  set(key: string, value: Value): void {
    const { block, slot } = this.#place(key);
    const { keys, values } = this.#block(block);
    if (keys[slot] === key) {
      values[slot] = value;
      return;
    }
    keys.splice(slot, 0, key);
    values.splice(slot, 0, value);
    if (keys.length <= blockSize) return;
    const half = keys.length >> 1;
    this.#blocks.splice(block + 1, 0, { keys: keys.splice(half), values: values.splice(half) });
  }

  delete(key: string): void {
    const { block, slot } = this.#place(key);
    const { keys, values } = this.#block(block);
    if (keys[slot] !== key) return;
    keys.splice(slot, 1);
    values.splice(slot, 1);
    if (keys.length === 0 && this.#blocks.length > 1) this.#blocks.splice(block, 1);
  }

  /** The entries from `low` (inclusive) to `high` (exclusive), read as they are when reached. */
  *between(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(low);
    for (; block < this.#blocks.length; block++, slot = 0) {
      const { keys, values } = this.#block(block);
      for (; slot < keys.length; slot++) {
        const key = keys[slot] as string;
        if (key >= high) return;
        yield [key, values[slot] as Value];
      }
    }
  }

  /** The same entries from the last to the first. */
  *backwards(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(high);
    for (slot--; block >= 0; slot = this.#lengthOf(--block) - 1) {
      const { keys, values } = this.#block(block);
      for (; slot >= 0; slot--) {
        const key = keys[slot] as string;
        if (key < low) return;
        yield [key, values[slot] as Value];
      }
    }
  }

  /** Where a key is, or where it would be inserted. */
  #place(key: string): Place {
    const last = this.#blocks.length - 1;
    const block = firstWhere(last, (index) => (this.#block(index).keys.at(-1) as string) >= key);
    const { keys } = this.#block(block);
    return { block, slot: firstWhere(keys.length, (index) => (keys[index] as string) >= key) };
  }

  #block(index: number): Block<Value> {
    return this.#blocks[index] as Block<Value>;
  }

  #lengthOf(index: number): number {
    return this.#blocks[index]?.keys.length ?? 0;
  }
}

/** The lowest index for which `holds`, given that it holds for all above; `end` if for none below it. */
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
