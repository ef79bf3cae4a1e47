/** Telemetry of a test that watches the calls of some metrics: `{ ...silentTelemetry, ...onCount({ svc_x_total: ({ why }) => … }) }`. */
import type { MetricLabels, MetricName, Metrics } from '../../src/ports/telemetry.ts';

type Counted = { readonly [N in MetricName<'counter'>]?: (labels: MetricLabels<N>, by: number) => void };
type WasSet = {
  readonly [N in MetricName<'gauge'>]?: (labels: MetricLabels<N>, value: number | undefined) => void;
};
type Series<N extends MetricName> = readonly (readonly [labels: MetricLabels<N>, value: number])[];
type Replaced = { readonly [N in MetricName<'gauge'>]?: (series: Series<N>) => void };

/** Finds the function of a name; the compiler cannot see that both have the same labels. */
const find = <F extends object>(functions: F, name: string): ((...values: unknown[]) => void) | undefined =>
  functions[name as keyof F] as never;

export const onCount = (counted: Counted): Pick<Metrics, 'count'> => ({
  count: (name, labels, by = 1) => find(counted, name)?.(labels, by),
});

export const onSet = (wasSet: WasSet): Pick<Metrics, 'set'> => ({
  set: (name, labels, value) => find(wasSet, name)?.(labels, value),
});

export const onReplace = (replaced: Replaced): Pick<Metrics, 'replace'> => ({
  replace: (name, series) => find(replaced, name)?.([...series]),
});
