/**
 * The ids in a few segments, for lists by prefix. A segment that still grows is read on from where the last list
 * stopped: removing what failed writes left costs what was written since, not the segment. A segment whose ids do not
 * fit into the memory for them is not indexed; the caller reads it as a whole.
 */
import fs from 'node:fs';
import { BoundedCache } from '../../../../base/bounded-cache.ts';
import { type Layout, segmentPath } from '../layout.ts';
import { readSegment } from './segment-scan.ts';

const segmentsMax = 8;
const defaultBytesMax = 16 * 1024 * 1024;
/** The object of a record with its two numbers, the head of its text, and its place in the array. */
const recordBytes = 80;

export interface IndexedRecord {
  readonly id: string;
  readonly offset: number;
}

interface Indexed {
  readonly inode: number;
  end: number;
  records: IndexedRecord[];
  bytes: number;
}

/** An index of this file was larger than one segment may have. */
interface TooLarge {
  readonly inode: number;
  readonly bytes: 0;
  readonly records: undefined;
}

export class SegmentIndex {
  readonly #layout: Layout;
  readonly #bytesMaxEach: number;
  readonly #segments: BoundedCache<Indexed | TooLarge>;

  /** @param bytesMax of all indexes together; one has at most half of it */
  constructor(layout: Layout, bytesMax = defaultBytesMax) {
    this.#layout = layout;
    this.#bytesMaxEach = bytesMax / 2;
    this.#segments = new BoundedCache({
      name: 'segment-records',
      entriesMax: segmentsMax,
      bytes: { max: bytesMax, sizeOf: ({ bytes }, segment) => bytes + recordBytes + segment.length },
    });
  }

  /** @returns undefined where the segment is to be read as a whole */
  async find(segment: string, prefix: string): Promise<readonly IndexedRecord[] | undefined> {
    const stat = fs.statSync(segmentPath(this.#layout, segment, 'seg'), { throwIfNoEntry: false });
    if (!stat) {
      this.#segments.delete(segment);
      return [];
    }
    const known = this.#segments.get(segment);
    // A packing has moved the records: positions of the old file mean nothing in the new one.
    const former: Indexed | TooLarge =
      known?.inode === stat.ino ? known : { inode: stat.ino, end: 0, records: [], bytes: 0 };
    const isBehind = former.records !== undefined && former.end < stat.size;
    const indexed = isBehind ? await this.#readOn(segment, former) : former;
    this.#segments.set(segment, indexed);
    return indexed.records?.filter((record) => record.id.startsWith(prefix));
  }

  async #readOn(segment: string, indexed: Indexed): Promise<Indexed | TooLarge> {
    const scan = readSegment(this.#layout, segment, indexed.end);
    const added: IndexedRecord[] = [];
    let bytes = indexed.bytes;
    for await (const found of scan.batches()) {
      for (const { header, offset } of found) {
        added.push({ id: header.id, offset });
        bytes += sizeOf(header.id);
      }
      if (bytes > this.#bytesMaxEach) return { inode: indexed.inode, bytes: 0, records: undefined };
    }
    // Two lists may read on at the same time; the second one finds that the first has been here.
    if (scan.end <= indexed.end) return indexed;
    const from = indexed.records.length === 0 ? 0 : indexed.end;
    const more = added.filter((record) => record.offset >= from);
    indexed.records = indexed.records.concat(more);
    indexed.bytes += more.reduce((sum, { id }) => sum + sizeOf(id), 0);
    indexed.end = scan.end;
    return indexed;
  }
}

const sizeOf = (id: string): number => recordBytes + id.length;
