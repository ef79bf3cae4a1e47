/**
 * The ids in a few segments, for lists by prefix. A segment that still grows is read on from where the
 * last list stopped: removing what failed writes left costs what was written since, not the segment.
 */
import fs from 'node:fs';
import { type Layout, segmentPath } from './layout.ts';
import { readSegment } from './segment-scan.ts';

const segmentsMax = 8;

export interface IndexedRecord {
  readonly id: string;
  readonly offset: number;
}

interface Indexed {
  inode: number;
  end: number;
  records: IndexedRecord[];
}

export class SegmentIndex {
  readonly #layout: Layout;
  /** In order of last use. */
  readonly #segments = new Map<string, Indexed>();

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  async find(segment: string, prefix: string): Promise<readonly IndexedRecord[]> {
    const stat = fs.statSync(segmentPath(this.#layout, segment, 'seg'), { throwIfNoEntry: false });
    const known = this.#segments.get(segment);
    this.#segments.delete(segment);
    if (!stat) return [];
    // A packing has moved the records: positions of the old file mean nothing in the new one.
    const indexed = known?.inode === stat.ino ? known : { inode: stat.ino, end: 0, records: [] };
    if (indexed.end < stat.size) await this.#readOn(segment, indexed);
    this.#segments.set(segment, indexed);
    for (const oldest of this.#segments.keys()) {
      if (this.#segments.size <= segmentsMax) break;
      this.#segments.delete(oldest);
    }
    return indexed.records.filter((record) => record.id.startsWith(prefix));
  }

  async #readOn(segment: string, indexed: Indexed): Promise<void> {
    const scan = readSegment(this.#layout, segment, indexed.end);
    const added: IndexedRecord[] = [];
    for await (const found of scan.batches()) {
      for (const { header, offset } of found) added.push({ id: header.id, offset });
    }
    // Two lists may read on at the same time; the second one finds that the first has been here.
    if (scan.end <= indexed.end) return;
    const from = indexed.records.length === 0 ? 0 : indexed.end;
    indexed.records = indexed.records.concat(added.filter((record) => record.offset >= from));
    indexed.end = scan.end;
  }
}
