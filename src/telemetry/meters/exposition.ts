/**
 * The text of `/metrics`: in Prometheus' own format, or in OpenMetrics, which alone has exemplars. prom-client's writer for OpenMetrics
 * renames the metrics that it writes and loses the exemplars of several processes.
 */
import type { MetricObjectWithValues, MetricValueWithName } from 'prom-client';
import type { ExpositionFormat } from '../metrics.ts';
import type { Exemplar } from './tally.ts';

type Value = MetricValueWithName<string> & { readonly exemplar?: Exemplar };
export type ExposedMetric = MetricObjectWithValues<Value>;

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

const labelsText = (labels: Partial<Record<string, string | number>> = {}): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(String(value))}"`)
    .join(',');

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}

/** Identifies a value among those of all processes. */
export const seriesOf = (name: string, { metricName = name, labels }: Value): string =>
  `${metricName}{${labelsText(labels)}}`;

/** @param exemplars by series; for OpenMetrics only */
export function expose(
  metrics: readonly ExposedMetric[],
  format: ExpositionFormat,
  exemplars: ReadonlyMap<string, Exemplar> = new Map(),
): string {
  const isOpen = format === 'openmetrics';
  const lines: string[] = [];
  for (const { name, help, type, values = [] } of metrics) {
    // In OpenMetrics the family of a counter has no suffix, and each of its values has.
    const family = isOpen && String(type) === 'counter' ? name.replace(/_total$/, '') : name;
    lines.push(`# HELP ${family} ${escapeHelp(help)}`, `# TYPE ${family} ${type}`);
    for (const value of values) {
      const { metricName = name, labels } = value;
      const suffixed = isOpen && String(type) === 'counter' ? `${family}_total` : metricName;
      const inner = labelsText(labels);
      const exemplar = isOpen ? exemplars.get(seriesOf(name, value)) : undefined;
      lines.push(
        `${suffixed}${inner === '' ? '' : `{${inner}}`} ${numberText(value.value)}${exemplarText(exemplar)}`,
      );
    }
    if (!isOpen) lines.push('');
  }
  return isOpen ? `${lines.join('\n')}\n# EOF\n` : `${lines.join('\n')}\n`;
}

const exemplarText = (exemplar: Exemplar | undefined): string =>
  exemplar === undefined ? '' : ` # {${labelsText(exemplar.labelSet)}} ${numberText(exemplar.value)}`;

/** The first exemplar of each series in any process. */
export function gatherExemplars(parts: readonly (readonly ExposedMetric[])[]): ReadonlyMap<string, Exemplar> {
  const found = new Map<string, Exemplar>();
  for (const { name, values = [] } of parts.flat())
    for (const value of values) if (value.exemplar) found.set(seriesOf(name, value), value.exemplar);
  return found;
}
