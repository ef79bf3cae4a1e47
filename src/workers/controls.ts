/**
 * What operators ask of the workers of this process: to pause, to resume, to run now. The rows are read every two seconds, in one scan,
 * or only after a commit where the store reports commits.
 * A worker does not begin before the first read, so that a pause holds over restarts.
 */
import type { Context } from '../context.ts';
import { readControls, type WorkerControl, type WorkerControls } from '../domain/common/workers.ts';
import { IdleRest, type Pulses } from './idle-rest.ts';

type Ctx = Pick<Context, 'metadata' | 'clock' | 'random' | 'telemetry'>;

/** How long a request of an operator takes to reach a process. */
const everyMs = 2_000;

/** What a worker obeys. */
export interface Gate {
  /** Resolves once the worker may run, or the signal aborts. */
  whenOpen(signal: AbortSignal): Promise<void>;
  /** Aborts when the worker is paused. Another one follows when it is resumed. */
  readonly closes: AbortSignal;
  /** Aborts when an operator asks the worker to run now. Another one follows at once. */
  readonly wakes: AbortSignal;
  /** Store time (ms) of the last request to run now. */
  readonly runAt: number | undefined;
}

/** Made with its first use, because workerd makes no AbortController outside of a request. */
let never: AbortSignal | undefined;
function neverAborted(): AbortSignal {
  never ??= new AbortController().signal;
  return never;
}

/** Of a worker that operators do not control. */
export const openGate: Gate = {
  async whenOpen() {},
  get closes() {
    return neverAborted();
  },
  get wakes() {
    return neverAborted();
  },
  runAt: undefined,
};

class WorkerGate implements Gate {
  #control: WorkerControl | undefined;
  #closing = new AbortController();
  #waking = new AbortController();
  readonly #waiting = new Set<() => void>();

  get closes(): AbortSignal {
    return this.#closing.signal;
  }

  get wakes(): AbortSignal {
    return this.#waking.signal;
  }

  get runAt(): number | undefined {
    return this.#control?.runAt;
  }

  get #isOpen(): boolean {
    return this.#control !== undefined && this.#control.paused === undefined;
  }

  whenOpen(signal: AbortSignal): Promise<void> {
    if (this.#isOpen || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        this.#waiting.delete(done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  /** @returns whether the worker was paused or resumed */
  obey(next: WorkerControl): boolean {
    const former = this.#control;
    const wasPaused = former?.paused !== undefined;
    const isPaused = next.paused !== undefined;
    this.#control = next;
    if (isPaused) this.#closing.abort();
    else {
      if (this.#closing.signal.aborted) this.#closing = new AbortController();
      for (const done of [...this.#waiting]) done();
    }
    if (former !== undefined && former.runAt !== next.runAt) {
      const waking = this.#waking;
      this.#waking = new AbortController();
      waking.abort();
    }
    return wasPaused !== isPaused;
  }
}

export class Controls {
  readonly #ctx: Ctx;
  readonly #idle: IdleRest;
  readonly #gates = new Map<string, WorkerGate>();
  readonly #signal: AbortSignal;
  /** Resolves after the last read, once the signal has aborted. */
  readonly ended: Promise<void>;

  /** @param pulses absent: the rows are read at times of its own */
  constructor(
    ctx: Ctx,
    {
      workers,
      signal,
      pulses,
    }: {
      readonly workers: readonly string[];
      readonly signal: AbortSignal;
      readonly pulses: Pulses | undefined;
    },
  ) {
    this.#ctx = ctx;
    this.#idle = new IdleRest(ctx, pulses);
    this.#signal = signal;
    for (const worker of workers) this.#gates.set(worker, new WorkerGate());
    this.ended = this.#poll();
  }

  gate(worker: string): Gate {
    return this.#gates.get(worker) ?? openGate;
  }

  async #poll(): Promise<void> {
    const signal = this.#signal;
    while (!signal.aborted) {
      this.#idle.begin();
      const controls = await this.#read();
      if (controls !== undefined) this.#obey(controls);
      await this.#idle.rest(everyMs, signal);
    }
  }

  #obey(controls: WorkerControls): void {
    this.#idle.nothingBefore(Number.POSITIVE_INFINITY);
    for (const [worker, gate] of this.#gates) {
      const control = controls.get(worker) ?? {};
      if (gate.obey(control)) this.#report(worker, control);
    }
  }

  /** While the store does not answer, workers stay as they are; those that have not begun wait. */
  async #read(): Promise<WorkerControls | undefined> {
    const { metadata, telemetry } = this.#ctx;
    try {
      return await readControls({ metadata });
    } catch (cause) {
      telemetry.log('DEBUG', 'the controls of the workers could not be read', { cause });
      return undefined;
    }
  }

  #report(worker: string, { paused }: WorkerControl): void {
    const { telemetry } = this.#ctx;
    telemetry.set('svc_worker_paused', { worker }, paused === undefined ? 0 : 1);
    if (paused === undefined) telemetry.log('INFO', 'a worker is resumed', { worker });
    else telemetry.log('INFO', 'a worker is paused', { worker, by: paused.by, reason: paused.reason });
  }
}
