/**
 * Chunks in separate files: content, then the header, then eight bytes with the header's length. Written under a temporary name as the
 * bytes arrive, flushed, and only then renamed.
 */
import fs from 'node:fs';
import { mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import type { BufferRing, ChunkRef, StoredChunk } from '../../../ports/storage/chunk-store.ts';
import {
  type ByteRange,
  ChunkDamaged,
  ChunkMissing,
  type Owner,
} from '../../../ports/storage/object-bytes.ts';
import { decodeHeader, deriveSeed, type Header, headerBytesMax } from '../chunked/record.ts';
import type { Disk } from './disk.ts';
import { directoryMode, groupMatches, isMissing, type Layout, largeGroup, largePath } from './layout.ts';
import { readBlocks } from './read-blocks.ts';

const tailBytes = 8;
const tailMask = 0x4c415247;
/** A group can vanish, when it was empty, between our making it and our using it. */
const renameTriesMax = 5;

export interface LargeParts {
  readonly layout: Layout;
  readonly disk: Disk;
  /**
   * Groups whose directory entries this process has flushed: another process that created a group may not have done so yet. The set is
   * small; a group is used for minutes.
   */
  readonly durableGroups: Set<string>;
}

const durableGroupsMax = 64;

export function encodeTail(headerBytes: number): Buffer {
  const tail = Buffer.alloc(tailBytes);
  tail.writeUInt32LE(headerBytes, 0);
  tail.writeUInt32LE((headerBytes ^ tailMask) >>> 0, 4);
  return tail;
}

/** Renames a finished and flushed temporary file, durably. */
export async function publish(parts: LargeParts, id: string, temporary: string): Promise<void> {
  const { layout, disk, durableGroups } = parts;
  const group = largeGroup(id);
  const path = `${layout.large}/${group}`;
  for (let tries = 1; ; tries++) {
    try {
      await rename(temporary, largePath(layout, id));
      break;
    } catch (error) {
      if (!isMissing(error) || tries === renameTriesMax) throw error;
      await mkdir(path, { recursive: true, mode: directoryMode });
      durableGroups.delete(group);
    }
  }
  try {
    if (!durableGroups.has(group)) await disk.flushDirectory(layout.large);
    await disk.flushDirectory(path);
  } catch (error) {
    // If it is not durable it does not count as stored; its id is never used again.
    await unlink(largePath(layout, id)).catch(() => {});
    throw error;
  }
  if (durableGroups.size >= durableGroupsMax) durableGroups.clear();
  durableGroups.add(group);
}

type Files = Pick<LargeParts, 'layout' | 'disk'>;

export async function* readLarge(
  { layout, disk }: Files,
  chunk: ChunkRef,
  range: ByteRange,
  options: { readonly signal: AbortSignal | undefined; readonly buffers: BufferRing | undefined },
): AsyncGenerator<Uint8Array> {
  const { signal, buffers } = options;
  let fd: number;
  try {
    // Synchronous, because a file that is read again and again has its name in the cache.
    fd = fs.openSync(largePath(layout, chunk.id), 'r');
  } catch (error) {
    if (isMissing(error)) throw new ChunkMissing(`chunk ${chunk.id} has no file`);
    throw error;
  }
  try {
    const header = await readHeader(fd, chunk.id, disk);
    if (!header || header.id !== chunk.id || header.size !== chunk.size) {
      throw new ChunkDamaged(`the file of chunk ${chunk.id} is not whole`);
    }
    yield* readBlocks({ ...header, fd, base: 0 }, range, { disk, buffers, signal });
  } finally {
    fs.closeSync(fd);
  }
}

async function readHeader(fd: number, id: string, disk: Disk): Promise<Header | undefined> {
  const { size } = fs.fstatSync(fd);
  // One read gets the tail and nearly every header.
  const start = Math.max(0, size - 2048);
  let bytes = Buffer.allocUnsafe(size - start);
  if ((await disk.read(fd, bytes, start)) !== bytes.length || bytes.length < tailBytes) return undefined;
  const headerBytes = bytes.readUInt32LE(bytes.length - tailBytes);
  const check = bytes.readUInt32LE(bytes.length - 4);
  if (check !== (headerBytes ^ tailMask) >>> 0 || headerBytes > headerBytesMax) return undefined;
  let at = bytes.length - tailBytes - headerBytes;
  if (at < 0) {
    bytes = Buffer.allocUnsafe(headerBytes);
    const position = size - tailBytes - headerBytes;
    if (position < 0 || (await disk.read(fd, bytes, position)) !== headerBytes) return undefined;
    at = 0;
  }
  const header = decodeHeader(bytes, { at, seed: deriveSeed(id) });
  return header && header.size + header.headerBytes + tailBytes === size ? header : undefined;
}

/** Durable on return; missing files are no error. */
export async function removeLarge({ layout, disk }: Files, ids: readonly string[]): Promise<void> {
  const groups = new Set<string>();
  for (const id of ids) {
    try {
      await unlink(largePath(layout, id));
      groups.add(largeGroup(id));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  for (const group of groups) {
    await disk.flushDirectory(`${layout.large}/${group}`).catch((error: unknown) => {
      // The group was empty and has been removed.
      if (!isMissing(error)) throw error;
    });
  }
}

const unreadable: Owner = { bucketId: '', key: '', unreadable: true };

export async function* listLarge({ layout, disk }: Files, prefix: string): AsyncGenerator<StoredChunk> {
  for (const group of await readdir(layout.large)) {
    if (!groupMatches(group, prefix)) continue;
    for (const id of await namesIn(`${layout.large}/${group}`)) {
      if (!id.startsWith(prefix)) continue;
      const found = await describeLarge({ layout, disk }, id);
      if (found) yield found;
    }
  }
}

export async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** A file that cannot be read any more is listed too: it takes space and can be removed. */
async function describeLarge({ layout, disk }: Files, id: string): Promise<StoredChunk | undefined> {
  try {
    const handle = await open(largePath(layout, id), 'r');
    try {
      const header = await readHeader(handle.fd, id, disk);
      if (header?.id === id) return { id, size: header.size, owner: JSON.parse(header.ownerJson) as Owner };
      return { id, size: (await handle.stat()).size, owner: unreadable };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
