/**
 * Which records of a segment were removed: offsets appended to `<segment>.dead` by whichever process
 * removes. The file only ever grows, also across a packing, because offsets stay what they were; so there
 * is nothing that a crash or a second compactor could lose. Each entry carries a check, because a torn one
 * must not shift those behind it.
 */
import fs from 'node:fs';
import { StorageFull } from '../../../ports/storage-room.ts';
import type { Disk } from './disk.ts';
import { fileMode, isMissing, type Layout, segmentPath } from './layout.ts';

export const entryBytes = 8;
const checkMask = 0x5ea1dead;

/** Returns whether the file is new: its name is then to be made durable, too. */
export async function appendDead(
  { layout, disk }: { readonly layout: Layout; readonly disk: Disk },
  segment: string,
  offsets: readonly number[],
): Promise<boolean> {
  const entries = Buffer.alloc(offsets.length * entryBytes);
  for (const [at, offset] of offsets.entries()) {
    entries.writeUInt32LE(offset, at * entryBytes);
    entries.writeUInt32LE((offset ^ checkMask) >>> 0, at * entryBytes + 4);
  }
  const fd = fs.openSync(segmentPath(layout, segment, 'dead'), 'a', fileMode);
  try {
    const isNew = fs.fstatSync(fd).size === 0;
    // One call: appends of several processes do not mix. What a full disk cuts off is repeated by gc.
    if (fs.writeSync(fd, entries) !== entries.length)
      throw new StorageFull(`no space to remove from ${segment}`);
    await disk.flush(fd);
    return isNew;
  } finally {
    fs.closeSync(fd);
  }
}

export interface Dead {
  readonly offsets: ReadonlySet<number>;
  /** The file's length when it was read. */
  readonly seen: number;
}

export function readDead(layout: Layout, segment: string): Dead {
  let bytes: Buffer;
  try {
    bytes = fs.readFileSync(segmentPath(layout, segment, 'dead'));
  } catch (error) {
    if (isMissing(error)) return { offsets: new Set(), seen: 0 };
    throw error;
  }
  const offsets = new Set<number>();
  for (let at = 0; at + entryBytes <= bytes.length; ) {
    const offset = bytes.readUInt32LE(at);
    const isSound = bytes.readUInt32LE(at + 4) === (offset ^ checkMask) >>> 0;
    if (isSound) offsets.add(offset);
    at += isSound ? entryBytes : 1;
  }
  return { offsets, seen: bytes.length };
}

/** The length of the `.dead` file: a cheap hint at how much a packing would give back. */
export function deadBytes(layout: Layout, segment: string): number {
  return fs.statSync(segmentPath(layout, segment, 'dead'), { throwIfNoEntry: false })?.size ?? 0;
}
