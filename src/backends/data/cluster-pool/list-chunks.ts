/** Finds chunks again: all of a store by walking over its pools, or some by their names. */
import type { StoredChunk } from '../../../ports/storage/chunk-store.ts';
import type { Owner } from '../../../ports/storage/object-bytes.ts';
import { decodeRecord, listedSize } from './chunk-record.ts';
import { isMissing } from './librados/driver.ts';
import { isMark } from './marks.ts';
import type { OpenPool } from './pools.ts';

/** Records that are read concurrently. */
const atOnce = 16;

export interface Listing {
  readonly pools: readonly OpenPool[];
  /** Chunks that this process is writing, which do not count as stored yet. */
  readonly isOpen: (id: string) => boolean;
}

/** One walk for any number of prefixes; everything without. */
export async function* listChunks(
  listing: Listing,
  prefixes: readonly string[],
): AsyncGenerator<StoredChunk> {
  for (const open of listing.pools) {
    for await (const listed of open.pool.names()) {
      const names = listed.filter((name) => !isMark(name));
      const wanted =
        prefixes.length === 0
          ? names
          : names.filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
      for (let at = 0; at < wanted.length; at += atOnce) {
        yield* await found(listing, open, wanted.slice(at, at + atOnce));
      }
    }
  }
}

/** Looks in every pool, because an extent may be in any of them. */
export async function namedChunks(
  listing: Listing,
  names: readonly string[],
): Promise<readonly StoredChunk[]> {
  const chunks: StoredChunk[] = [];
  for (const open of listing.pools) chunks.push(...(await found(listing, open, names)));
  return chunks;
}

async function found(
  { isOpen }: Listing,
  open: OpenPool,
  ids: readonly string[],
): Promise<readonly StoredChunk[]> {
  const chunks = await Promise.all(ids.filter((id) => !isOpen(id)).map((id) => look(open, id)));
  return chunks.filter((chunk) => chunk !== undefined);
}

async function look({ pool, place }: OpenPool, id: string): Promise<StoredChunk | undefined> {
  const attribute = await pool.attribute(id).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  const record = attribute === undefined ? undefined : decodeRecord(id, attribute);
  if (record === undefined) return undefined;
  return { id, size: listedSize(record), at: place, owner: JSON.parse(record.ownerJson) as Owner };
}
