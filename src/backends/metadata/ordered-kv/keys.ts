/** The key space in a cluster: every key begins with a prefix, then come the keys of the record layer, with lanes of fences and epochs. */

import { decodeUtf8 } from '../../../base/text/utf8.ts';
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { digits } from '../epochs.ts';
import { expiryKey, keyIn, rowKeyOf, space, textKeyIn } from '../records/codec.ts';
import { assertSameLayout, pack, RowCodec, unpack } from '../row-codec.ts';
import type { Cluster } from './health.ts';

const encoder = new TextEncoder();

/** A fence or an epoch is spread over this many rows, so that concurrent commits that lock it seldom wait for each other. */
export const lanes = { fence: 256, epoch: 64 } as const;

export class Keys {
  readonly #prefix: Uint8Array;

  constructor(prefix: string) {
    this.#prefix = encoder.encode(prefix);
  }

  /** The key of a row, or a bound of rows, in the cluster. */
  row(key: Uint8Array): Buffer {
    return Buffer.concat([this.#prefix, key]);
  }
  /** The other way round. */
  rowOf(key: Uint8Array): Uint8Array {
    return key.subarray(this.#prefix.length);
  }

  catalog = (table: string): Buffer => this.row(textKeyIn('catalog', table));

  fence(partition: Uint8Array, lane: number): Buffer {
    return this.row(keyIn('fence', Buffer.concat([partition, Buffer.of(lane)])));
  }

  /** The lease of an epoch. */
  epoch = (id: string): Buffer => this.row(textKeyIn('epoch', `${id}!`));
  /** The keys that commits under an epoch's ops read. */
  epochLane = (id: string, lane: number): Buffer => this.row(textKeyIn('epoch', `${id}.${digits(lane, 2)}`));
  epochs(): { readonly low: Buffer; readonly high: Buffer } {
    return { low: this.row(Uint8Array.of(space.epoch)), high: this.row(Uint8Array.of(space.epoch + 1)) };
  }
  /** The id of an epoch whose lease this is; undefined for other keys. */
  epochOf(key: Uint8Array): string | undefined {
    const text = decodeUtf8(key.subarray(this.#prefix.length + 1));
    return text.endsWith('!') ? text.slice(0, -1) : undefined;
  }

  expiry = (at: number, row?: Uint8Array): Buffer => this.row(expiryKey(at, row));
  /** The entries of rows that have expired at a time. */
  expired(now: number): { readonly low: Buffer; readonly high: Buffer } {
    return { low: this.row(Uint8Array.of(space.expiry)), high: this.expiry(now + 1) };
  }
  /** The row key that an expiry key names. */
  expiringRow = (key: Uint8Array): Uint8Array => rowKeyOf(this.rowOf(key));
}

/** The lane of a fence for a key, the same in every process. */
export function hashToFenceLane(key: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of key) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0) % lanes.fence;
}

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
