/** The codecs of the embedded backend, which notes with the data how its rows are laid out. */
import type { AnyTable } from '../../../../ports/metadata-store.ts';
import { assertSameLayout, RowCodec } from '../../row-codec.ts';
import { type Database, keyBytesMax } from '../file/environment.ts';
import { textKeyIn } from '../file/write-guard.ts';

export { isAlive, readRevision, type StoredRow } from '../../row-codec.ts';

export class Codec extends RowCodec {
  /** The record of the columns of this table, until the first write has stored it. */
  unnoted: { readonly key: Uint8Array; readonly value: readonly string[] } | undefined;

  constructor(table: AnyTable, database: Database) {
    super(table, keyBytesMax);
    const key = textKeyIn('catalog', table.name);
    const noted = (database.find(key) ?? []) as readonly string[];
    assertSameLayout(table.name, noted, this.layout);
    if (noted.length < this.layout.length) this.unnoted = { key, value: this.layout };
  }
}

/** The codecs of the tables used so far. */
export class Codecs {
  readonly #database: Database;
  readonly #known = new Map<AnyTable, Codec>();

  constructor(database: Database) {
    this.#database = database;
  }

  of(table: AnyTable): Codec {
    let codec = this.#known.get(table);
    if (codec === undefined) {
      this.#database.refresh();
      codec = new Codec(table, this.#database);
      this.#known.set(table, codec);
    }
    return codec;
  }
}
