/** The attribute of a chunk's object: id, owner, size and a CRC32C of each 64 KiB, under a CRC32C of its own. */

import { decodeUtf8 } from '../../../base/text/utf8.ts';
import type { Clock } from '../../../ports/clock.ts';
import {
  ChunkDamaged,
  DataUnavailable,
  type MarkedPlace,
  type Owner,
  unknownSize,
} from '../../../ports/object-bytes.ts';
import {
  blockBytes,
  decodeHeader,
  deriveSeed,
  describe,
  encodeHeader,
  type Header,
  sealHeader,
} from '../chunked/record.ts';
import { type Crc32c, errno, isMissing, RadosFailure, type RadosPool } from './driver.ts';
import type { Connection, PoolName, Pools } from './pools.ts';

/** Refuses names and owners that no record can hold, before a byte is read. */
export function checkOwner(id: string, owner: Owner): void {
  describe(id, { owner, size: 0 });
}

export function encodeRecord(
  id: string,
  { owner, size, crcs }: { readonly owner: Owner; readonly size: number; readonly crcs: readonly number[] },
): Uint8Array {
  const record = describe(id, { owner, size });
  const { headerBytes } = record;
  const bytes = Buffer.alloc(headerBytes);
  encodeHeader(bytes, 0, { ...record, size, crcs });
  sealHeader(bytes, { at: 0, headerBytes, seed: deriveSeed(id) });
  return bytes;
}

/** The attribute of a chunk of which only the beginning is stored: its size is 0, which no complete chunk has. */
export const encodeBegun = (id: string, owner: Owner): Uint8Array =>
  encodeRecord(id, { owner, size: 0, crcs: [] });

/** Undefined for an object that is not a chunk. */
export function decodeRecord(id: string, attribute: Uint8Array): Header | undefined {
  const bytes = Buffer.from(attribute.buffer, attribute.byteOffset, attribute.length);
  const header = decodeHeader(bytes, { at: 0, seed: deriveSeed(id) });
  return header?.id === id ? header : undefined;
}

/** The size of a chunk in a listing; a chunk that was only begun has none. */
export const listedSize = ({ size }: Header): number => (size === 0 ? unknownSize : size);

/** @param blocks.first the one that the bytes begin with */
export function verifyBlocks(
  { id, crcs }: Header,
  bytes: Uint8Array,
  { first, crc32c }: { readonly first: number; readonly crc32c: Crc32c },
): void {
  for (let at = 0, block = first; at < bytes.length; at += blockBytes, block += 1) {
    if (crc32c(bytes.subarray(at, at + blockBytes)) !== crcs[block]) {
      throw new ChunkDamaged(`block ${block} of chunk ${id} does not match its checksum`);
    }
  }
}

// The mark of the installation that a pool, or a namespace in it, belongs to: the attribute of an object without data. The
// cluster compares and replaces an attribute in one operation, in erasure-coded pools too, whose data cannot be
// overwritten. The name of the object is not that of a chunk; walks over a pool skip it.

const markName = 'installation.json';
/** A start waits for it; the timeout of operations is longer. */
const timeoutMs = 5_000;

export const isMark = (name: string): boolean => name === markName;

interface MarkParts {
  readonly connection: Connection;
  readonly pools: Pools;
  readonly clock: Pick<Clock, 'sleep'>;
}

export const marksIn = (parts: MarkParts): readonly MarkedPlace[] =>
  parts.pools.configured.map((name) => markIn(parts, name));

function markIn({ connection, pools, clock }: MarkParts, name: PoolName): MarkedPlace {
  const { pool, namespace } = name;
  const place = namespace === '' ? `pool ${pool}` : `pool ${pool}, namespace ${namespace}`;
  const path = `${place} of cluster ${connection.id} at ${markName}`;

  /** Gives up after `timeoutMs`; the signal then aborts. */
  const ask = <T>(run: (pool: RadosPool, signal: AbortSignal) => Promise<T>): Promise<T> =>
    connection.attempt(async () => {
      const over = new AbortController();
      const giveUp = async (): Promise<never> => {
        await clock.sleep(timeoutMs, over.signal);
        throw new DataUnavailable(`${path} is not answered within ${timeoutMs / 1000} s`);
      };
      const asking = async (): Promise<T> => run((await pools.named(name)).pool, over.signal);
      try {
        return await Promise.race([asking(), giveUp()]);
      } finally {
        over.abort();
      }
    });

  return {
    cluster: connection.id,
    id: `${connection.id}/${pool}/${namespace}`,
    path,

    async read() {
      try {
        const text = decodeUtf8(await ask(readAttribute));
        return { text, revision: text };
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },

    async write(text, former) {
      const bytes = new TextEncoder();
      const put = async (opened: RadosPool): Promise<void> => {
        const condition =
          former === undefined ? { isNew: true } : { isNew: false, expected: bytes.encode(former.revision) };
        const write = opened.write(markName, { ...condition, size: 0 });
        await write.run(bytes.encode(text)).catch((error: unknown) => {
          // Another gateway was first: what it wrote is compared.
          if (!isLost(error)) throw error;
        });
      };
      await ask(put);
    },
  };
}

async function readAttribute(pool: RadosPool, signal: AbortSignal): Promise<Uint8Array> {
  const { done, cancel } = pool.read(markName, new Uint8Array(0), { offset: 0, wantsAttribute: true });
  signal.addEventListener('abort', cancel, { once: true });
  return (await done).attribute ?? new Uint8Array(0);
}

const isLost = (error: unknown): boolean =>
  error instanceof RadosFailure && (error.code === errno.exists || error.code === errno.canceled);
