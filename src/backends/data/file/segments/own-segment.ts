/**
 * The segment that this process appends to. It may append as long as the segment's `.open` file exists: it checks after every flush and
 * before it answers. So a segment that another process has sealed, because it took this one for dead, never gets an acknowledged
 * record that a compaction might have missed.
 */
import fs from 'node:fs';
import type { Clock } from '../../../../ports/clock.ts';
import type { Random } from '../../../../ports/random.ts';
import { deriveSeed, sealHeader } from '../../chunked/record.ts';
import type { Disk } from '../disk.ts';
import { fileMode, type Layout, newName, segmentPath } from '../layout.ts';
import { writeMaker } from './maker.ts';
import { writeSummary } from './summary.ts';

interface Parts {
  readonly layout: Layout;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
}

export interface Appendix {
  readonly buffer: Buffer;
  readonly used: number;
  readonly entries: readonly { readonly id: string; readonly at: number; readonly headerBytes: number }[];
}

export class OwnSegment {
  readonly name: string;
  /** The end of the acknowledged records. */
  end = 0;
  records = 0;
  appendedAt: number;
  readonly #parts: Parts;
  readonly #fd: number;
  readonly #seed: number;
  #first = '';
  #last = '';

  private constructor(parts: Parts, name: string) {
    this.#parts = parts;
    this.name = name;
    this.#seed = deriveSeed(name);
    this.appendedAt = parts.clock.now();
    writeMaker(segmentPath(parts.layout, name, 'open'));
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

  /** Durable when it resolves; false when another process has sealed the segment. */
  async append({ buffer, used, entries }: Appendix): Promise<boolean> {
    const { disk, clock, layout } = this.#parts;
    for (const { at, headerBytes } of entries) sealHeader(buffer, { at, headerBytes, seed: this.#seed });
    await disk.write(this.#fd, buffer.subarray(0, used), this.end);
    await disk.flush(this.#fd);
    if (!fs.existsSync(segmentPath(layout, this.name, 'open'))) {
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
