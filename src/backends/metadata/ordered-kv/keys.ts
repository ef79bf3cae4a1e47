/** The key space in a cluster: every key begins with a prefix, then rows and further kinds of keys. */

import { Packr } from 'msgpackr';
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { digits } from '../epochs.ts';
import {
  assertSameLayout,
  decodeRowText as decodeText,
  type Requested,
  RowCodec,
  readSome,
  type StoredRow,
} from '../row-codec.ts';
import type { Cluster } from './health.ts';

/** First bytes of keys that are not rows; a row's is the first letter of its table's name. */
const space = { catalog: 1, fence: 2, epoch: 3, expiry: 4 } as const;

const expiryBytes = 8;
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

  catalog = (table: string): Buffer => this.#in('catalog', encoder.encode(table));

  fence(partition: Uint8Array, lane: number): Buffer {
    return this.#in('fence', Buffer.concat([partition, Buffer.of(lane)]));
  }

  /** The lease of an epoch. */
  epoch = (id: string): Buffer => this.#in('epoch', encoder.encode(`${id}!`));
  /** The keys that commits under an epoch's ops read. */
  epochLane = (id: string, lane: number): Buffer =>
    this.#in('epoch', encoder.encode(`${id}.${digits(lane, 2)}`));
  epochs(): { readonly low: Buffer; readonly high: Buffer } {
    return { low: this.#in('epoch', noBytes), high: this.#in('expiry', noBytes) };
  }
  /** The id of an epoch whose lease this is; undefined for other keys. */
  epochOf(key: Uint8Array): string | undefined {
    const text = new TextDecoder().decode(key.subarray(this.#prefix.length + 1));
    return text.endsWith('!') ? text.slice(0, -1) : undefined;
  }

  expiry(at: number, row: Uint8Array): Buffer {
    const time = Buffer.alloc(expiryBytes);
    time.writeBigUInt64BE(BigInt(Math.max(0, Math.floor(at))));
    return this.#in('expiry', Buffer.concat([time, row]));
  }
  expired(until: number): { readonly low: Buffer; readonly high: Buffer } {
    return { low: this.#in('expiry', noBytes), high: this.expiry(until, noBytes) };
  }
  /** The row key that an expiry key names. */
  expiringRow(key: Uint8Array): Uint8Array {
    return new Uint8Array(key.subarray(this.#prefix.length + 1 + expiryBytes));
  }

  #in(name: keyof typeof space, rest: Uint8Array): Buffer {
    return Buffer.concat([this.#prefix, Buffer.of(space[name]), rest]);
  }
}

const noBytes = new Uint8Array(0);

/** The lane of a fence for a key, the same in every process. */
export function laneOf(key: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of key) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0) % lanes.fence;
}

// Values under a key: msgpack. To older stores an empty value means absence, so there is none.

const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true });

/** A copy, because the packer reuses its buffer. */
export const pack = (value: unknown): Uint8Array => new Uint8Array(packr.pack(value));
export const unpack = (bytes: Uint8Array): unknown => packr.unpack(bytes);
export const unpackRow = (bytes: Uint8Array | undefined): StoredRow | undefined =>
  bytes === undefined ? undefined : (packr.unpack(bytes) as StoredRow);
/** The columns of a row that the caller needs. */
export const unpackSome = (bytes: Uint8Array, requested: Requested | undefined): StoredRow =>
  requested === undefined
    ? (packr.unpack(bytes) as StoredRow)
    : readSome(bytes, { requested, decode: decodeText });

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
