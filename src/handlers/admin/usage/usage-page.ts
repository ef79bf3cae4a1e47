/** Query parameters and JSON of the usage feed. */
import { addDays, isDay, toDay } from '../../../domain/buckets/usage/days.ts';
import { fail } from '../../../errors/refusal.ts';
import type { DayUsageRow } from '../../../metadata/records/usage.ts';
import type { Reply } from '../../../protocol/reply/reply.ts';
import type { Query } from '../../../protocol/request/wire.ts';
import { jsonReply } from '../call.ts';

/** The default window reaches this many days back. */
const windowDays = 30;
const pageMax = 1_000;

/** @throws InvalidArgument naming the parameter */
export function readRange(query: Query, now: number): { start: string; before: string; limit: number } {
  const end = readDay(query, 'end') ?? toDay(now);
  const start = readDay(query, 'start') ?? addDays(end, -windowDays);
  if (start > end) throw fail('InvalidArgument', `start (${start}) is after end (${end}).`);
  const limit = query.get('limit') ?? String(pageMax);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > pageMax)
    throw fail('InvalidArgument', `limit must be a whole number from 1 to ${pageMax}.`);
  return { start, before: addDays(end, 1), limit: Number(limit) };
}

export function readDay(query: Query, name: string): string | undefined {
  const given = query.get(name);
  if (given === undefined) return undefined;
  // The day after the last one must also have four digits in its year, because days are compared as text.
  if (!isDay(given) || given === '9999-12-31')
    throw fail('InvalidArgument', `${name} must be a UTC day such as 2026-01-31.`);
  return given;
}

/** The position that `nextToken` of the page before named. */
export function readToken(query: Query, parts: number): readonly string[] | undefined {
  const given = query.get('token');
  if (given === undefined) return undefined;
  const read = given.split(':');
  if (read.length !== parts || !isDay(read[0] ?? ''))
    throw fail('InvalidArgument', 'token is not the nextToken of a page.');
  return read;
}

interface Page<Row> {
  readonly toJson: (row: Row) => string;
  readonly toToken: (row: Row) => readonly string[];
  readonly totals?: object;
}

/** @param rows one more than `limit` where more follow */
export function pageReply<Row>(
  rows: readonly Row[],
  limit: number,
  { toJson, toToken, totals }: Page<Row>,
): Reply {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = rows.length > limit && last !== undefined ? { nextToken: toToken(last).join(':') } : {};
  const rest = JSON.stringify({ ...(totals === undefined ? {} : { totals }), ...more });
  const body = `{"rows":[${shown.map(toJson).join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
  return { ...jsonReply(undefined), body };
}

/** `byteSeconds` is written digit by digit: it may be larger than the integers that a `number` holds exactly. */
export function withByteSeconds(named: object, row: DayUsageRow): string {
  const { byteSeconds, objectCountAvg, objectCountMax } = row;
  const counts = `"byteSeconds":${byteSeconds},"objectCountAvg":${objectCountAvg},"objectCountMax":${objectCountMax}`;
  return `${JSON.stringify(named).slice(0, -1)},${counts}}`;
}
