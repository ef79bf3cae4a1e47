/**
 * Group commit of small chunks: a chunk that arrives while one batch is written and flushed joins the next, so that many writers share
 * one write and one flush. A process appends only to segments that it created.
 */

import fs from 'node:fs';
import type { ChunkRef } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Owner } from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';
import { crc32c } from '../../crypto/node.ts';
import {
  blockBytes,
  blockCount,
  deriveSeed,
  describe,
  encodeHeader,
  sealHeader,
  type Unwritten,
} from '../chunked/record.ts';
import { appendDead, deadBytes, entryBytes } from './dead.ts';
import {
  type Disk,
  type FileIdentity,
  fileMode,
  formatPlace,
  type Layout,
  leadsTo,
  newName,
  segmentPath,
} from './disk.ts';
import { writeMaker } from './maker.ts';
import { writeSummary } from './segment-index.ts';

interface WriterParts {
  readonly layout: Layout;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  /** At most 64 MiB, which is the default. */
  readonly segmentBytesMax?: number | undefined;
}

/** The segment being appended to, and how far it is acknowledged. */
export interface Current {
  readonly segment: string;
  readonly end: number;
  readonly records: number;
}

/** Four of the largest small chunks, or about 250 of 4 KiB. */
const batchBytes = 1024 * 1024 + 64 * 1024;
/** Buffers kept for the next batches; more are made when more is waiting, and dropped afterwards. */
const spareBatchesMax = 2;
const segmentBytesMaxDefault = 64 * 1024 * 1024;
/** Bounds the table of a packed segment (128 KiB), which readers keep in memory. */
const segmentRecordsMax = 16_384;
/** A segment that was idle for longer is sealed before anyone else may take its maker for dead. */
const idleMsMax = 10 * 60_000;
const sealedByOthersMax = 3;

interface Entry {
  readonly id: string;
  readonly size: number;
  readonly headerBytes: number;
  /** The position of the record in the batch. */
  readonly at: number;
  readonly resolve: (chunk: ChunkRef) => void;
  readonly reject: (cause: unknown) => void;
}

interface Batch {
  readonly buffer: Buffer;
  used: number;
  entries: Entry[];
}

export class SegmentWriter {
  readonly #parts: WriterParts;
  readonly #waiting: Batch[] = [];
  readonly #spare: Buffer[] = [];
  #segment: OwnSegment | undefined;
  #working: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** The segment being appended to and how far it is acknowledged, for this process's own lists. */
  get current(): Current | undefined {
    const segment = this.#segment;
    return segment && { segment: segment.name, end: segment.end, records: segment.records };
  }

  /** Durable when it resolves. Copies `data` before it returns. */
  add(id: string, owner: Owner, data: Uint8Array): Promise<ChunkRef> {
    if (this.#isClosed) return Promise.reject(new Error('the chunk store is closed'));
    const record = describe(id, { owner, size: data.length });
    const { promise, resolve, reject } = Promise.withResolvers<ChunkRef>();
    const batch = this.#space(record.headerBytes + data.length);
    const { headerBytes } = record;
    batch.entries.push({ id, size: data.length, headerBytes, at: batch.used, resolve, reject });
    this.#encode(batch, record, data);
    this.#working ??= this.#work();
    return promise;
  }

  #encode(batch: Batch, record: Unwritten, data: Uint8Array): void {
    batch.buffer.set(data, batch.used + record.headerBytes);
    const crcs: number[] = [];
    for (let block = 0; block < blockCount(data.length); block++) {
      crcs.push(crc32c(data.subarray(block * blockBytes, (block + 1) * blockBytes)));
    }
    encodeHeader(batch.buffer, batch.used, { ...record, size: data.length, crcs });
    batch.used += record.headerBytes + data.length;
  }

  #space(length: number): Batch {
    const last = this.#waiting.at(-1);
    if (last && last.used + length <= last.buffer.length) return last;
    const buffer = this.#spare.pop() ?? Buffer.allocUnsafeSlow(batchBytes);
    const batch: Batch = { buffer, used: 0, entries: [] };
    this.#waiting.push(batch);
    return batch;
  }

  async #work(): Promise<void> {
    // Include every chunk that is ready in this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    for (let batch = this.#waiting.shift(); batch; batch = this.#waiting.shift()) {
      try {
        await this.#commit(batch);
      } catch (cause) {
        // After a failed write or flush the contents of the file are unknown: append nothing more.
        await this.#segment?.abandon();
        this.#segment = undefined;
        for (const entry of batch.entries) entry.reject(cause);
      }
      if (this.#spare.length < spareBatchesMax) this.#spare.push(batch.buffer);
    }
    this.#working = undefined;
  }

  async #commit(batch: Batch): Promise<void> {
    for (let attempt = 0; attempt < sealedByOthersMax; attempt++) {
      const segment = this.#currentFor(batch) ?? (await this.#openNext());
      const start = segment.end;
      if (await segment.append(batch)) {
        for (const { id, size, headerBytes, at, resolve } of batch.entries) {
          const place = { segment: segment.name, offset: start + at, headerBytes };
          resolve({ id, size, at: formatPlace(place) });
        }
        return;
      }
      // Another process sealed it, taking this one for dead: a packing may miss what was just appended. Or a copy replaced it.
      this.#segment = undefined;
      await appendDead(
        this.#parts,
        segment.name,
        batch.entries.map(({ at }) => start + at),
      );
    }
    throw new Error('segments are sealed as soon as they are opened: do the clocks of the machines agree?');
  }

  /** The segment that is being appended to, if the batch may still go there; otherwise it is sealed. */
  #currentFor(batch: Batch): OwnSegment | undefined {
    const current = this.#segment;
    if (current === undefined) return undefined;
    const hasSpace =
      current.end + batch.used <= (this.#parts.segmentBytesMax ?? segmentBytesMaxDefault) &&
      current.records + batch.entries.length <= segmentRecordsMax &&
      this.#parts.clock.now() - current.appendedAt <= idleMsMax;
    if (hasSpace) return current;
    this.#segment = undefined;
    current.seal();
    return undefined;
  }

  async #openNext(): Promise<OwnSegment> {
    this.#segment = await OwnSegment.create(this.#parts);
    return this.#segment;
  }

  /** Seals the current segment when most of it is dead, so that it can be packed. */
  sealIfDead(): void {
    const current = this.#segment;
    // Never in the middle of a batch; the next call will do.
    if (current === undefined || this.#working !== undefined) return;
    const dead = deadBytes(this.#parts.layout, current.name) / entryBytes;
    if (dead * 2 < current.records || dead === 0) return;
    this.#segment = undefined;
    current.seal();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#working;
    this.#segment?.seal();
    this.#segment = undefined;
  }
}

// The segment that this process appends to. It may append as long as the segment's `.open` file exists: it checks after every flush and
// before it answers. So a segment that another process has sealed, because it took this one for dead, never gets an acknowledged
// record that a compaction might have missed. It compares the inode too: if an operator has replaced the directory by a copy, the
// segment of this process has no name any more, and a later start does not find what it holds.

interface Parts {
  readonly layout: Layout;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
}

interface Appendix {
  readonly buffer: Buffer;
  readonly used: number;
  readonly entries: readonly { readonly id: string; readonly at: number; readonly headerBytes: number }[];
}

class OwnSegment {
  readonly name: string;
  /** The end of the acknowledged records. */
  end = 0;
  records = 0;
  appendedAt: number;
  readonly #parts: Parts;
  readonly #fd: number;
  readonly #open: FileIdentity;
  readonly #seed: number;
  #first = '';
  #last = '';

  private constructor(parts: Parts, name: string) {
    this.#parts = parts;
    this.name = name;
    this.#seed = deriveSeed(name);
    this.appendedAt = parts.clock.now();
    this.#open = writeMaker(segmentPath(parts.layout, name, 'open'));
    this.#fd = fs.openSync(segmentPath(parts.layout, name, 'seg'), 'wx', fileMode);
  }

  static async create(parts: Parts): Promise<OwnSegment> {
    const segment = new OwnSegment(parts, newName(parts));
    try {
      await parts.disk.flushDirectory(parts.layout.segments);
    } catch (error) {
      await segment.abandon();
      throw error;
    }
    return segment;
  }

  /** Durable when it resolves; false when another process has sealed the segment, or a copy has replaced it. */
  async append({ buffer, used, entries }: Appendix): Promise<boolean> {
    const { disk, clock, layout } = this.#parts;
    for (const { at, headerBytes } of entries) sealHeader(buffer, { at, headerBytes, seed: this.#seed });
    await disk.write(this.#fd, buffer.subarray(0, used), this.end);
    await disk.flush(this.#fd);
    if (!leadsTo(segmentPath(layout, this.name, 'open'), this.#open)) {
      fs.closeSync(this.#fd);
      return false;
    }
    for (const { id } of entries) {
      if (this.records === 0 || id < this.#first) this.#first = id;
      if (id > this.#last) this.#last = id;
      this.records++;
    }
    this.end += used;
    this.appendedAt = clock.now();
    return true;
  }

  /** Ends appending; from now on any process may compact the segment. */
  seal(): void {
    try {
      writeSummary(this.#parts.layout, this.name, {
        first: this.#first,
        last: this.#last,
        records: this.records,
        bytes: this.end,
        deadSeen: 0,
        damaged: false,
      });
      fs.rmSync(segmentPath(this.#parts.layout, this.name, 'open'), { force: true });
    } finally {
      fs.closeSync(this.#fd);
    }
  }

  /** After a failure: truncates unacknowledged records, as far as the disk allows. */
  async abandon(): Promise<void> {
    try {
      fs.ftruncateSync(this.#fd, this.end);
    } catch {
      // Records after the end stay unacknowledged; they are found and removed like those of a crash.
    }
    try {
      this.seal();
    } catch {
      // The disk does not take even this: the segment will be sealed like a dead process's.
    }
  }
}
