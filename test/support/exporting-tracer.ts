/** Tracers for tests: one for what operators browse, and one that samples every request, for what leaves the process. */
import type { Context } from '../../src/context.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { TraceDocument } from '../../src/ports/trace.ts';
import { createTracer, type TracerOptions } from '../../src/telemetry/tracer.ts';

export function browsingTracer(more: Partial<TracerOptions> = {}) {
  const own = { clock: systemClock, random: systemRandom(), process: 'here:1', sample: 0, browser: true };
  const tracer = createTracer({ ...own, ...more });
  if (tracer === undefined) throw new Error('no tracer');
  return tracer;
}

export function exportingTracer() {
  const exported: TraceDocument[] = [];
  const tracer = browsingTracer({ sample: 1, export: (document) => exported.push(document) });
  return {
    exported,
    tracer,
    /** The option `wrap` of a gateway. */
    wrap: (context: Context): Context => ({ ...context, tracer }),
    /** The `traceparent` of each span with this name. */
    causes: (name: string): readonly string[] =>
      exported.flatMap(({ traceId, spans }) =>
        spans.filter((span) => span.name === name).map(({ id }) => `00-${traceId}-${id}-01`),
      ),
  };
}
