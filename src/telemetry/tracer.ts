/** Decides which requests are recorded, and which of those are kept and exported. */
import { toHex } from '../base/text/hex.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { TraceBeginning, TraceDocument, TraceFilter, Tracer } from '../ports/trace.ts';
import { RecordedTrace } from './recorded-trace.ts';
import { matches, RunningTraces, summarize, TraceRing } from './trace-ring.ts';
import type { TraceParent } from './traceparent.ts';

export interface TracerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** `host:pid`. */
  readonly process: string;
  /** The share of requests that are sampled, from 0 to 1; a caller's `traceparent` decides in its place. */
  readonly sample: number;
  /** Keeps traces in memory for operators. */
  readonly browser: boolean;
  /** Takes the sampled traces; absent where none are exported. */
  readonly export?: (document: TraceDocument) => void;
}

/** Requests in a second that are sampled because their callers say so: callers could fill the queue of the exporter. */
const forcedMax = 100;
const secondMs = 1_000;

/** Undefined where nothing is to be recorded. */
export function createTracer({
  sample,
  browser,
  export: send,
  ...options
}: TracerOptions): Tracer | undefined {
  if (!browser && send === undefined) return undefined;
  const { clock } = options;
  const ring = browser ? new TraceRing() : undefined;
  const running = new RunningTraces<RecordedTrace>();
  const forced = { since: 0, count: 0 };

  const mayForce = (): boolean => {
    const now = clock.elapsed();
    if (now - forced.since >= secondMs) {
      forced.since = now;
      forced.count = 0;
    }
    forced.count += 1;
    return forced.count <= forcedMax;
  };

  const onEnd = (trace: RecordedTrace): void => {
    running.remove(trace);
    const kept = ring?.offer(trace);
    const isSent = send !== undefined && trace.isSampled;
    if (kept === undefined && !isSent) return;
    const document = trace.document(kept ?? 'sample');
    if (kept !== undefined) ring?.add(kept, trace, document);
    if (isSent) send(document);
  };

  const isSampled = (beginning: TraceBeginning, parent: TraceParent | undefined): boolean =>
    parent?.isSampled === true
      ? mayForce()
      : parent === undefined && (isLinked(beginning) || isChosen(beginning, sample));

  const traceIdStart = toHex(options.random.bytes(8));
  const shared = { ...options, traceIdStart, isSampled, onEnd };

  const found = (filter: TraceFilter): readonly TraceDocument[] => {
    const now = [...running]
      .map((trace) => trace.document('running'))
      .filter((document) => matches(document, filter));
    return [...now, ...(ring?.documents(filter) ?? [])].slice(0, filter.max);
  };

  return {
    begin(beginning: TraceBeginning) {
      const trace = new RecordedTrace(shared, beginning);
      if (ring === undefined && !trace.isSampled) return undefined;
      running.add(trace);
      return trace;
    },
    list(filter) {
      const now = [...running]
        .map((trace) => summarize(trace.document('running')))
        .filter((summary) => matches(summary, filter));
      return [...now, ...(ring?.entries(filter) ?? [])].slice(0, filter.max);
    },
    find: (id, max) => found({ id, max }),
  };
}

/** Background work follows the request that it is linked to. */
const isLinked = ({ links = [] }: TraceBeginning): boolean => links.some((link) => link.endsWith('-01'));

/** By the last 32 bits of the request id, which are random. */
const isChosen = ({ subject, kind }: TraceBeginning, sample: number): boolean =>
  kind === 'server' && sample > 0 && Number.parseInt(subject.requestId.slice(-8), 16) < sample * 2 ** 32;
