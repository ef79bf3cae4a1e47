/**
 * Reclaims space, one segment per call, and removes what crashes left. Several processes may do so concurrently: a lock file keeps
 * them off the same segment. If a process sleeps longer than its lock is valid, no record is lost, because a sealed segment never gets
 * another one. Asleep between its last look at the lock and the rename, it may bring back a segment that another process removed as
 * wholly dead: it removes that one again. A kill between the two leaves bytes that fsck finds unowned.
 */
import fs from 'node:fs';
import { type FileHandle, open, rename, rmdir, unlink } from 'node:fs/promises';
import { isStorageFull } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { ChunkDamaged } from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';
import { crc32c } from '../../crypto/node.ts';
import { deadBytes, entryBytes, readDead } from './dead.ts';
import {
  type Disk,
  fileMode,
  isMissing,
  isTaken,
  isThere,
  type Layout,
  newName,
  segmentNames,
  segmentPath,
} from './disk.ts';
import { isMakerDead, isNamedMakerDead, makerSuffix, openSegment, sealLeftOpen } from './maker.ts';
import { encodePackedHead, encodePackedTable, packedHeadBytes } from './packed.ts';
import { readSummary, type Summary, summarize, writeSummary } from './segment-index.ts';
import { readSegment } from './segment-scan.ts';

/** The age that decides where the death of the owning process cannot be detected: an owner seals its segment after ten idle minutes. */
const abandonedMs = 60 * 60_000;
const lockMs = 10 * 60_000;
/** Tidying reads every directory, so not every call does it. */
const tidyMs = 10 * 60_000;
/** Files that are checked before the event loop gets its turn. */
const looksAtOnce = 64;

interface CompactorParts {
  readonly layout: Layout;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  /** The segment that this process appends to. */
  readonly current: () => string | undefined;
  /** Called when a segment's file was replaced or removed. */
  readonly replaced: (segment: string) => void;
}

export class Compactor {
  readonly #parts: CompactorParts;
  #todo: string[] = [];
  #tidiedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: CompactorParts) {
    this.#parts = parts;
  }

  async compact(signal: AbortSignal): Promise<boolean> {
    if (this.#todo.length === 0) {
      const now = this.#parts.clock.elapsed();
      if (now - this.#tidiedAt > tidyMs) {
        this.#tidiedAt = now;
        await this.#tidy();
      }
      this.#todo = await this.#candidates();
    }
    const segment = this.#todo.shift();
    if (segment === undefined || signal.aborted) return false;
    const lock = this.#lock(segment);
    if (lock) {
      try {
        await this.#work(segment, { signal, stillOurs: lock.stillOurs });
      } catch (error) {
        // Left for the operator or fsck, as one with damaged records is.
        if (error instanceof ChunkDamaged) this.#markDamaged(segment);
        // A copy did not fit. The next segment may hold nothing alive, and give its space back without one.
        else if (!isStorageFull(error)) throw error;
      } finally {
        lock.release();
      }
    }
    return this.#todo.length > 0;
  }

  async #candidates(): Promise<string[]> {
    const found: string[] = [];
    for (const [at, segment] of segmentNames(this.#parts.layout).entries()) {
      if (at % looksAtOnce === 0) await turn();
      if (!this.#isSealed(segment)) continue;
      const summary = readSummary(this.#parts.layout, segment);
      if (!summary || this.#isWorthwhile(segment, summary)) found.push(segment);
    }
    return found;
  }

  /** Whether at least half of the records are dead, so that never more is copied than is reclaimed. */
  #isWorthwhile(segment: string, { records, deadSeen, damaged }: Summary): boolean {
    if (damaged) return false;
    if (records === 0) return true;
    const dead = (deadBytes(this.#parts.layout, segment) - deadSeen) / entryBytes;
    return dead > 0 && dead * 2 >= records;
  }

  /** Seals what a dead process has left open. */
  #isSealed(segment: string): boolean {
    const { layout, current } = this.#parts;
    if (segment === current()) return false;
    const marker = segmentPath(layout, segment, 'open');
    if (!isThere(marker)) return true;
    const isDead = isMakerDead(marker) || this.#isOlder(segmentPath(layout, segment, 'seg'), abandonedMs);
    if (!isDead) return false;
    sealLeftOpen(layout, segment);
    return true;
  }

  #isOlder(path: string, ms: number): boolean {
    const stat = fs.statSync(path, { throwIfNoEntry: false });
    return stat !== undefined && this.#parts.clock.now() - stat.mtimeMs > ms;
  }

  async #work(
    segment: string,
    { signal, stillOurs }: { readonly signal: AbortSignal; readonly stillOurs: () => boolean },
  ): Promise<void> {
    const { layout, disk, replaced } = this.#parts;
    let summary = readSummary(layout, segment);
    if (!summary) {
      summary = await summarize(layout, segment);
      writeSummary(layout, segment, summary);
    }
    if (!this.#isWorthwhile(segment, summary)) return;
    const temporary = `${layout.temporary}/${newName(this.#parts)}${makerSuffix()}`;
    try {
      await packSegment({ layout, disk, temporary, signal, stillOurs }, segment);
    } finally {
      replaced(segment);
    }
  }

  #markDamaged(segment: string): void {
    const { layout } = this.#parts;
    const summary = readSummary(layout, segment) ?? emptySummary;
    writeSummary(layout, segment, { ...summary, damaged: true });
  }

  #lock(segment: string): { stillOurs: () => boolean; release: () => void } | undefined {
    const path = segmentPath(this.#parts.layout, segment, 'lock');
    if (this.#isOlder(path, lockMs)) fs.rmSync(path, { force: true });
    const mark = newName(this.#parts);
    try {
      fs.writeFileSync(path, mark, { flag: 'wx', mode: fileMode });
    } catch (error) {
      if (isTaken(error)) return undefined;
      throw error;
    }
    const stillOurs = (): boolean => {
      try {
        return fs.readFileSync(path, 'latin1') === mark;
      } catch (error) {
        if (isMissing(error)) return false;
        throw error;
      }
    };
    return { stillOurs, release: () => stillOurs() && fs.rmSync(path, { force: true }) };
  }

  /** Removes temporary files that are old or of dead processes, files of removed segments, and empty directories. */
  async #tidy(): Promise<void> {
    const { layout } = this.#parts;
    let looks = 0;
    for (const name of fs.readdirSync(layout.temporary)) {
      if (++looks % looksAtOnce === 0) await turn();
      const path = `${layout.temporary}/${name}`;
      if (isNamedMakerDead(name) || this.#isOlder(path, abandonedMs)) fs.rmSync(path, { force: true });
    }
    for (const name of fs.readdirSync(layout.segments)) {
      if (++looks % looksAtOnce === 0) await turn();
      const path = `${layout.segments}/${name}`;
      const segment = name.slice(0, name.indexOf('.'));
      const isStray = !name.endsWith('.seg') && !isThere(segmentPath(layout, segment, 'seg'));
      if (isStray && this.#isOlder(path, abandonedMs)) fs.rmSync(path, { force: true });
    }
    for (const group of fs.readdirSync(layout.large)) {
      if (++looks % looksAtOnce === 0) await turn();
      const path = `${layout.large}/${group}`;
      if (!this.#isOlder(path, abandonedMs)) continue;
      await rmdir(path).catch(() => {
        // Not empty. A writer whose directory was removed creates it again.
      });
    }
  }
}

/** Of a segment whose records cannot be read. */
const emptySummary: Summary = { first: '', last: '', records: 0, bytes: 0, deadSeen: 0, damaged: true };

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

// Compacts a sealed segment: writes its live records to a new file, which replaces the segment.

const copyBytes = 1024 * 1024;

interface PackParts {
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
async function packSegment(parts: PackParts, segment: string): Promise<void> {
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

/**
 * Whether another process has removed the segment as wholly dead, while this one slept between its last look at the lock and the rename.
 * A segment that is packed has both files, and only its removal removes them.
 */
const wasRemoved = (layout: Layout, segment: string): boolean =>
  !isThere(segmentPath(layout, segment, 'dead')) && !isThere(segmentPath(layout, segment, 'sum'));

async function copyLive(parts: PackParts, segment: string, live: readonly Live[]): Promise<boolean> {
  const source = openSegment(parts.layout, segment);
  if (!source) return false;
  const file = await open(parts.temporary, 'wx', fileMode);
  try {
    await writePacked(parts, { from: source.fd, file, live });
    await parts.disk.flush(file.fd);
    if (!parts.stillOurs()) throw new Error(`another process compacts segment ${segment}`);
    const path = segmentPath(parts.layout, segment, 'seg');
    await rename(parts.temporary, path);
    if (!wasRemoved(parts.layout, segment)) return true;
    fs.rmSync(path, { force: true });
    return false;
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
