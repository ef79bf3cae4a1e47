/** Query parameters and JSON of the usage feed. */
import { addDays, isDay, toDay } from '../../../domain/buckets/usage/days.ts';
import { fail } from '../../../errors/refusal.ts';
import type { DayUsageRow } from '../../../metadata/records/usage.ts';
import { pageDefault } from '../../../protocol/operations/admin/row.ts';
import type { AdminQuery } from '../../../protocol/operations/admin.ts';
import type { Reply } from '../../../protocol/reply/reply.ts';
import { jsonReply } from '../call.ts';
import { type Entries, visible } from '../request/named-resources.ts';

/** The default window reaches this many days back. */
const windowDays = 30;

type RangeQuery = AdminQuery<'GetBucketUsage'>;

/** @throws InvalidArgument naming the parameter */
export function readRange(query: RangeQuery, now: number): { start: string; before: string; limit: number } {
  const end = readDay(query.end, 'end') ?? toDay(now);
  const start = readDay(query.start, 'start') ?? addDays(end, -windowDays);
  if (start > end)
    throw fail('InvalidArgument', { message: `start (${start}) is after end (${end}).`, field: 'start' });
  return { start, before: addDays(end, 1), limit: query.limit ?? pageDefault };
}

export function readDay<T extends string | undefined>(given: T, name: string): T {
  if (given === undefined) return given;
  // The day after the last one must also have four digits in its year, because days are compared as text.
  if (!isDay(given) || given === '9999-12-31')
    throw fail('InvalidArgument', { message: `${name} must be a UTC day such as 2026-01-31.`, field: name });
  return given;
}

/** The position that `next` of the page before named. */
export function readAfter(given: string | undefined, parts: number): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const read = given.split(':');
  if (read.length !== parts || !isDay(read[0] ?? ''))
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return read;
}

interface Page<Row> {
  /** Leaves out the rows of resources that policies deny; absent where all rows are of one. */
  readonly entries?: Entries;
  readonly toJson: (row: Row) => string;
  readonly toToken: (row: Row) => readonly string[];
  readonly totals?: object;
}

/** @param rows one more than `limit` where more follow */
export async function pageReply<Row extends object>(
  rows: readonly Row[],
  limit: number,
  { entries, toJson, toToken, totals }: Page<Row>,
): Promise<Reply> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const listed = entries === undefined ? shown : await visible(entries, 'rows', shown);
  const more = rows.length > limit && last !== undefined ? { next: toToken(last).join(':') } : {};
  const rest = JSON.stringify({ ...(totals === undefined ? {} : { totals }), ...more });
  const body = `{"rows":[${listed.map(toJson).join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
  return { ...jsonReply(undefined), body };
}

/** `byteSeconds` is written digit by digit: it may be larger than the integers that a `number` holds exactly. */
export function withByteSeconds(named: object, row: DayUsageRow): string {
  const { byteSeconds, objectCountAvg, objectCountMax } = row;
  const counts = `"byteSeconds":${byteSeconds},"objectCountAvg":${objectCountAvg},"objectCountMax":${objectCountMax}`;
  return `${JSON.stringify(named).slice(0, -1)},${counts}}`;
}
