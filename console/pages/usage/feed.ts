/** The usage feed of a bucket: what it stored by closed day and class, and its requests by day and requester. */
import { useQuery } from '@tanstack/react-query';
import { type Answer, request } from '../../app/client.ts';

const pageRows = 1_000;
/** 400 days of 25 classes. */
const pagesMax = 10;

export interface Span {
  /** UTC days, both included. */
  readonly start: string;
  readonly end: string;
}

const dayMs = 86_400_000;
export const daySeconds = dayMs / 1_000;
const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** The last `days` days until today. */
export const spanOf = (days: number, now = Date.now()): Span => ({
  start: toDay(now - days * dayMs),
  end: toDay(now),
});

export interface Feed<Row> {
  readonly rows: readonly Row[];
  /** There are more rows than a page of the console reads. */
  readonly isCut: boolean;
}

/** A number is not exact from 2^53 on. */
export type Exact<Row> = Omit<Row, 'byteSeconds'> & { readonly byteSeconds: bigint };
export type UsageRow = Exact<Answer<'GetBucketUsage'>['rows'][number]>;
export type TrafficRow = Answer<'GetBucketTraffic'>['rows'][number];

interface FeedPage<Row> {
  readonly rows: readonly Row[];
  readonly next: string | undefined;
}

interface FeedQuery extends Span {
  readonly limit: number;
  readonly after?: string;
}

/** Reads the rows of a span, page by page. */
export async function readAll<Row>(
  span: Span,
  read: (query: FeedQuery) => Promise<FeedPage<Row>>,
): Promise<Feed<Row>> {
  const rows: Row[] = [];
  let after: string | undefined;
  for (let page = 0; page < pagesMax; page += 1) {
    const found = await read({ ...span, limit: pageRows, ...(after === undefined ? {} : { after }) });
    rows.push(...found.rows);
    after = found.next;
    if (after === undefined) return { rows, isCut: false };
  }
  return { rows, isCut: true };
}

/** The rows of a reply, with the byte-seconds that the gateway wrote. @param text the reply */
export function exactRows<Row extends object>(rows: readonly Row[], text: string): Exact<Row>[] {
  const digits = [...text.matchAll(/"byteSeconds":(\d+)/g)].map(([, each = '0']) => each);
  return rows.map((row, index) => ({ ...row, byteSeconds: BigInt(digits[index] ?? 0) }));
}

interface FeedAsk {
  readonly bucket: string;
  readonly span: Span;
  readonly enabled: boolean;
}

export const useUsage = ({ bucket, span, enabled }: FeedAsk) =>
  useQuery({
    queryKey: ['GetBucketUsage', bucket, span],
    enabled,
    queryFn: ({ signal }) =>
      readAll<UsageRow>(span, async (query) => {
        const { json, text } = await request('GetBucketUsage', { path: { name: bucket }, query, signal });
        return { rows: exactRows(json.rows, text), next: json.next };
      }),
  });

export const useTraffic = ({ bucket, span, enabled }: FeedAsk) =>
  useQuery({
    queryKey: ['GetBucketTraffic', bucket, span],
    enabled,
    queryFn: ({ signal }) =>
      readAll<TrafficRow>(span, async (query) => {
        const { json } = await request('GetBucketTraffic', { path: { name: bucket }, query, signal });
        return { rows: json.rows, next: json.next };
      }),
  });

export interface DaySeries {
  /** Unix seconds of the beginnings of the days. */
  readonly times: readonly number[];
  readonly classes: readonly {
    readonly name: string;
    readonly bytes: readonly (number | null)[];
    readonly objects: readonly (number | null)[];
  }[];
}

/** Every day from the first row to the last. A day without any row is unknown; one with rows of other classes had none of a class. */
export function seriesOf(rows: readonly UsageRow[]): DaySeries {
  const [first] = rows;
  const last = rows.at(-1);
  if (first === undefined || last === undefined) return { times: [], classes: [] };
  const byDay = Map.groupBy(rows, ({ day }) => day);
  const days: string[] = [];
  for (let at = Date.parse(first.day); at <= Date.parse(last.day); at += dayMs) days.push(toDay(at));
  const names = [...new Set(rows.map(({ storageClass }) => storageClass))].sort();
  const valuesOf = (name: string, read: (row: UsageRow) => number) =>
    days.map((day) => {
      const found = byDay.get(day);
      const row = found?.find(({ storageClass }) => storageClass === name);
      return found === undefined ? null : row === undefined ? 0 : read(row);
    });
  return {
    times: days.map((day) => Date.parse(day) / 1_000),
    classes: names.map((name) => ({
      name,
      bytes: valuesOf(name, bytesOf),
      objects: valuesOf(name, ({ objectCountAvg }) => objectCountAvg),
    })),
  };
}

/** What a row stored on average over its day. */
export const bytesOf = ({ byteSeconds }: UsageRow): number => Math.round(Number(byteSeconds) / daySeconds);

const counters = ['requestsA', 'requestsB', 'requestsFree', 'ingressBytes', 'egressBytes'] as const;
/** Requests by price class, and the bytes of their bodies. */
export type Counters = Readonly<Record<(typeof counters)[number], number>>;

export const addUp = (rows: readonly Counters[]): Counters => {
  const sums = { requestsA: 0, requestsB: 0, requestsFree: 0, ingressBytes: 0, egressBytes: 0 };
  for (const row of rows) for (const name of counters) sums[name] += row[name];
  return sums;
};

export const requestsOf = ({ requestsA, requestsB, requestsFree }: Counters): number =>
  requestsA + requestsB + requestsFree;

export const byRequests = (one: Counters, other: Counters): number => requestsOf(other) - requestsOf(one);

export interface Requester extends Counters {
  readonly requester: string;
  readonly payer: string;
}

/** The sums of the span by requester and payer, the busiest first. */
export function sumByRequester(rows: readonly TrafficRow[]): readonly Requester[] {
  const groups = Map.groupBy(rows, ({ requester, payer }) => JSON.stringify([requester, payer]));
  return [...groups.values()]
    .flatMap((group) => {
      const [row] = group;
      return row === undefined ? [] : { requester: row.requester, payer: row.payer, ...addUp(group) };
    })
    .sort(byRequests);
}
