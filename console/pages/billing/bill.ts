/** The bill of an account for a month: its usage and traffic feeds, and their sums by bucket, by class and by day. */
import { useQuery } from '@tanstack/react-query';
import { type Answer, request } from '../../app/client.ts';
import {
  addUp,
  byRequests,
  type Counters,
  daySeconds,
  type Exact,
  exactRows,
  readAll,
  type Span,
} from '../usage/feed.ts';

export type UsageRow = Exact<Answer<'GetUserUsage'>['rows'][number]>;
export type TrafficRow = Answer<'GetUserTraffic'>['rows'][number];

const monthsMax = 13;

/** The present month and those before it, `2026-01`; rows are stored for 400 days. */
export function listMonths(now = Date.now()): readonly string[] {
  const date = new Date(now);
  return Array.from({ length: monthsMax }, (_, ago) =>
    new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - ago, 1)).toISOString().slice(0, 7),
  );
}

/** The first and last UTC day of a month. */
export function spanOfMonth(month: string): Span {
  const [year = 0, at = 1] = month.split('-').map(Number);
  return { start: `${month}-01`, end: new Date(Date.UTC(year, at, 0)).toISOString().slice(0, 10) };
}

interface FeedAsk {
  readonly account: string;
  readonly span: Span;
  readonly enabled: boolean;
}

export const useBilledStorage = ({ account, span, enabled }: FeedAsk) =>
  useQuery({
    queryKey: ['GetUserUsage', account, span],
    enabled,
    queryFn: async ({ signal }) => {
      let totals: Answer<'GetUserUsage'>['totals'] = { bytes: 0, objects: 0 };
      const feed = await readAll<UsageRow>(span, async (query) => {
        const { json, text } = await request('GetUserUsage', { path: { user: account }, query, signal });
        totals = json.totals;
        return { rows: exactRows(json.rows, text), next: json.next };
      });
      return { ...feed, totals };
    },
  });

export const useBilledTraffic = ({ account, span, enabled }: FeedAsk) =>
  useQuery({
    queryKey: ['GetUserTraffic', account, span],
    enabled,
    queryFn: ({ signal }) =>
      readAll<TrafficRow>(span, async (query) => {
        const { json } = await request('GetUserTraffic', { path: { user: account }, query, signal });
        return { rows: json.rows, next: json.next };
      }),
  });

const daysOf = (rows: readonly UsageRow[]): readonly string[] =>
  [...new Set(rows.map(({ day }) => day))].sort();

/** What byte-seconds are on average over closed days. */
const toBytes = (byteSeconds: bigint, days: number): number =>
  days === 0 ? 0 : Math.round(Number(byteSeconds) / (days * daySeconds));

const sumOf = (rows: readonly UsageRow[]): bigint => rows.reduce((sum, row) => sum + row.byteSeconds, 0n);

export const averageOf = (rows: readonly UsageRow[]): number => toBytes(sumOf(rows), daysOf(rows).length);

export interface BilledStorage {
  readonly bucket: string;
  readonly storageClass: string;
  readonly byteSeconds: bigint;
  readonly gbHours: number;
  readonly bytes: number;
  readonly objects: number;
}

/** By bucket and class, the largest first; averages are over the closed days of the account, not of the bucket. */
export function sumStorage(rows: readonly UsageRow[]): readonly BilledStorage[] {
  const days = daysOf(rows).length;
  const groups = Map.groupBy(rows, ({ bucket, storageClass }) => JSON.stringify([bucket, storageClass]));
  return [...groups.values()]
    .flatMap((group) => {
      const [row] = group;
      if (row === undefined) return [];
      const byteSeconds = sumOf(group);
      return {
        bucket: row.bucket,
        storageClass: row.storageClass,
        byteSeconds,
        gbHours: Number(byteSeconds) / 3_600e9,
        bytes: toBytes(byteSeconds, days),
        objects: group.reduce((sum, { objectCountAvg }) => sum + objectCountAvg, 0) / days,
      };
    })
    .sort((one, other) => other.bytes - one.bytes);
}

/** Stored bytes of each closed day by class. */
export function seriesOf(rows: readonly UsageRow[]) {
  const days = daysOf(rows);
  const names = [...new Set(rows.map(({ storageClass }) => storageClass))].sort();
  const byDay = Map.groupBy(rows, ({ day }) => day);
  return {
    times: days.map((day) => Date.parse(day) / 1_000),
    series: names.map((name) => ({
      name,
      values: days.map((day) =>
        toBytes(sumOf((byDay.get(day) ?? []).filter(({ storageClass }) => storageClass === name)), 1),
      ),
    })),
  };
}

export interface BilledTraffic extends Counters {
  readonly bucket: string;
}

/** By bucket, the busiest first. */
export const sumTraffic = (rows: readonly TrafficRow[]): readonly BilledTraffic[] =>
  [...Map.groupBy(rows, ({ bucket }) => bucket)]
    .map(([bucket, group]) => ({ bucket, ...addUp(group) }))
    .sort(byRequests);
