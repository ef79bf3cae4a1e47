/** Compacts a sealed segment: writes its live records to a new file, which replaces the segment. */
import fs from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { crc32c } from '../../../hashing/node.ts';
import type { Disk } from '../disk.ts';
import { fileMode, type Layout, segmentPath } from '../layout.ts';
import { openSegment } from '../segments/open-segment.ts';
import { readSegment } from '../segments/segment-scan.ts';
import { type Summary, writeSummary } from '../segments/summary.ts';
import { readDead } from './dead.ts';
import { encodePackedHead, encodePackedTable, packedHeadBytes } from './packed.ts';

const copyBytes = 1024 * 1024;

export interface PackParts {
  readonly layout: Layout;
  readonly disk: Disk;
  /** The path of the new file before it replaces the segment. */
  readonly temporary: string;
  readonly signal: AbortSignal;
  /** Checked last: another packer may have taken over after a long pause of this process. */
  readonly stillOurs: () => boolean;
}

interface Live {
  readonly offset: number;
  readonly position: number;
  readonly length: number;
}

/**
 * Readers that have the old file open go on with it; locators keep their offsets, which the new file's
 * table translates. A crash leaves the old file or the new one, and either is right.
 */
export async function packSegment(parts: PackParts, segment: string): Promise<void> {
  const { layout, disk } = parts;
  const dead = readDead(layout, segment);
  const live: Live[] = [];
  const summary = { first: '', last: '', records: 0, bytes: 0, deadSeen: dead.seen, damaged: false };
  const scan = readSegment(layout, segment);
  for await (const found of scan.batches()) {
    for (const { header, offset, position } of found) {
      if (dead.offsets.has(offset)) continue;
      const length = header.headerBytes + header.size;
      live.push({ offset, position, length });
      if (summary.records++ === 0 || header.id < summary.first) summary.first = header.id;
      if (header.id > summary.last) summary.last = header.id;
      summary.bytes += length;
    }
  }
  if (scan.damaged) return writeSummary(layout, segment, { ...summary, damaged: true });
  if (live.length === 0) return removeSegment(parts, segment);
  if (!(await copyLive(parts, segment, live))) return;
  await disk.flushDirectory(layout.segments);
  writeSummary(layout, segment, summary satisfies Summary);
}

/** The `.seg` file is removed first: without it the others have no meaning and are removed later. */
async function removeSegment({ layout, disk, stillOurs }: PackParts, segment: string): Promise<void> {
  if (!stillOurs()) return;
  for (const file of ['seg', 'sum', 'dead', 'open'] as const) {
    fs.rmSync(segmentPath(layout, segment, file), { force: true });
  }
  await disk.flushDirectory(layout.segments);
}

async function copyLive(parts: PackParts, segment: string, live: readonly Live[]): Promise<boolean> {
  const source = openSegment(parts.layout, segment);
  if (!source) return false;
  const file = await open(parts.temporary, 'wx', fileMode);
  try {
    await writePacked(parts, { from: source.fd, file, live });
    await parts.disk.flush(file.fd);
    if (!parts.stillOurs()) throw new Error(`another process compacts segment ${segment}`);
    await rename(parts.temporary, segmentPath(parts.layout, segment, 'seg'));
    return true;
  } catch (error) {
    await unlink(parts.temporary).catch(() => {});
    throw error;
  } finally {
    await file.close();
    fs.closeSync(source.fd);
  }
}

async function writePacked(
  { disk, signal }: PackParts,
  { from, file, live }: { readonly from: number; readonly file: FileHandle; readonly live: readonly Live[] },
): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(copyBytes);
  const moves: { from: number; to: number }[] = [];
  let to = packedHeadBytes;
  for (let at = 0; at < live.length; ) {
    // Neighbours are copied together.
    const start = (live[at] as Live).position;
    let end = start;
    for (let next = live[at]; next?.position === end; next = live[++at]) {
      moves.push({ from: next.offset, to: to + next.position - start });
      end += next.length;
    }
    for (let position = start; position < end; ) {
      signal.throwIfAborted();
      const piece = buffer.subarray(0, Math.min(copyBytes, end - position));
      if ((await disk.read(from, piece, position)) !== piece.length) throw new Error('a segment shrank');
      await disk.write(file.fd, piece, to);
      position += piece.length;
      to += piece.length;
    }
  }
  const table = encodePackedTable(moves);
  await disk.write(file.fd, table, to);
  const head = { count: moves.length, recordsEnd: to, tableCrc: crc32c(table) };
  await disk.write(file.fd, encodePackedHead(head), 0);
}
