/** Reads the headers of a segment one after another: for lists, summaries and packing. */
import fs from 'node:fs';
import { promisify } from 'node:util';
import {
  decodeHeader,
  deriveSeed,
  findMagic,
  type Header,
  headerBytesMax,
  headerLength,
} from '../chunked/record.ts';
import type { Layout } from './disk.ts';
import { openSegment } from './maker.ts';
import { type PackedTable, packedHeadBytes, unlocate } from './packed.ts';

const read = promisify(fs.read);
const windowBytes = 256 * 1024;
/** Records passed on at a time, so that the event loop gets its turn. */
const batchMax = 256;

export interface FoundRecord {
  readonly header: Header;
  /** The offset that locators name. */
  readonly offset: number;
  /** The position of the record in the present file. */
  readonly position: number;
}

export interface SegmentScan {
  /** Empty when the segment does not exist. Stops silently at a torn tail. */
  batches(): AsyncGenerator<readonly FoundRecord[]>;
  /** Valid at the end: there were unreadable bytes between records. */
  damaged: boolean;
  /** The position of the next record, where a later scan of a growing segment continues. */
  end: number;
}

/**
 * Unreadable bytes with no record after them are a torn tail. Unreadable bytes between records are damage: the scan continues after
 * them, and nothing may be removed because of such a scan.
 */
export function readSegment(layout: Layout, segment: string, from = 0): SegmentScan {
  const scan: SegmentScan = { damaged: false, end: from, batches };
  return scan;

  async function* batches(): AsyncGenerator<readonly FoundRecord[]> {
    const open = openSegment(layout, segment);
    if (!open) return;
    try {
      const window = new Window(open.fd, open.table?.recordsEnd ?? fs.fstatSync(open.fd).size);
      const seed = deriveSeed(segment);
      let position = Math.max(from, open.table ? packedHeadBytes : 0);
      let batch: FoundRecord[] = [];
      for (;;) {
        const header = await window.headerAt(position, seed);
        if (header) {
          const offset = originalOffset(open.table, position);
          if (offset === undefined) scan.damaged = true;
          else batch.push({ header, offset, position });
          position += header.headerBytes + header.size;
          scan.end = position;
        } else {
          const next = await window.nextHeader(position + 1, seed);
          if (next === undefined) {
            // A packed segment was complete when it got its name: it has no torn tail.
            if (open.table && position < open.table.recordsEnd) scan.damaged = true;
            break;
          }
          scan.damaged = true;
          position = next;
        }
        if (batch.length >= batchMax) {
          yield batch;
          batch = [];
        }
      }
      if (batch.length > 0) yield batch;
    } finally {
      fs.closeSync(open.fd);
    }
  }
}

const originalOffset = (table: PackedTable | undefined, position: number): number | undefined =>
  table ? unlocate(table, position) : position;

/** A view of the part of the file that is being scanned. */
class Window {
  readonly #fd: number;
  readonly #fileEnd: number;
  readonly #buffer = Buffer.allocUnsafeSlow(windowBytes);
  #start = 0;
  #length = 0;

  constructor(fd: number, fileEnd: number) {
    this.#fd = fd;
    this.#fileEnd = fileEnd;
  }

  /** The bytes from `position` on: `length` of them, or what the file has. */
  async #bytesAt(position: number, length: number): Promise<Buffer> {
    const requested = Math.min(length, this.#fileEnd - position);
    if (position < this.#start || position + requested > this.#start + this.#length) {
      const { bytesRead } = await read(this.#fd, this.#buffer, 0, windowBytes, position);
      this.#start = position;
      this.#length = Math.min(bytesRead, this.#fileEnd - position);
    }
    return this.#buffer.subarray(position - this.#start, this.#length);
  }

  /** The valid header at `position` of a record that is complete in the file. */
  async headerAt(position: number, seed: number): Promise<Header | undefined> {
    if (position >= this.#fileEnd) return undefined;
    let bytes = await this.#bytesAt(position, 1024);
    const length = headerLength(bytes, 0);
    if (length === undefined || length > headerBytesMax) return undefined;
    if (length > bytes.length) bytes = await this.#bytesAt(position, length);
    const header = decodeHeader(bytes, { at: 0, seed });
    const fits = header && position + header.headerBytes + header.size <= this.#fileEnd;
    return fits ? header : undefined;
  }

  async nextHeader(from: number, seed: number): Promise<number | undefined> {
    for (let position = from; position < this.#fileEnd; ) {
      const bytes = await this.#bytesAt(position, windowBytes);
      const found = findMagic(bytes, 0);
      if (found < 0) {
        // The last three bytes may be the beginning of one.
        position += Math.max(1, bytes.length - 3);
      } else if (await this.headerAt(position + found, seed)) {
        return position + found;
      } else {
        position += found + 1;
      }
    }
    return undefined;
  }
}
