/** The formats in which operators export the usage of a day: CSV, JSON Lines, and the columns of FOCUS. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { Traffic } from '../../metadata/buckets/usage.ts';
import type { DayUsageRow } from '../../metadata/records/usage.ts';
import { type Charge, focusColumns, storageCharge, trafficCharges } from './focus.ts';
import { findProgress, isMissed } from './progress.ts';
import { dayMs, startOfDay, trafficCloseMs, trafficRetentionMs } from './traffic-counter.ts';

export interface ExportFormat<Row> {
  readonly mediaType: string;
  /** The first line; absent where the format has none. */
  readonly header?: string;
  readonly toLines: (row: Row) => readonly string[];
}

export type FormatName = 'csv' | 'jsonl' | 'focus';
type Formats<Row> = Readonly<Record<FormatName, ExportFormat<Row>>>;
/** A column for each field of a row. */
type Columns<Row> = { readonly [Name in keyof Row]-?: (row: Row) => string | number };

/** RFC 4180: quoted where needed. */
const toField = (value: string | number): string => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const csv = <Row>(columns: Readonly<Record<string, (row: Row) => string | number>>): ExportFormat<Row> => ({
  mediaType: 'text/csv; charset=utf-8; header=present',
  header: Object.keys(columns).join(','),
  toLines: (row) => [
    Object.values(columns)
      .map((read) => toField(read(row)))
      .join(','),
  ],
});

const jsonLines = 'application/x-ndjson';

const focusCharge = csv<Charge>(focusColumns);

const focus = <Row>(toCharges: (row: Row) => readonly Charge[]): ExportFormat<Row> => ({
  ...focusCharge,
  toLines: (row) => toCharges(row).flatMap(focusCharge.toLines),
});

const storageColumns: Columns<DayUsageRow> = {
  day: ({ day }) => day,
  bucket: ({ bucket }) => bucket,
  bucketId: ({ bucketId }) => bucketId,
  owner: ({ owner }) => owner,
  storageClass: ({ storageClass }) => storageClass,
  byteSeconds: ({ byteSeconds }) => byteSeconds,
  objectCountAvg: ({ objectCountAvg }) => objectCountAvg,
  objectCountMax: ({ objectCountMax }) => objectCountMax,
  samples: ({ samples }) => samples,
  computedAt: ({ computedAt }) => new Date(computedAt).toISOString(),
};
const { byteSeconds: _, ...exactColumns } = storageColumns;

export const storageFormats: Formats<DayUsageRow> = {
  csv: csv<DayUsageRow>(storageColumns),
  jsonl: {
    mediaType: jsonLines,
    toLines: (row) => {
      const fields = Object.entries(exactColumns).map(([name, read]) => [name, read(row)]);
      // `byteSeconds` may be larger than the integers that a `number` holds exactly.
      return [`${JSON.stringify(Object.fromEntries(fields)).slice(0, -1)},"byteSeconds":${row.byteSeconds}}`];
    },
  },
  focus: focus((row) => [storageCharge(row)]),
};

const trafficColumns: Columns<Traffic> = {
  day: ({ day }) => day,
  bucket: ({ bucket }) => bucket,
  bucketId: ({ bucketId }) => bucketId,
  requester: ({ requester }) => requester,
  payer: ({ payer }) => payer,
  requestsA: ({ requestsA }) => requestsA,
  requestsB: ({ requestsB }) => requestsB,
  requestsFree: ({ requestsFree }) => requestsFree,
  ingressBytes: ({ ingressBytes }) => ingressBytes,
  egressBytes: ({ egressBytes }) => egressBytes,
};

export const trafficFormats: Formats<Traffic> = {
  csv: csv<Traffic>(trafficColumns),
  jsonl: { mediaType: jsonLines, toLines: (row) => [JSON.stringify(row)] },
  focus: focus(trafficCharges),
};

// A closed day for export: whether it is known, and its rows as lines.

type Ctx = Pick<Context, 'metadata'>;

const linesPerPiece = 256;

/** @throws NotFound for a day that is not closed yet, or of which nothing is known */
export async function assertClosed({ metadata }: Ctx, day: string): Promise<void> {
  const progress = await findProgress(metadata);
  if (progress === undefined || day > progress.closedThrough)
    throw fail(
      'NotFound',
      `The usage of ${day} is not written yet: the usage-rollup worker closes a day after its end.`,
    );
  const { since } = progress;
  if (since !== undefined && day < since)
    throw fail('NotFound', `No usage of ${day} is known: a usage-rollup worker first ran on ${since}.`);
  if (isMissed(progress, day))
    throw fail('NotFound', `No usage of ${day} is known, because no usage-rollup worker ran.`);
}

/** @throws NotFound for a day to which processes may still write, or whose rows are no longer kept */
export async function assertTrafficClosed({ metadata }: Ctx, day: string): Promise<void> {
  const closesAt = startOfDay(day) + dayMs + trafficCloseMs;
  const now = await metadata.now();
  if (now < closesAt)
    throw fail('NotFound', `The traffic of ${day} is complete from ${new Date(closesAt).toISOString()} on.`);
  if (now >= startOfDay(day) + trafficRetentionMs)
    throw fail(
      'NotFound',
      `The traffic of ${day} is no longer kept: its rows are kept for ${trafficRetentionMs / dayMs} days.`,
    );
}

/** The lines of a day, some rows at a time, always in the same order. */
export async function* exportLines<Row>(
  rows: AsyncIterable<Row>,
  { header, toLines }: ExportFormat<Row>,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let lines = header === undefined ? [] : [header];
  for await (const row of rows) {
    lines.push(...toLines(row));
    if (lines.length < linesPerPiece) continue;
    yield encoder.encode(`${lines.join('\n')}\n`);
    lines = [];
  }
  if (lines.length > 0) yield encoder.encode(`${lines.join('\n')}\n`);
}
