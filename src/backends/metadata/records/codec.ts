/** The codecs of the record layer, which notes with the data how its rows are laid out. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import type { Span } from '../key-order.ts';
import { assertSameLayout, RowCodec } from '../row-codec.ts';
import type { OrderedStore } from './ordered-store.ts';

// The kinds of keys in a store, rows and others: the first byte of a key.

/** First bytes of keys that are not rows; a row's is the first letter of its table's name. */
export const space = {
  catalog: 1,
  fence: 2,
  epoch: 3,
  expiry: 4,
  outbox: 5,
  inbox: 6,
  shard: 7,
  /** The partitions that are not spread, of tables whose partitions can be. */
  whole: 8,
  /** The entries that changed after a split had copied them. */
  changed: 9,
} as const;

/** A key of a kind: its byte and the rest. */
export function keyIn(name: keyof typeof space, rest: Uint8Array): Uint8Array {
  const key = new Uint8Array(rest.length + 1);
  key[0] = space[name];
  key.set(rest, 1);
  return key;
}

/** All keys of a kind. */
export const kindSpan = (name: keyof typeof space): Span => ({
  low: Uint8Array.of(space[name]),
  high: Uint8Array.of(space[name] + 1),
  reverse: false,
});

const encoder = new TextEncoder();
export const textKeyIn = (name: keyof typeof space, rest: string): Uint8Array =>
  keyIn(name, encoder.encode(rest));

// The index of rows that expire, sorted by time; the row's key follows.

const timeBytes = 8;
const noKey = new Uint8Array(0);

/** @param at in ms; rounded up, so that no row is removed early */
export function expiryKey(at: number, key: Uint8Array = noKey): Uint8Array {
  const entry = new Uint8Array(1 + timeBytes + key.length);
  entry[0] = space.expiry;
  new DataView(entry.buffer).setBigUint64(1, BigInt(Math.max(0, Math.ceil(at))));
  entry.set(key, 1 + timeBytes);
  return entry;
}

/** @returns a copy, which the engine's next read cannot overwrite */
export const rowKeyOf = (entry: Uint8Array): Uint8Array => new Uint8Array(entry.subarray(1 + timeBytes));

export const expiryTime = (entry: Uint8Array): number =>
  // The entry may be a part of a larger buffer.
  Number(new DataView(entry.buffer, entry.byteOffset).getBigUint64(1));

/** lmdb's limit with 4 KiB pages is 1978; an expiry key is 8 bytes longer than its row's. The same for all, so that rows can move. */
const keyBytesMax = 1978 - 8;

export class Codec extends RowCodec {
  /** The record of the columns of this table, until the first write has stored it. */
  unnoted: { readonly key: Uint8Array; readonly value: readonly string[] } | undefined;

  constructor(table: AnyTable, store: OrderedStore) {
    super(table, keyBytesMax);
    const key = textKeyIn('catalog', table.name);
    const noted = (store.find(key) ?? []) as readonly string[];
    assertSameLayout(table.name, noted, this.layout);
    if (noted.length < this.layout.length) this.unnoted = { key, value: this.layout };
  }
}

/** The codecs of the tables used so far. */
export class Codecs {
  readonly #store: OrderedStore;
  readonly #known = new Map<AnyTable, Codec>();

  constructor(store: OrderedStore) {
    this.#store = store;
  }

  of(table: AnyTable): Codec {
    let codec = this.#known.get(table);
    if (codec === undefined) {
      this.#store.refresh();
      codec = new Codec(table, this.#store);
      this.#known.set(table, codec);
    }
    return codec;
  }
}
