/** Sends traces to a collector, in batches. The queue is bounded: what does not fit, and what the collector does not take, is counted. */
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { TraceDocument } from '../../ports/trace.ts';
import { countSpans, type Source, toOtlp } from './otlp-json.ts';

/** Spans that wait: some 8 MiB of traces. */
const queuedMax = 16_384;
const batchMax = 2_048;
const everyMs = 1_000;
const pausesMs = [1_000, 2_000, 5_000, 15_000, 30_000] as const;
/** Answers after which the specification wants a later attempt. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export interface ExporterOptions {
  readonly poster: {
    post(body: string): Promise<{ readonly status: number; readonly retryAfter: number | undefined }>;
    close(): Promise<void>;
  };
  readonly source: Source;
  readonly telemetry: Pick<Telemetry, 'log' | 'spans'>;
  readonly clock: Pick<Clock, 'sleep'>;
}

export class OtlpExporter {
  readonly #options: ExporterOptions;
  readonly #stopping = new AbortController();
  readonly #queue: TraceDocument[] = [];
  #spans = 0;
  #working: Promise<void> | undefined;

  constructor(options: ExporterOptions) {
    this.#options = options;
  }

  add(document: TraceDocument): void {
    const spans = countSpans(document);
    if (this.#spans + spans > queuedMax) {
      this.#options.telemetry.spans('full', spans);
      return;
    }
    this.#queue.push(document);
    this.#spans += spans;
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#working;
    await this.#options.poster.close();
  }

  /** Waits first, so that traces gather. */
  async #work(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (this.#queue.length > 0) {
      await clock.sleep(everyMs, signal);
      const batch = this.#take();
      await this.#send(batch);
    }
  }

  #take(): readonly TraceDocument[] {
    let spans = 0;
    let count = 0;
    for (const document of this.#queue) {
      if (count > 0 && spans + countSpans(document) > batchMax) break;
      spans += countSpans(document);
      count += 1;
    }
    this.#spans -= spans;
    return this.#queue.splice(0, count);
  }

  async #send(batch: readonly TraceDocument[]): Promise<void> {
    const { poster, source, telemetry, clock } = this.#options;
    const { signal } = this.#stopping;
    const body = toOtlp(batch, source);
    const spans = batch.reduce((sum, document) => sum + countSpans(document), 0);
    let error = '';
    for (const pauseMs of pausesMs) {
      let waitMs: number = pauseMs;
      try {
        const { status, retryAfter } = await poster.post(body);
        if (status >= 200 && status < 300) return telemetry.spans('exported', spans);
        error = `the collector answered ${status}`;
        if (!passing.has(status)) break;
        waitMs = Math.min(retryAfter === undefined ? pauseMs : retryAfter * 1_000, pausesMs[4]);
      } catch (cause) {
        error = `the collector cannot be reached: ${cause instanceof Error ? cause.message : String(cause)}`;
      }
      // A process that stops tries once.
      if (signal.aborted) break;
      await clock.sleep(waitMs, signal);
    }
    telemetry.spans('refused', spans);
    telemetry.log('WARN', 'spans were not exported', { error, spans });
  }
}
