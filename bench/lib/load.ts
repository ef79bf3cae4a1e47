/** The whole load: several generator processes and the sum of their reports. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Done, Order } from './generator.ts';
import type { OperationName } from './operations.ts';

const script = fileURLToPath(new URL('./generator.ts', import.meta.url));

export interface LoadOptions {
  readonly host: string;
  readonly port: number;
  readonly operation: OperationName;
  readonly bucket: string;
  /** The number of buckets, each named with its number; absent for a single bucket. */
  readonly buckets?: number;
  readonly size: number;
  readonly keys: number;
  /** One turn's key lies far from that of the next. Default: next to it. */
  readonly isScattered?: boolean;
  readonly clients: number;
  readonly seconds: number;
  /** The load ends after this many steps, even before its time. */
  readonly turns?: number;
  /** The first turn; a second round continues where the first one ended. */
  readonly from?: number;
}

export interface LoadResult {
  readonly count: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly latencies: readonly number[];
}

export class Load {
  readonly #processes: readonly ChildProcess[];
  readonly #sleeps: boolean;

  /** @param sleeps while it waits for answers, as a client does; otherwise it polls in small cases (`generator.ts`) */
  constructor(processes: number, { sleeps = false }: { readonly sleeps?: boolean } = {}) {
    this.#sleeps = sleeps;
    this.#processes = Array.from({ length: processes }, () => fork(script, { serialization: 'advanced' }));
  }

  async run(options: LoadOptions): Promise<LoadResult> {
    const { host, port, operation, bucket, buckets, size, keys, seconds } = options;
    const { clients, turns = Number.MAX_SAFE_INTEGER, from = 0, isScattered = false } = options;
    const order = {
      ...{ host, port, operation, bucket, buckets, size, keys, isScattered, seconds },
      sleeps: this.#sleeps,
    };
    const workers = this.#processes.slice(0, clients);
    const parts = await Promise.all(
      workers.map((worker, i) => {
        const own = Math.floor((clients + i) / workers.length);
        const share = { clients: own, turns, first: from + i, stride: workers.length };
        return ask(worker, { ...order, ...share });
      }),
    );
    const failed = parts.find((part) => part.error !== undefined);
    if (failed !== undefined) throw new Error(failed.error);
    return {
      count: parts.reduce((sum, { count }) => sum + count, 0),
      bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
      seconds: Math.max(...parts.map(({ seconds }) => seconds)),
      latencies: parts.flatMap(({ latencies }) => latencies),
    };
  }

  close(): void {
    for (const worker of this.#processes) worker.disconnect();
  }
}

function ask(worker: ChildProcess, order: Order): Promise<Done> {
  return new Promise((resolve, reject) => {
    const ended = (): void => reject(new Error('a generator process ended'));
    worker.once('exit', ended);
    worker.once('message', (done) => {
      worker.off('exit', ended);
      resolve(done as Done);
    });
    worker.send(order);
  });
}
