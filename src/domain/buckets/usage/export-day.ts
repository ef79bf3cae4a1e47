/** A closed day for export: whether it is known, and its rows as lines of a format. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { everyUsageOf } from '../../../metadata/buckets/day-usage.ts';
import type { DayUsageRow } from '../../../metadata/records/usage.ts';
import { addDays } from './days.ts';
import { findProgress } from './progress.ts';

type Ctx = Pick<Context, 'metadata'>;

/** @throws NotFound for a day that is not closed yet, or of which nothing is known */
export async function assertClosed({ metadata }: Ctx, day: string): Promise<void> {
  const progress = await findProgress(metadata);
  if (progress === undefined || day > progress.closedThrough)
    throw fail(
      'NotFound',
      `The usage of ${day} is not written yet: the usage-rollup worker closes a day after its end.`,
    );
  if (progress.missed.includes(day))
    throw fail('NotFound', `No usage of ${day} is known, because no usage-rollup worker ran.`);
}

export interface ExportFormat {
  readonly mediaType: string;
  /** The first line; absent where the format has none. */
  readonly header?: string;
  readonly toLine: (row: DayUsageRow) => string;
}

/** RFC 4180: quoted where needed. */
const toField = (value: string | number): string => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const csv = (columns: Readonly<Record<string, (row: DayUsageRow) => string | number>>): ExportFormat => ({
  mediaType: 'text/csv; charset=utf-8; header=present',
  header: Object.keys(columns).join(','),
  toLine: (row) =>
    Object.values(columns)
      .map((read) => toField(read(row)))
      .join(','),
});

/** A time of FOCUS: the first moment of a day. */
const at = (day: string): string => `${day}T00:00:00Z`;
const startOfMonth = (day: string): string => `${day.slice(0, 7)}-01`;
const nextMonth = (day: string): string => startOfMonth(addDays(startOfMonth(day), 31));

/** The gateway knows amounts and no prices: the columns of costs are empty, for the invoice generator to fill. */
const noPrice = () => '';

export const exportFormats: Readonly<Record<string, ExportFormat>> = {
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
    mediaType: 'application/x-ndjson',
    toLine: ({ byteSeconds, ...row }) =>
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
  },
  // Columns of the FinOps Open Cost and Usage Specification, https://focus.finops.org/focus-columns/
  focus: csv({
    BilledCost: noPrice,
    BillingAccountId: ({ owner }) => owner,
    BillingCurrency: noPrice,
    BillingPeriodStart: ({ day }) => at(startOfMonth(day)),
    BillingPeriodEnd: ({ day }) => at(nextMonth(day)),
    ChargeCategory: () => 'Usage',
    ChargeDescription: ({ storageClass }) => `Storage, ${storageClass}`,
    ChargeFrequency: () => 'Usage-Based',
    ChargePeriodStart: ({ day }) => at(day),
    ChargePeriodEnd: ({ day }) => at(addDays(day, 1)),
    ConsumedQuantity: ({ byteSeconds }) => byteSeconds,
    ConsumedUnit: () => 'B-Seconds',
    ContractedCost: noPrice,
    EffectiveCost: noPrice,
    ListCost: noPrice,
    ResourceId: ({ bucketId }) => bucketId,
    ResourceName: ({ bucket }) => bucket,
    ResourceType: () => 'Bucket',
    ServiceCategory: () => 'Storage',
    ServiceName: () => 'Object Storage',
    SkuId: ({ storageClass }) => storageClass,
    SubAccountId: ({ owner }) => owner,
  }),
};

/** The lines of a day, a page at a time, always in the same order. */
export async function* exportDay(
  { metadata }: Ctx,
  day: string,
  { header, toLine }: ExportFormat,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  if (header !== undefined) yield encoder.encode(`${header}\n`);
  for await (const page of everyUsageOf(metadata, day))
    yield encoder.encode(page.map((row) => `${toLine(row)}\n`).join(''));
}
