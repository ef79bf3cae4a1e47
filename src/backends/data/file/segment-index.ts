/**
 * The ids in a few segments, for lists by prefix. A segment that still grows is read on from where the last list
 * stopped: removing what failed writes left costs what was written since, not the segment. A segment whose ids do not
 * fit into the memory for them is not indexed; the caller reads it as a whole.
 */
import fs from 'node:fs';
import { BoundedCache } from '../../../base/bounded-cache.ts';
import { fileMode, isMissing, type Layout, segmentPath } from './disk.ts';
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
        bytes += recordSize(header.id);
      }
      if (bytes > this.#bytesMaxEach) return { inode: indexed.inode, bytes: 0, records: undefined };
    }
    // Two lists may read on at the same time; the second one finds that the first has been here.
    if (scan.end <= indexed.end) return indexed;
    const from = indexed.records.length === 0 ? 0 : indexed.end;
    const more = added.filter((record) => record.offset >= from);
    indexed.records = indexed.records.concat(more);
    indexed.bytes += more.reduce((sum, { id }) => sum + recordSize(id), 0);
    indexed.end = scan.end;
    return indexed;
  }
}

const recordSize = (id: string): number => recordBytes + id.length;

// A summary of a sealed segment, so that lists and compaction need not read it.

export interface Summary {
  /** The least and the greatest id; both empty when there is no record. */
  readonly first: string;
  readonly last: string;
  readonly records: number;
  readonly bytes: number;
  /** The length of the `.dead` file that the last compaction has processed. */
  readonly deadSeen: number;
  /** A part in the middle cannot be read: the segment is left unchanged, for the operator or fsck. */
  readonly damaged: boolean;
}

/** Not flushed: a summary that a crash tears does not parse and is computed again. */
export function writeSummary(layout: Layout, segment: string, summary: Summary): void {
  fs.writeFileSync(segmentPath(layout, segment, 'sum'), JSON.stringify(summary), { mode: fileMode });
}

export function readSummary(layout: Layout, segment: string): Summary | undefined {
  try {
    const parsed: unknown = JSON.parse(fs.readFileSync(segmentPath(layout, segment, 'sum'), 'utf8'));
    return isSummary(parsed) ? parsed : undefined;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isSummary(parsed: unknown): parsed is Summary {
  const { first, last, records, bytes, deadSeen, damaged } = Object(parsed) as Partial<Summary>;
  return (
    typeof first === 'string' &&
    typeof last === 'string' &&
    typeof records === 'number' &&
    typeof bytes === 'number' &&
    typeof deadSeen === 'number' &&
    typeof damaged === 'boolean'
  );
}

/** Computes it from the segment itself, which must be sealed: the summary of a growing one would stay wrong. */
export async function summarize(layout: Layout, segment: string): Promise<Summary> {
  let first = '';
  let last = '';
  let records = 0;
  let bytes = 0;
  const scan = readSegment(layout, segment);
  for await (const found of scan.batches()) {
    for (const { header } of found) {
      if (records === 0 || header.id < first) first = header.id;
      if (header.id > last) last = header.id;
      records++;
      bytes += header.headerBytes + header.size;
    }
  }
  return { first, last, records, bytes, deadSeen: 0, damaged: scan.damaged };
}

/** Whether the segment may contain ids with this prefix. */
export const mayHold = ({ first, last, records }: Summary, prefix: string): boolean =>
  records > 0 && last >= prefix && (first < prefix || first.startsWith(prefix));
