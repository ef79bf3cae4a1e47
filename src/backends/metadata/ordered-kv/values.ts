/** Values under a key: msgpack. To older stores an empty value means absence, so there is none. */
import { Packr } from 'msgpackr';
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { decodeText } from '../rows/node-text.ts';
import { readSome, type Wanted } from '../rows/packed-row.ts';
import { assertSameLayout, RowCodec, type StoredRow } from '../rows/row-codec.ts';
import type { Cluster } from './cluster.ts';
import type { Keys } from './keys.ts';

const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true });

/** A copy, because the packer reuses its buffer. */
export const pack = (value: unknown): Uint8Array => new Uint8Array(packr.pack(value));
export const unpack = (bytes: Uint8Array): unknown => packr.unpack(bytes);
export const unpackRow = (bytes: Uint8Array | undefined): StoredRow | undefined =>
  bytes === undefined ? undefined : (packr.unpack(bytes) as StoredRow);
/** The columns of a row that the caller needs. */
export const unpackSome = (bytes: Uint8Array, wanted: Wanted | undefined): StoredRow =>
  wanted === undefined ? (packr.unpack(bytes) as StoredRow) : readSome(bytes, { wanted, decode: decodeText });

/** Longer than any row key; TiKV accepts more. */
const keyBytesMax = 4096;

/** The codecs of the tables used so far; each is compared with what earlier releases noted in the cluster. */
export class Codecs {
  readonly #client: Cluster;
  readonly #keys: Keys;
  readonly #known = new Map<AnyTable, Promise<RowCodec>>();

  constructor(client: Cluster, keys: Keys) {
    this.#client = client;
    this.#keys = keys;
  }

  of(table: AnyTable): Promise<RowCodec> {
    let codec = this.#known.get(table);
    if (codec === undefined) {
      codec = this.#noted(new RowCodec(table, keyBytesMax));
      this.#known.set(table, codec);
      codec.catch(() => this.#known.delete(table));
    }
    return codec;
  }

  /** The order and checks of a table need no cluster. */
  plain = (table: AnyTable): RowCodec => new RowCodec(table, keyBytesMax);

  async #noted(codec: RowCodec): Promise<RowCodec> {
    const { name } = codec.table;
    const key = this.#keys.catalog(name);
    const found = await this.#client.get(key);
    const noted = found === undefined ? [] : (unpack(found) as readonly string[]);
    assertSameLayout(name, noted, codec.layout);
    if (noted.length < codec.layout.length) {
      await this.#client.transact(async (transaction) => {
        const [now] = await transaction.lock([key]);
        const current = now === undefined ? [] : (unpack(now) as readonly string[]);
        assertSameLayout(name, current, codec.layout);
        if (current.length < codec.layout.length) transaction.put(key, pack(codec.layout));
      });
    }
    return codec;
  }
}
