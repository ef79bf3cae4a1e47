/**
 * `SluiceMetadata`, the class of the Durable Object that has the metadata, and runs the background workers by alarms.
 *
 * One object holds all metadata of a gateway, so that each commit is one transaction with its side changes.
 */
import { serveRecords } from '../../backends/metadata/records/remote.ts';
import { type Sql, type SqliteStore, sqliteStore } from '../../backends/metadata/records/sqlite.ts';
import type { Bindings } from '../../backends/sinks/fetch-sinks.ts';
import { parseConfig } from '../../config/read-config.ts';
import type { WorkerName } from '../../config/workers.ts';
import type { Config, Environment } from '../../config.ts';
import { tables } from '../../metadata/tables.ts';
import { openContext } from '../../portable-context.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { AnyTable } from '../../ports/metadata-store.ts';
import { systemRandom } from '../../ports/random.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { createLineLog } from '../../telemetry/log-line.ts';
import { startWorkers } from '../../workers/registry.ts';
import {
  type CloudflareBindings,
  intentTtlMs,
  openCryptography,
  openR2,
  openSinks,
  readMasterKey,
  workerSettings,
} from './bindings.ts';

/** The runtime's own module. Elsewhere, for example in a test or a build, this file can be loaded, but no object can be created. */
const { DurableObject } = await import('cloudflare:workers').catch(() => ({
  DurableObject: class {
    constructor() {
      throw new Error('SluiceMetadata runs on Cloudflare Workers only');
    }
  },
}));

/** The type of its own keeps the runtime's module out of the declarations, which compile without the types of Workers. */
const ObjectBase = DurableObject as new (ctx: unknown, env: CloudflareBindings) => object;

interface ObjectState {
  readonly storage: {
    readonly sql: {
      exec(text: string, ...params: readonly unknown[]): Iterable<Record<string, unknown>>;
      readonly databaseSize: number;
    };
    transactionSync<Result>(work: () => Result): Result;
    getAlarm(): Promise<number | null>;
    setAlarm(at: number): Promise<void>;
  };
  blockConcurrencyWhile(work: () => Promise<void>): Promise<void>;
}

function objectSql({ storage }: ObjectState): Sql {
  // SQLite's transaction, which is undone where the function throws.
  const transact = storage.transactionSync.bind(storage);
  return {
    version: 'of a Durable Object',
    exec: (text, ...params) => storage.sql.exec(text, ...params),
    transact: (work) => transact(work),
    usedBytes: () => storage.sql.databaseSize,
    close() {},
  };
}

/** How long the workers run at an alarm. */
const workersMs = 10_000;
/** Those that need the memory or the time of no long scan, and pass on the bytes of no object (docs/workers.md). */
const alarmWorkers = [
  'gc',
  'bucket-stats',
  'force-empty',
  'lifecycle',
  'queue-retention',
  'audit-retention',
  'access-log',
  'inventory',
  'notify',
  'health-history',
  'quota-reconcile',
  'usage-rollup',
  'rewrap',
] as const satisfies readonly WorkerName[];

/** Below the 10 GB of an object, so that deletions and the workers still have room. */
const databaseBytesMax = 9_000_000_000;

export class SluiceMetadata extends ObjectBase {
  readonly #state: ObjectState;
  readonly #env: CloudflareBindings;
  readonly #store: SqliteStore;
  readonly #calls: Readonly<Record<string, (...args: never[]) => Promise<unknown>>>;

  constructor(ctx: unknown, env: CloudflareBindings) {
    super(ctx, env);
    this.#env = env;
    // The cast: the state of a runtime, of which this is the part that is used.
    this.#state = ctx as ObjectState;
    this.#store = sqliteStore(objectSql(this.#state), {
      clock: this.clock(),
      random: systemRandom(),
      intentTtlMs,
      bytesMax: databaseBytesMax,
    });
    this.#calls = serveRecords(this.#store, this.tables());
    void this.#state.blockConcurrencyWhile(async () => {
      if ((await this.#state.storage.getAlarm()) === null) await this.#setAlarm();
    });
  }

  protected clock(): Clock {
    return systemClock;
  }

  /** The tables that a gateway may use. */
  protected tables(): readonly AnyTable[] {
    return Object.values(tables);
  }

  /** One call of the metadata port. Only Workers with a binding of the class can send one. */
  call(name: string, args: readonly unknown[]): Promise<unknown> {
    const serve = Object.hasOwn(this.#calls, name) ? this.#calls[name] : undefined;
    if (serve === undefined) return Promise.reject(new Error(`there is no call ${name}`));
    return serve(...(args as never[]));
  }

  maintain(): Promise<void> {
    return this.#store.maintain();
  }

  /** Runs the workers for `workersMs`, and sets the next alarm also after a failure. */
  async alarm(): Promise<void> {
    // The cast: only settings are read of the bindings, and those are texts.
    const config = parseConfig({ ...this.#env, ...workerSettings } as object as Environment);
    const level = 'faults' in config ? 'INFO' : config.SVC_LOG_LEVEL;
    const log = createLineLog({ level, write: (line) => console.log(line) });
    try {
      if ('faults' in config) throw new Error(config.faults.join('\n'));
      await this.maintain();
      await this.#work(config, { ...silentTelemetry, log });
    } catch (cause) {
      log('ERROR', 'the workers of an alarm failed', { cause });
    } finally {
      await this.#setAlarm();
    }
  }

  async #work(config: Config, telemetry: Telemetry): Promise<void> {
    const cryptography = openCryptography();
    const { context } = openContext(config, {
      ...cryptography,
      clock: systemClock,
      sinks: openSinks(config, {
        ...cryptography,
        clock: systemClock,
        // The cast: bindings have any name.
        bindings: this.#env as object as Bindings,
      }),
      telemetry,
      metadata: this.#store,
      bytes: openR2(this.#env.BUCKET, systemClock),
      masterKeys: [readMasterKey(this.#env.SLUICE_MASTER_KEY)],
    });
    const named = config.SVC_WORKERS;
    const ends = new AbortController();
    const workers = startWorkers(
      context,
      alarmWorkers.filter((name) => named.includes(name)),
      ends.signal,
      { process: 'durable-object' },
    );
    await systemClock.sleep(workersMs);
    await workers.stop();
    await context.lateWrites.flush();
  }

  #setAlarm(): Promise<void> {
    const everyMs = Math.max(1, Number(this.#env.SLUICE_WORKERS_EVERY ?? 60)) * 1_000;
    return this.#state.storage.setAlarm(Date.now() + everyMs);
  }
}
