/** The process and the engines behind it, in metrics. */
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Metrics, TallyMeter } from '../metrics.ts';

type Told = 'backend' | 'backendFailed' | 'onRead' | 'bodyMemory' | 'metrics';

export function engineTelemetry(metrics: Metrics): Pick<Telemetry, Told> {
  /** Found once for each call: there are some of them in every request. */
  const tallies = new Map<string, TallyMeter>();
  const tallyOf = (call: string): TallyMeter => {
    const found = tallies.get(call);
    if (found !== undefined) return found;
    const made = metrics.tally('svc_backend_duration_seconds', [call]);
    tallies.set(call, made);
    return made;
  };
  return {
    backend: (call, durationMs) => tallyOf(call).observe(durationMs / 1000),
    backendFailed: (call, why) => metrics.add('svc_backend_errors_total', [call, why]),
    onRead: (sample) => metrics.onRead(sample),
    bodyMemory: ({ usedBytes, limitBytes }) => {
      metrics.set('svc_body_memory_bytes', ['used'], usedBytes);
      metrics.set('svc_body_memory_bytes', ['limit'], limitBytes);
    },
    metrics: (format) => metrics.text(format),
  };
}
