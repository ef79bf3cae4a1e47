/**
 * The latest entries of a log: a ring, into which one is put for next to nothing. Whoever looks puts all of them into
 * order: a log is written with every request and hardly ever read.
 */
import { SortedMap } from './sorted-map.ts';

export class Latest<Value> {
  readonly #max: number;
  readonly #ring: (readonly [key: string, value: Value])[] = [];
  #next = 0;
  #ordered: SortedMap<Value> | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes the place of what was put so long ago; a key that is put again counts twice until then. */
  put(key: string, value: Value): void {
    this.#ring[this.#next] = [key, value];
    this.#next = (this.#next + 1) % this.#max;
    this.#ordered = undefined;
  }

  /** What was put last under each key; good until the next is put. */
  get ordered(): SortedMap<Value> {
    if (this.#ordered !== undefined) return this.#ordered;
    const ordered = new SortedMap<Value>();
    for (const [key, value] of this.#ring.slice(this.#next)) ordered.set(key, value);
    for (const [key, value] of this.#ring.slice(0, this.#next)) ordered.set(key, value);
    this.#ordered = ordered;
    return ordered;
  }
}
