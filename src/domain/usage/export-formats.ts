/** The formats in which operators export the usage of a day: CSV, JSON Lines, and the columns of FOCUS. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { Traffic } from '../../metadata/buckets/usage.ts';
import type { DayUsageRow } from '../../metadata/records/usage.ts';
import { findProgress, isMissed } from './progress.ts';
import { addDays, dayMs, startOfDay } from './read-usage.ts';
import { trafficCloseMs, trafficKeptMs } from './traffic-counter.ts';

export interface ExportFormat<Row> {
  readonly mediaType: string;
  /** The first line; absent where the format has none. */
  readonly header?: string;
  readonly toLines: (row: Row) => readonly string[];
}

export type FormatName = 'csv' | 'jsonl' | 'focus';
type Formats<Row> = Readonly<Record<FormatName, ExportFormat<Row>>>;
type Columns<Row> = Readonly<Record<string, (row: Row) => string | number>>;

/** RFC 4180: quoted where needed. */
const toField = (value: string | number): string => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const csv = <Row>(columns: Columns<Row>): ExportFormat<Row> => ({
  mediaType: 'text/csv; charset=utf-8; header=present',
  header: Object.keys(columns).join(','),
  toLines: (row) => [
    Object.values(columns)
      .map((read) => toField(read(row)))
      .join(','),
  ],
});

const jsonLines = 'application/x-ndjson';

/** A time of FOCUS: the first moment of a day. */
const at = (day: string): string => `${day}T00:00:00Z`;
const startOfMonth = (day: string): string => `${day.slice(0, 7)}-01`;
const nextMonth = (day: string): string => startOfMonth(addDays(startOfMonth(day), 31));

/** The gateway knows amounts, and neither prices nor who sells: such columns are empty, for the invoice generator to fill. */
const unknown = () => '';

/** What FOCUS calls a charge: an amount of one thing that has a price. */
interface Charge {
  readonly payer: string;
  readonly user: string;
  readonly day: string;
  readonly bucketId: string;
  readonly bucket: string;
  readonly sku: string;
  readonly says: string;
  readonly amount: string | number;
  readonly unit: string;
}

/**
 * Columns of the FinOps Open Cost and Usage Specification, https://focus.finops.org/focus-columns/: those that its versions 1.0 to 1.3
 * demand of every dataset, and further ones that the gateway knows. An empty field is null.
 */
const focusCharge = csv<Charge>({
  BilledCost: unknown,
  BillingAccountId: ({ payer }) => payer,
  BillingAccountName: unknown,
  BillingCurrency: unknown,
  BillingPeriodStart: ({ day }) => at(startOfMonth(day)),
  BillingPeriodEnd: ({ day }) => at(nextMonth(day)),
  ChargeCategory: () => 'Usage',
  // Null: no row corrects an earlier one, because closed days never change.
  ChargeClass: () => '',
  ChargeDescription: ({ says }) => says,
  ChargeFrequency: () => 'Usage-Based',
  ChargePeriodStart: ({ day }) => at(day),
  ChargePeriodEnd: ({ day }) => at(addDays(day, 1)),
  ConsumedQuantity: ({ amount }) => amount,
  ConsumedUnit: ({ unit }) => unit,
  ContractedCost: unknown,
  EffectiveCost: unknown,
  HostProviderName: unknown,
  InvoiceIssuerName: unknown,
  ListCost: unknown,
  PricingQuantity: ({ amount }) => amount,
  PricingUnit: ({ unit }) => unit,
  ProviderName: unknown,
  PublisherName: unknown,
  ResourceId: ({ bucketId }) => bucketId,
  ResourceName: ({ bucket }) => bucket,
  ResourceType: ({ bucketId }) => (bucketId === '' ? '' : 'Bucket'),
  ServiceCategory: () => 'Storage',
  ServiceName: () => 'Object Storage',
  ServiceProviderName: unknown,
  ServiceSubcategory: () => 'Object Storage',
  SkuId: ({ sku }) => sku,
  SubAccountId: ({ user }) => user,
  SubAccountName: unknown,
});

const focus = <Row>(toCharges: (row: Row) => readonly Charge[]): ExportFormat<Row> => ({
  ...focusCharge,
  toLines: (row) => toCharges(row).flatMap(focusCharge.toLines),
});

export const storageFormats: Formats<DayUsageRow> = {
  csv: csv({
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
  }),
  jsonl: {
    mediaType: jsonLines,
    toLines: ({ byteSeconds, ...row }) => [
      // `byteSeconds` may be larger than the integers that a `number` holds exactly.
      `${JSON.stringify({
        day: row.day,
        bucket: row.bucket,
        bucketId: row.bucketId,
        owner: row.owner,
        storageClass: row.storageClass,
        objectCountAvg: row.objectCountAvg,
        objectCountMax: row.objectCountMax,
        samples: row.samples,
        computedAt: new Date(row.computedAt).toISOString(),
      }).slice(0, -1)},"byteSeconds":${byteSeconds}}`,
    ],
  },
  focus: focus(({ day, bucket, bucketId, owner, storageClass, byteSeconds }) => [
    {
      payer: owner,
      user: owner,
      day,
      bucketId,
      bucket,
      sku: storageClass,
      says: `Storage, ${storageClass}`,
      amount: byteSeconds,
      unit: 'B-Seconds',
    },
  ]),
};

/** What of the traffic has a price. */
const amounts = [
  { field: 'requestsA', says: 'Requests, class A', unit: 'Requests' },
  { field: 'requestsB', says: 'Requests, class B', unit: 'Requests' },
  { field: 'ingressBytes', says: 'Bytes received', unit: 'B' },
  { field: 'egressBytes', says: 'Bytes sent', unit: 'B' },
] as const;

export const trafficFormats: Formats<Traffic> = {
  csv: csv({
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
  }),
  jsonl: { mediaType: jsonLines, toLines: (row) => [JSON.stringify(row)] },
  focus: focus(({ day, bucket, bucketId, requester, payer, ...row }) =>
    amounts
      .filter(({ field }) => row[field] > 0)
      .map(({ field, says, unit }) => ({
        payer,
        user: requester,
        day,
        bucketId,
        bucket,
        sku: field,
        says,
        amount: row[field],
        unit,
      })),
  ),
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
  if (now >= startOfDay(day) + trafficKeptMs)
    throw fail(
      'NotFound',
      `The traffic of ${day} is no longer kept: its rows are kept for ${trafficKeptMs / dayMs} days.`,
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
