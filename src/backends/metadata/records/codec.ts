/** The codecs of the record layer, which notes with the data how its rows are laid out. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { assertSameLayout, RowCodec } from '../row-codec.ts';
import { textKeyIn } from './key-spaces.ts';
import type { OrderedStore } from './ordered-store.ts';

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
