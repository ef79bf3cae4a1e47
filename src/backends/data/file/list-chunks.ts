/** Lists chunks from disk alone, skipping segments and directories that cannot hold the prefix. */
import fs from 'node:fs';
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { StoredChunk } from '../../../ports/chunk-store.ts';
import type { Owner } from '../../../ports/object-bytes.ts';
import { decodeHeader, deriveSeed, type Header, headerBytesMax } from '../chunked/record.ts';
import { readDead } from './dead.ts';
import { type LargeParts, listLarge } from './large-chunks.ts';
import { formatPlace, type Layout, segmentNames, segmentPath } from './layout.ts';
import { openSegment } from './maker.ts';
import { locate } from './packed.ts';
import { type IndexedRecord, mayHold, readSummary, SegmentIndex, type Summary } from './segment-index.ts';
import { readSegment } from './segment-scan.ts';
import type { Current } from './segment-writer.ts';

/** With more matches than this, scanning the segment is cheaper than looking each of them up. */
const lookupsMax = 64;
const summariesMax = 64 * 1024;
const summariesBytesMax = 8 * 1024 * 1024;
/** The object of a summary with its numbers, and the heads of its texts. */
const summaryBytes = 160;

/** Limits of the cached ids of segments, and of their summaries. */
export interface ListerLimits {
  readonly indexBytesMax?: number;
  readonly summariesBytesMax?: number;
}

export class Lister {
  readonly #parts: Pick<LargeParts, 'layout' | 'disk'>;
  readonly #index: SegmentIndex;
  /** The segment that this process appends to, and how far it is acknowledged. */
  readonly #current: () => Current | undefined;
  /** Summaries of sealed segments: a compaction only removes records, so an old summary is still an upper bound. */
  readonly #summaries: BoundedCache<Summary>;

  constructor(
    parts: Pick<LargeParts, 'layout' | 'disk'> & { readonly limits?: ListerLimits | undefined },
    current: () => Current | undefined,
  ) {
    const { layout, limits } = parts;
    this.#parts = parts;
    this.#index = new SegmentIndex(layout, limits?.indexBytesMax);
    this.#current = current;
    this.#summaries = new BoundedCache({
      name: 'segment-summaries',
      entriesMax: summariesMax,
      bytes: {
        max: limits?.summariesBytesMax ?? summariesBytesMax,
        sizeOf: ({ first, last }, segment) => summaryBytes + first.length + last.length + segment.length,
      },
    });
  }

  async *list(prefixes: readonly string[]): AsyncGenerator<StoredChunk> {
    for (const prefix of prefixes.length === 0 ? [''] : prefixes) yield* this.#under(prefix);
  }

  async *#under(prefix: string): AsyncGenerator<StoredChunk> {
    for (const segment of segmentNames(this.#parts.layout)) {
      if (prefix === '') yield* this.#listSegment(segment, prefix);
      else if (this.#mayHold(segment, prefix)) yield* this.#findInSegment(segment, prefix);
    }
    yield* listLarge(this.#parts, prefix);
  }

  #mayHold(segment: string, prefix: string): boolean {
    let summary = this.#summaries.get(segment);
    if (!summary) {
      summary = readSummary(this.#parts.layout, segment);
      if (!summary || fs.existsSync(segmentPath(this.#parts.layout, segment, 'open'))) return true;
      this.#summaries.set(segment, summary);
    }
    return mayHold(summary, prefix);
  }

  /** For this process's own segment, the list ends at the records that were acknowledged when it reached the segment. */
  #endOf(segment: string): number {
    const current = this.#current();
    return current?.segment === segment ? current.end : Number.POSITIVE_INFINITY;
  }

  async *#listSegment(segment: string, prefix: string): AsyncGenerator<StoredChunk> {
    const end = this.#endOf(segment);
    const { layout } = this.#parts;
    for await (const found of readSegment(layout, segment).batches()) {
      // Read late: what was removed meanwhile is not shown.
      const dead = readDead(layout, segment).offsets;
      for (const { header, offset } of found) {
        if (offset >= end || dead.has(offset) || !header.id.startsWith(prefix)) continue;
        yield stored(segment, offset, header);
      }
    }
  }

  async *#findInSegment(segment: string, prefix: string): AsyncGenerator<StoredChunk> {
    const end = this.#endOf(segment);
    const { layout } = this.#parts;
    const indexed = await this.#index.find(segment, prefix);
    if (indexed?.length === 0) return;
    if (indexed === undefined || indexed.length > lookupsMax)
      return yield* this.#listSegment(segment, prefix);
    const dead = readDead(layout, segment).offsets;
    const live = indexed.filter(({ offset }) => offset < end && !dead.has(offset));
    for (const { offset, header } of readHeaders(layout, segment, live))
      yield stored(segment, offset, header);
  }
}

function* readHeaders(
  layout: Layout,
  segment: string,
  records: readonly IndexedRecord[],
): Generator<{ readonly offset: number; readonly header: Header }> {
  const open = records.length > 0 ? openSegment(layout, segment) : undefined;
  if (!open) return;
  try {
    const bytes = Buffer.alloc(headerBytesMax);
    for (const { offset } of records) {
      const position = open.table ? locate(open.table, offset) : offset;
      if (position === undefined) continue;
      const count = fs.readSync(open.fd, bytes, 0, bytes.length, position);
      const header = decodeHeader(bytes.subarray(0, count), { at: 0, seed: deriveSeed(segment) });
      if (header) yield { offset, header };
    }
  } finally {
    fs.closeSync(open.fd);
  }
}

function stored(segment: string, offset: number, header: Header): StoredChunk {
  const { id, size, headerBytes, ownerJson } = header;
  const at = formatPlace({ segment, offset, headerBytes });
  return { id, size, at, owner: JSON.parse(ownerJson) as Owner };
}
