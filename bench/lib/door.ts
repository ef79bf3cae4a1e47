/** The front door of a gateway over `noop` chunks and the measured metadata backend: a server, and a load on it. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { Connection } from './connection.ts';
import { Load } from './load.ts';
import type { OperationName } from './operations.ts';
import { median } from './percentile.ts';
import { benchCredential, Signer } from './sign.ts';

export interface DoorOptions {
  /** The settings of the metadata backend. */
  readonly env: Readonly<Record<string, string>>;
  readonly startMs?: number;
  readonly seconds: number;
  readonly rounds: number;
}

export interface Asked {
  readonly operation: OperationName;
  readonly bucket: string;
  readonly clients: number;
  /** Distinct keys. */
  readonly count: number;
}

const writerCount = 64;

export class Door implements AsyncDisposable {
  /** The settings of the server, for another gateway on the same stores. */
  readonly env: Readonly<Record<string, string>>;
  readonly #directory: string;
  readonly #server: TestServer;
  readonly #load = new Load(1, { sleeps: true });
  readonly #options: Omit<DoorOptions, 'env'>;

  private constructor(directory: string, server: TestServer, { env, ...options }: DoorOptions) {
    this.env = env;
    this.#directory = directory;
    this.#server = server;
    this.#options = options;
  }

  static async open(options: DoorOptions): Promise<Door> {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
    const file = join(directory, 'credentials.json');
    const masterKey = join(directory, 'master.key');
    writeFileSync(file, JSON.stringify([benchCredential]), { mode: 0o600 });
    writeFileSync(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
    mkdirSync(join(directory, 'data'));
    const env = {
      SVC_DATA_BACKEND: 'noop',
      SVC_CREDENTIALS_FILE: file,
      SVC_MASTER_KEY_FILE: masterKey,
      SVC_LOG_LEVEL: 'WARN',
      ...options.env,
    };
    const { startMs } = options;
    const dataDir = join(directory, 'data');
    const server = await startServer({ env, dataDir, ...(startMs === undefined ? {} : { startMs }) });
    return new Door(directory, server, { ...options, env });
  }

  async send(method: string, path: string): Promise<void> {
    const connection = await Connection.open({ host: '127.0.0.1', port: this.#server.port });
    const head = new Signer(`127.0.0.1:${this.#server.port}`).header({ method, path, length: 0 });
    const { status } = await connection.send([head]);
    connection.close();
    if (status >= 300) throw new Error(`${method} ${path} answered ${status}`);
  }

  /** Puts an object of 4 KiB under the first key of a bucket; the other keys are seeded as copies of it. */
  async putFirst(bucket: string): Promise<void> {
    await this.#run({ operation: 'put', bucket, clients: 1, count: 1 }, { seconds: 10, turns: 1 });
  }

  /** p50 in µs and steps a second: medians over the rounds, after one warm-up round. */
  async measured(asked: Asked): Promise<{ readonly p50: number; readonly perSecond: number }> {
    const p50: number[] = [];
    const perSecond: number[] = [];
    for (let i = 0; i <= this.#options.rounds; i += 1) {
      const done = await this.#run(asked, { from: i * 100_000 });
      if (i === 0) continue;
      p50.push(median(done.latencies) * 1000);
      perSecond.push(done.count / done.seconds);
    }
    return { p50: median(p50), perSecond: median(perSecond) };
  }

  /** PUTs of 4 KiB a second: of 64 writers to one bucket, and of 64 writers with a bucket each. */
  async writers(): Promise<{ readonly one: number; readonly many: number }> {
    await this.send('PUT', '/one');
    for (let i = 0; i < writerCount; i += 1) await this.send('PUT', `/bucket-${i}`);
    const one: number[] = [];
    const many: number[] = [];
    const put = { operation: 'put', clients: writerCount, count: 1e8 } as const;
    for (let i = 0; i <= this.#options.rounds; i += 1) {
      const from = i * 1_000_000;
      const single = await this.#run({ ...put, bucket: 'one' }, { from });
      const spread = await this.#run({ ...put, bucket: 'bucket' }, { from, buckets: writerCount });
      if (i === 0) continue;
      one.push(single.count / single.seconds);
      many.push(spread.count / spread.seconds);
    }
    return { one: median(one), many: median(many) };
  }

  #run(
    { count, ...asked }: Asked,
    how: {
      readonly from?: number;
      readonly seconds?: number;
      readonly turns?: number;
      readonly buckets?: number;
    },
  ) {
    const { seconds } = this.#options;
    const to = { host: '127.0.0.1', port: this.#server.port, size: 4096, seconds };
    return this.#load.run({ ...to, keys: count, ...asked, ...how });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#load.close();
    await this.#server.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
