/**
 * The bytes of each bucket over the last 30 closed days, as a line: read once for each page of the list, because closed
 * days do not change.
 */
import { useQueries } from '@tanstack/react-query';
import type { Answer } from '../../app/client.ts';
import { read } from '../../app/reads.ts';
import { Sparkline } from '../../ui/chart.tsx';
import { formatBytes } from '../../ui/values.tsx';
import { w } from './words.ts';

/** Pages of the list whose buckets have lines; buckets of later pages have none. */
const pagesMax = 5;
const staleMs = 10 * 60_000;

interface TrendsAsk {
  readonly prefix: string;
  readonly owner: string | undefined;
  /** The names after which the pages of the list begin: '' for the first. */
  readonly after: readonly string[];
  readonly enabled: boolean;
}

export type Trend = readonly (number | null)[];

/** By the name of the bucket. */
export function useTrends({ prefix, owner, after, enabled }: TrendsAsk): ReadonlyMap<string, Trend> {
  const pages = useQueries({
    queries: after.slice(0, pagesMax).map((each) => {
      const query = {
        prefix,
        ...(owner === undefined ? {} : { owner }),
        ...(each === '' ? {} : { after: each }),
      };
      return {
        queryKey: ['ListBucketUsage', query],
        queryFn: ({ signal }: { readonly signal: AbortSignal }): Promise<Answer<'ListBucketUsage'>> =>
          read('ListBucketUsage', { query, signal }),
        enabled,
        staleTime: staleMs,
      };
    }),
  });
  return new Map(pages.flatMap(({ data }) => (data?.rows ?? []).map(({ name, bytes }) => [name, bytes])));
}

export function TrendLine({ trend }: { readonly trend: Trend | undefined }) {
  const first = trend?.findIndex((each) => each !== null) ?? -1;
  // Before its first day the bucket did not exist; a later day without a row had nothing in it.
  const values = first < 0 ? [] : (trend ?? []).slice(first).map((each) => each ?? 0);
  const label =
    values.length < 2
      ? w.noTrend
      : w.trendFromTo(formatBytes(values[0] ?? 0), formatBytes(values.at(-1) ?? 0), values.length);
  return (
    <span title={label}>
      <Sparkline values={values} label={label} />
    </span>
  );
}
