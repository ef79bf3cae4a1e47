/** Finds ids that occur more than once in a long stream. A Bloom filter finds candidates, so that memory is bounded. */
import { fnv32a } from '../../../base/shard.ts';

const hashes = 4;
const bitsPerId = 16;
const bitsMin = 1 << 16;
/** 32 MiB; with 16 bits for each id, one of 400 unique ids becomes a candidate. */
const bitsMax = 1 << 28;
/** Candidates that are kept in memory together; with more, a pass handles fewer ids. */
const candidatesMax = 100_000;

export interface Slice {
  /** Each pass takes the ids of one hash; a power of two. */
  readonly passes: number;
  readonly pass: number;
}

export const passesFor = (ids: number): number =>
  2 ** Math.max(0, Math.ceil(Math.log2((ids * bitsPerId) / bitsMax)));

export class RepeatedIds {
  readonly candidates = new Set<string>();
  readonly #slice: Slice;
  readonly #words: Uint32Array;
  readonly #mask: number;

  /** @param ids the expected number of ids in all passes together */
  constructor(ids: number, slice: Slice) {
    this.#slice = slice;
    const bits = 2 ** Math.ceil(Math.log2((ids * bitsPerId) / slice.passes + 1));
    const bounded = Math.min(bitsMax, Math.max(bitsMin, bits));
    this.#words = new Uint32Array(bounded / 32);
    this.#mask = bounded - 1;
  }

  get isOverfull(): boolean {
    return this.candidates.size > candidatesMax;
  }

  add(id: string): void {
    const first = mixed(fnv32a(id));
    const { passes, pass } = this.#slice;
    const second = mixed(fnv32a(`${id}/`) ^ first);
    if ((mixed(second) & (passes - 1)) !== pass || this.isOverfull) return;
    let isNew = false;
    for (let i = 0; i < hashes; i += 1) {
      const bit = (first + Math.imul(i, second | 1)) & this.#mask;
      const word = this.#words[bit >>> 5] as number;
      if ((word & (1 << (bit & 31))) !== 0) continue;
      isNew = true;
      this.#words[bit >>> 5] = word | (1 << (bit & 31));
    }
    if (!isNew) this.candidates.add(id);
  }
}

/** Spreads a hash over all of its bits (the finalizer of MurmurHash3). */
function mixed(hash: number): number {
  let mix = hash;
  mix = Math.imul(mix ^ (mix >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
