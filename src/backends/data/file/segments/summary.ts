/** A summary of a sealed segment, so that lists and compaction need not read it. */
import fs from 'node:fs';
import { fileMode, isMissing, type Layout, segmentPath } from '../layout.ts';
import { readSegment } from './segment-scan.ts';

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
