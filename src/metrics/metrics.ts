/**
 * The table of metrics: what is measured, and what an operator does about it. The calls of `ports/telemetry.ts` take
 * their names and labels from it, and the exposition, the reference page and the dashboards derive from it.
 */
import { deliveries } from './delivery-metrics.ts';
import type { MetricRow } from './metric-row.ts';
import { processes } from './process-metrics.ts';
import { requests } from './request-metrics.ts';
import { engines, storage } from './storage-metrics.ts';
import { workers } from './worker-metrics.ts';

/** Each group is a dashboard in `deploy/observability`. */
export const metricGroups = { requests, storage, workers, deliveries, engines, processes } as const;

export const metricTable = {
  ...requests,
  ...storage,
  ...workers,
  ...deliveries,
  ...engines,
  ...processes,
};

type Table = typeof metricTable;

export type MetricName<K extends MetricRow['kind'] = MetricRow['kind']> = {
  [N in keyof Table]: Table[N]['kind'] extends K ? N : never;
}[keyof Table];

/** A value for each label of the row. */
export type MetricLabels<N extends MetricName> = [Table[N]['labels'][number]] extends [never]
  ? NoLabels
  : Readonly<Record<Table[N]['labels'][number], string>>;

export type NoLabels = Readonly<Record<string, never>>;

/** Labels whose values are names that settings, operators or other tables choose. */
export type KnownLabel = {
  [N in keyof Table]: Table[N] extends { readonly from0: infer F }
    ? { [L in keyof F]: F[L] extends 'known' ? L : never }[keyof F]
    : never;
}[keyof Table];
