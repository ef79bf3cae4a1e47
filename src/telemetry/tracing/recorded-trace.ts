/**
 * One trace while it is recorded. Every request has one where traces are on, so recording costs a small object for each span and nothing
 * else: ids are drawn, and attributes gathered, when something asks for them.
 */

import { toHex } from '../../base/text/hex.ts';
import { maskParameters } from '../../base/text/mask-secrets.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Random } from '../../ports/random.ts';
import type {
  Attributes,
  Cause,
  Kept,
  SpanDocument,
  Trace,
  TraceBeginning,
  TraceDocument,
  TraceEnd,
} from '../../ports/trace.ts';
import { failSpan, handOver, takeSpan } from './hand-over.ts';
import { formatTraceparent, type TraceParent } from './traceparent.ts';
import type { CallRecorder } from './views/call-recorder.ts';
import { assignPorts } from './views/traced-ports.ts';

/** Spans of one trace; further ones are counted. */
const spansMax = 96;
/** Characters of one attribute: the longest key of an object. */
const textMax = 1_024;
const linksMax = 32;

export interface TraceOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** `host:pid`. */
  readonly process: string;
  /** Called once, with the trace that has ended. */
  readonly onEnd: (trace: RecordedTrace) => void;
}

/** The span of a stage or of a backend call. */
export class RecordedSpan implements Cause {
  readonly trace: RecordedTrace;
  readonly index: number;
  readonly name: string;
  readonly about: string;
  /** The index of the stage that it began in; -1: the trace itself. */
  readonly stage: number;
  readonly startedAt: number;
  /** By the monotonic clock; -1 while it runs. */
  endedAt = -1;
  error = '';

  constructor(trace: RecordedTrace, name: string, about: string, startedAt: number) {
    this.trace = trace;
    this.index = trace.spans.length;
    this.name = name;
    this.about = about;
    this.stage = about === '' ? -1 : trace.stageIndex;
    this.startedAt = startedAt;
  }

  get traceparent(): string {
    return this.trace.traceparentAt(this.index);
  }
}

const cut = (text: string): string => maskParameters(text.slice(0, textMax), '[redacted]');
const round = (ms: number): number => Math.round(ms * 1000) / 1000;

export class RecordedTrace implements Trace, CallRecorder {
  readonly options: TraceOptions;
  readonly spans: RecordedSpan[] = [];
  readonly startedAt: number;
  readonly isSampled: boolean;
  readonly #beginning: TraceBeginning;
  readonly #parent: TraceParent | undefined;
  stageIndex = -1;
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
  constructor(
    options: TraceOptions,
    beginning: TraceBeginning,
    { parent, isSampled }: { readonly parent: TraceParent | undefined; readonly isSampled: boolean },
  ) {
    this.options = options;
    this.isSampled = isSampled;
    this.#beginning = beginning;
    this.#parent = parent;
    this.startedAt = options.clock.elapsed();
  }

  get subject(): TraceBeginning['subject'] {
    return this.#beginning.subject;
  }

  get durationMs(): number {
    return (this.endedAt < 0 ? this.options.clock.elapsed() : this.endedAt) - this.startedAt;
  }

  get traceId(): string {
    this.#traceId ??= this.#parent?.traceId ?? toHex(this.options.random.bytes(16));
    return this.#traceId;
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

  stage(name: string): void {
    if (this.endedAt < 0) this.#enter(name, this.options.clock.elapsed());
  }

  #enter(name: string, now: number): void {
    this.#endStage(now);
    const span = this.begin(name, '', now);
    this.stageIndex = span?.index ?? -1;
  }

  #endStage(now: number): void {
    const { stageIndex } = this;
    if (stageIndex >= 0) (this.spans[stageIndex] as RecordedSpan).endedAt = now;
  }

  /** Undefined beyond the limit, and after the end. */
  begin(name: string, about: string, now: number): RecordedSpan | undefined {
    if (this.endedAt >= 0) return undefined;
    if (this.spans.length >= spansMax) {
      this.#leftOut += 1;
      return undefined;
    }
    const span = new RecordedSpan(this, name, about, now);
    this.spans.push(span);
    return span;
  }

  /** Records a call until its promise settles, whichever way. */
  call<T>(name: string, about: string, run: (span: RecordedSpan | undefined) => Promise<T>): Promise<T> {
    const { clock } = this.options;
    const span = this.begin(name, about, clock.elapsed());
    handOver.span = span;
    const running = run(span);
    // Taken by the backend that measures its calls.
    if (span === undefined || takeSpan() === undefined) return running;
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

  slowestCalls(max: number): readonly string[] {
    const now = this.options.clock.elapsed();
    const tookMs = ({ startedAt, endedAt }: RecordedSpan): number =>
      (endedAt < 0 ? now : endedAt) - startedAt;
    return this.spans
      .filter(({ about }) => about !== '')
      .sort((a, b) => tookMs(b) - tookMs(a))
      .slice(0, max)
      .map((span) => {
        const { name, about, endedAt, error } = span;
        const how = endedAt < 0 ? ' and runs' : error === '' ? '' : ` ${error}`;
        return `${name} ${about} ${round(tookMs(span))} ms${how}`;
      });
  }

  answered({ status, code }: TraceEnd): void {
    this.status = status;
    this.code = code;
    if (status === undefined) return;
    this.answeredAt = this.options.clock.elapsed();
    this.#enter('reply', this.answeredAt);
  }

  end(): void {
    if (this.endedAt >= 0) return;
    this.endedAt = this.options.clock.elapsed();
    this.#endStage(this.endedAt);
    this.options.onEnd(this);
  }

  document(kept: Kept): TraceDocument {
    const { clock, process } = this.options;
    const { subject, kind, links = [], describe } = this.#beginning;
    const { status, code, durationMs, traceId } = this;
    const stage = kept === 'running' ? this.spans[this.stageIndex]?.name : undefined;
    return {
      requestId: subject.requestId,
      traceId,
      kept,
      operation: subject.operation,
      bucket: cut(subject.bucketName ?? ''),
      key: cut(subject.key ?? ''),
      ...(status === undefined ? {} : { status }),
      ...(code === undefined ? {} : { code }),
      startedAt: new Date(clock.now() - (clock.elapsed() - this.startedAt)).toISOString(),
      durationMs: round(durationMs),
      ...(stage === undefined ? {} : { stage }),
      process,
      kind,
      ...(this.answeredAt < 0 ? {} : { headMs: round(this.answeredAt - this.startedAt) }),
      attributes: cutAttributes(describe()),
      spanId: this.spanIdAt(-1),
      ...(this.#parent === undefined ? {} : { parent: this.#parent.spanId }),
      links: links.slice(0, linksMax),
      spans: this.spans.map((span) => this.#spanDocument(span)),
      leftOut: this.#leftOut,
    };
  }

  #spanDocument({ index, name, about, stage, startedAt, endedAt, error }: RecordedSpan): SpanDocument {
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
