/** Decides which requests are recorded, and which of those are kept and exported. */
import { sharedBudget } from '../base/shared-budget.ts';
import { toHex } from '../base/text/hex.ts';
import { maskParameters } from '../base/text/mask-secrets.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import {
  type Attributes,
  type Cause,
  type SpanDocument,
  type Stage,
  stages,
  type Trace,
  type TraceBeginning,
  type TraceDocument,
  type TraceEnd,
  type TraceFilter,
  type TraceRetention,
  type Tracer,
} from '../ports/trace.ts';
import { failSpan, handOver, takeSpan } from './timed-backends.ts';
import { type Ended, type Listed, matches, RunningTraces, summarize, TraceRing } from './trace-ring.ts';
import { assignPorts, type CallRecorder } from './traced-ports.ts';

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

/**
 * Requests in a second that are sampled because their callers say so: callers could fill the queue of the exporter. One account has 100
 * of them at most.
 */
const forcedMax = 134;
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
  let forced = sharedBudget(forcedMax);
  let forcedSince = 0;

  const mayForce = (account: string): boolean => {
    const now = clock.elapsed();
    if (now - forcedSince >= secondMs) {
      forcedSince = now;
      forced = sharedBudget(forcedMax);
    }
    return forced.take(1, account);
  };

  const onEnd = (trace: RecordedTrace): void => {
    running.remove(trace);
    const retention = ring?.offer(trace);
    const isSent = send !== undefined && trace.isSampled;
    if (retention === undefined && !isSent) return;
    const document = trace.document(retention ?? 'sample');
    if (retention !== undefined) ring?.add(retention, trace, document);
    if (isSent) send(document);
  };

  const maySample = (beginning: TraceBeginning, parent: TraceParent | undefined): boolean =>
    parent?.isSampled ?? (isLinked(beginning) || isChosen(beginning, sample));

  const isSampled = (beginning: TraceBeginning, parent: TraceParent | undefined): boolean =>
    maySample(beginning, parent) && (parent === undefined || mayForce(beginning.account ?? ''));

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
      // Whose the request is, is known later, and so is whether it is sampled.
      if (ring === undefined && !maySample(beginning, trace.parent)) return undefined;
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

// One trace while it is recorded. Every request has one where traces are on, so recording costs a small object for each span and nothing
// else: ids are drawn, and attributes gathered, when something asks for them.

/** Calls of one trace; further ones are counted. */
const callsMax = 96;
const stagesMax = stages.length;
// Copied for each trace: a copy of a packed array is packed, which `new Array` and `map` are not.
const noNames: readonly string[] = Array.from(stages, () => '');
const noTimes: readonly number[] = Array.from(stages, () => 0.5);
/** Characters of one attribute: the longest key of an object. */
const textMax = 1_024;
const linksMax = 32;

interface TraceOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** `host:pid`. */
  readonly process: string;
  /** The first 16 hexadecimal digits of the ids of traces that begin here. */
  readonly traceIdStart: string;
  /** Whether it is sampled: asked once, and only of a trace that is kept or passed on. */
  readonly isSampled: (beginning: TraceBeginning, parent: TraceParent | undefined) => boolean;
  /** Called once, with the trace that has ended. */
  readonly onEnd: (trace: RecordedTrace) => void;
}

/** The span of a backend call. */
class RecordedSpan implements Cause {
  readonly trace: RecordedTrace;
  readonly index: number;
  readonly name: string;
  readonly about: string;
  /** The number of the stage that it began in; -1: the trace itself. */
  readonly stage: number;
  /** The call that began before it. */
  readonly before: RecordedSpan | undefined;
  startedAt: number;
  /** By the monotonic clock; -1 while it runs. */
  endedAt = -1;
  error = '';

  constructor(
    trace: RecordedTrace,
    { name, about, startedAt }: { readonly name: string; readonly about: string; readonly startedAt: number },
  ) {
    const { lastCall } = trace;
    this.trace = trace;
    this.before = lastCall;
    this.index = lastCall === undefined ? stagesMax : lastCall.index + 1;
    this.name = name;
    this.about = about;
    this.stage = trace.stages - 1;
    this.startedAt = startedAt;
  }

  get traceparent(): string {
    return this.trace.traceparentAt(this.index);
  }
}

const cut = (text: string): string => maskParameters(text.slice(0, textMax), '[redacted]');
const round = (ms: number): number => Math.round(ms * 1000) / 1000;

class RecordedTrace implements Trace, CallRecorder, Ended, Listed<RecordedTrace> {
  readonly options: TraceOptions;
  newer: RecordedTrace | undefined = undefined;
  older: RecordedTrace | undefined = undefined;
  isListed = false;
  /** Calls are a list, because an array that grows costs as much as their spans. */
  lastCall: RecordedSpan | undefined = undefined;
  stages = 0;
  readonly #stageNames = noNames.slice();
  /** When each began, by the monotonic clock; it ends when the next begins. Numbers of an array need no object each. */
  readonly #stageTimes = noTimes.slice();
  readonly startedAt: number;
  readonly #beginning: TraceBeginning;
  #parent: TraceParent | undefined | null = null;
  #isSampled: boolean | undefined;
  /** Set when the head of the reply is ready; -1 before. */
  answeredAt = -1;
  endedAt = -1;
  status: number | undefined;
  code: string | undefined;
  #traceId: string | undefined;
  #spanHigh = '';
  #spanLow = 0;
  #leftOut = 0;

  /** @param options one object for all traces */
  constructor(options: TraceOptions, beginning: TraceBeginning) {
    this.options = options;
    this.#beginning = beginning;
    this.startedAt = beginning.startedAt ?? options.clock.elapsed();
    if (beginning.stage !== undefined) this.#enter(beginning.stage, this.startedAt);
  }

  get operation(): string {
    return this.#beginning.subject.operation;
  }

  get account(): string {
    return this.#beginning.account ?? '';
  }

  /** What the request came with; read when something asks for it. */
  get parent(): TraceParent | undefined {
    if (this.#parent === null) this.#parent = parseTraceparent(this.#beginning.parent);
    return this.#parent;
  }

  get isSampled(): boolean {
    this.#isSampled ??= this.options.isSampled(this.#beginning, this.parent);
    return this.#isSampled;
  }

  get durationMs(): number {
    return (this.endedAt < 0 ? this.options.clock.elapsed() : this.endedAt) - this.startedAt;
  }

  get traceId(): string {
    this.#traceId ??= this.parent?.traceId ?? this.#newTraceId();
    return this.#traceId;
  }

  /** Contains the id of its request, which is random, because each metric of a request names its trace. */
  #newTraceId(): string {
    const { kind, subject } = this.#beginning;
    if (kind === 'server') return this.options.traceIdStart + subject.requestId.toLowerCase();
    return toHex(this.options.random.bytes(16));
  }

  get traceparent(): string {
    return this.traceparentAt(-1);
  }

  traceparentAt(index: number): string {
    const { traceId, isSampled } = this;
    return formatTraceparent({ traceId, spanId: this.spanIdAt(index), isSampled });
  }

  /** Drawn once for a trace; its spans count on from there. */
  spanIdAt(index: number): string {
    if (this.#spanHigh === '') {
      const drawn = this.options.random.bytes(8);
      // Not zero, because an id of zeros is invalid.
      drawn[0] = (drawn[0] as number) | 1;
      this.#spanHigh = toHex(drawn.subarray(0, 4));
      this.#spanLow = new DataView(drawn.buffer, drawn.byteOffset).getUint32(4);
    }
    return this.#spanHigh + ((this.#spanLow + index + 1) >>> 0).toString(16).padStart(8, '0');
  }

  stage(name: Stage): void {
    if (this.endedAt < 0) this.#enter(name, this.options.clock.elapsed());
  }

  #enter(name: Stage, now: number): void {
    if (this.stages === stagesMax) return;
    this.#stageNames[this.stages] = name;
    this.#stageTimes[this.stages] = now;
    this.stages += 1;
  }

  /** Undefined beyond the limit, and after the end. */
  #beginAt(name: string, about: string, now: number): RecordedSpan | undefined {
    if (this.endedAt >= 0) return undefined;
    if (this.lastCall !== undefined && this.lastCall.index >= stagesMax + callsMax - 1) {
      this.#leftOut += 1;
      return undefined;
    }
    this.lastCall = new RecordedSpan(this, { name, about, startedAt: now });
    return this.lastCall;
  }

  call<T>(name: string, about: string, run: (span: RecordedSpan | undefined) => Promise<T>): Promise<T> {
    const span = this.#beginAt(name, about, this.options.clock.elapsed());
    const running = run(span);
    return span === undefined ? running : this.#untilSettled(span, running);
  }

  begin(name: string, about: string): RecordedSpan | undefined {
    const span = this.#beginAt(name, about, -1);
    handOver.span = span;
    return span;
  }

  follow<T>(span: RecordedSpan | undefined, running: Promise<T>): Promise<T> {
    if (span === undefined || takeSpan() === undefined) return running;
    // Nothing measures this backend.
    span.startedAt = this.options.clock.elapsed();
    return this.#untilSettled(span, running);
  }

  #untilSettled<T>(span: RecordedSpan, running: Promise<T>): Promise<T> {
    const { clock } = this.options;
    running.then(
      () => {
        span.endedAt = clock.elapsed();
      },
      (cause: unknown) => failSpan(span, clock.elapsed(), cause),
    );
    return running;
  }

  view<C extends object>(ctx: C): C & { readonly trace: Trace } {
    return assignPorts({ ...ctx, trace: this as Trace }, ctx, this);
  }

  #calls(): RecordedSpan[] {
    const calls: RecordedSpan[] = [];
    for (let call = this.lastCall; call !== undefined; call = call.before) calls.push(call);
    return calls.reverse();
  }

  slowestCalls(max: number): readonly string[] {
    const now = this.options.clock.elapsed();
    const tookMs = ({ startedAt, endedAt }: RecordedSpan): number =>
      (endedAt < 0 ? now : endedAt) - startedAt;
    return this.#calls()
      .sort((a, b) => tookMs(b) - tookMs(a))
      .slice(0, max)
      .map((span) => {
        const { name, about, endedAt, error } = span;
        const how = endedAt < 0 ? ' and runs' : error === '' ? '' : ` ${error}`;
        return `${name} ${about} ${round(tookMs(span))} ms${how}`;
      });
  }

  answered({ status, code, at = this.options.clock.elapsed() }: TraceEnd): void {
    this.status = status;
    this.code = code;
    this.answeredAt = at;
    this.#enter('reply', this.answeredAt);
  }

  end(how?: TraceEnd): void {
    if (this.endedAt >= 0) return;
    const now = how?.at ?? this.options.clock.elapsed();
    if (how !== undefined) {
      this.status = how.status;
      this.code = how.code;
      if (how.status !== undefined) this.answeredAt = now;
    }
    this.endedAt = now;
    this.options.onEnd(this);
  }

  document(retention: TraceRetention): TraceDocument {
    const { clock, process } = this.options;
    const { subject, kind, links = [] } = this.#beginning;
    const { parent } = this;
    const { status, code, durationMs, traceId } = this;
    const stage = retention === 'running' ? this.#stageNames[this.stages - 1] : undefined;
    return {
      requestId: subject.requestId,
      traceId,
      kept: retention,
      operation: subject.operation,
      bucket: cut(subject.bucketName ?? ''),
      key: cut(subject.key ?? ''),
      status,
      code,
      startedAt: new Date(clock.now() - (clock.elapsed() - this.startedAt)).toISOString(),
      durationMs: round(durationMs),
      stage,
      process,
      kind,
      ...(this.answeredAt < 0 ? {} : { headMs: round(this.answeredAt - this.startedAt) }),
      attributes: cutAttributes(this.#beginning.describe()),
      spanId: this.spanIdAt(-1),
      parent: parent?.spanId,
      links: links.slice(0, linksMax),
      spans: [...this.#stageDocuments(), ...this.#calls().map((call) => this.#callDocument(call))].sort(
        (a, b) => a.startMs - b.startMs,
      ),
      leftOut: this.#leftOut,
    };
  }

  #stageDocuments(): readonly SpanDocument[] {
    return this.#stageNames.slice(0, this.stages).map((name, index) => {
      const startedAt = this.#stageTimes[index] as number;
      const endedAt = index + 1 < this.stages ? (this.#stageTimes[index + 1] as number) : this.endedAt;
      return {
        name,
        about: '',
        id: this.spanIdAt(index),
        parent: this.spanIdAt(-1),
        startMs: round(startedAt - this.startedAt),
        ...(endedAt < 0 ? {} : { durationMs: round(endedAt - startedAt) }),
      };
    });
  }

  #callDocument({ index, name, about, stage, startedAt, endedAt, error }: RecordedSpan): SpanDocument {
    return {
      name,
      about,
      id: this.spanIdAt(index),
      parent: this.spanIdAt(stage),
      startMs: round(startedAt - this.startedAt),
      ...(endedAt < 0 ? {} : { durationMs: round(endedAt - startedAt) }),
      ...(error === '' ? {} : { error }),
    };
  }
}

const cutAttributes = (attributes: Attributes): Attributes =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, typeof value === 'string' ? cut(value) : value]),
  );

// The header `traceparent`: https://www.w3.org/TR/trace-context/#traceparent-header. `tracestate` and baggage are not passed on.

interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const zeros = /^0+$/;
const lengthMax = 256;

/** Undefined where the text is none: the trace then begins here. */
function parseTraceparent(text: string | undefined): TraceParent | undefined {
  if (text === undefined || text.length > lengthMax) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = pattern.exec(text.trim()) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (zeros.test(traceId) || zeros.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

const formatTraceparent = ({ traceId, spanId, isSampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
