/** What a chart shows, and how its values are written. */
import { formatNumber } from '../text/text.ts';
import { formatBytes, formatCount, formatDuration } from './values.tsx';

export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

export type ChartUnit = 'bytes' | 'count' | 'perSecond' | 'ms';

export interface ChartProps {
  readonly label: string;
  readonly unit: ChartUnit;
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  /** Areas upon each other: the parts of a whole. */
  readonly stacked?: boolean;
}

export const formatUnit: Readonly<Record<ChartUnit, (value: number) => string>> = {
  bytes: formatBytes,
  count: formatCount,
  // The marks of an axis differ, also where a request comes every few minutes.
  perSecond: (value) =>
    `${formatNumber(value, value < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 })}/s`,
  ms: formatDuration,
};
