/**
 * Durable storage on Cloudflare: metadata in a Durable Object, bytes in R2. `SluiceMetadata` is the class of the object, which also runs the
 * background workers by alarms; `cloudflare()` is the storage of a gateway in a Worker (docs/workers.md).
 *
 * One object holds all metadata of a gateway, so that each commit is one transaction with its side changes.
 */

import { chunked } from '../backends/data/chunked/chunked.ts';
import { WriteBudget } from '../backends/data/chunked/write-budget.ts';
import { type R2Bucket, r2Chunks } from '../backends/data/r2.ts';
import {
  type RemoteRecords,
  remoteRecords,
  type SendCall,
  serveRecords,
} from '../backends/metadata/records/remote.ts';
import { type Sql, type SqliteStore, sqliteStore } from '../backends/metadata/records/sqlite.ts';
import { fromBase64 } from '../base/text/base64.ts';
import { parseConfig } from '../config/read-config.ts';
import type { WorkerName } from '../config/values/workers.ts';
import type { Config, Environment } from '../config.ts';
import { tables } from '../metadata/tables.ts';
import type { Storage } from '../mod.ts';
import { openPortable, type PortableOptions } from '../portable-context.ts';
import { type Clock, systemClock } from '../ports/clock.ts';
import { cipherKeyBytes } from '../ports/cryptography.ts';
import type { AnyTable, LateWrites, MetadataStore, Op } from '../ports/metadata-store.ts';
import type { ObjectBytes } from '../ports/object-bytes.ts';
import { systemRandom } from '../ports/random.ts';
import { silentTelemetry, type Telemetry } from '../ports/telemetry.ts';
import { createLog } from '../telemetry/log.ts';
import { startWorkers } from '../workers/registry.ts';

/** The runtime's own module. Elsewhere, for example in a test or a build, this file can be loaded, but no object can be created. */
const { DurableObject, waitUntil } = await import('cloudflare:workers').catch(() => ({
  DurableObject: class {
    constructor() {
      throw new Error('SluiceMetadata runs on Cloudflare Workers only');
    }
  },
  waitUntil() {},
}));

/** The type of its own keeps the runtime's module out of the declarations, which compile without the types of Workers. */
const ObjectBase = DurableObject as new (ctx: unknown, env: CloudflareBindings) => object;

/** A binding of the class `SluiceMetadata`. */
export interface MetadataNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): unknown;
}

export interface CloudflareBindings {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
  /** 32 random bytes as base64 (`openssl rand -base64 32`), a secret: seals the secrets of users and sessions. */
  readonly SLUICE_MASTER_KEY: string;
  /** How often the workers run, in seconds. Default 60. */
  readonly SLUICE_WORKERS_EVERY?: string;
}

/** Longer than a request takes between two renewals; a Worker cannot renew between its requests. */
const intentTtlMs = 5 * 60_000;
/** The object of a gateway; further ones would be its shards. */
const objectName = 'metadata';
/** Memory of the chunks in flight in an isolate, which has 128 MB in total. */
const writeBytesMax = 24 * 1024 * 1024;
/** The memory of an isolate, for the bounds that a gateway derives from it. */
export const isolateMemory = { SVC_MEMORY_MAX: '128MiB' } as const;

/** The settings of a gateway in a Worker, unless it has its own. */
const workerSettings = {
  SVC_META_BACKEND: 'memory',
  SVC_DATA_BACKEND: 'memory',
  ...isolateMemory,
} as const;

function readMasterKey(text: unknown): Uint8Array {
  let key: Uint8Array = new Uint8Array(0);
  try {
    key = fromBase64(String(text));
  } catch {
    // An empty key fails the check of the length below.
  }
  if (key.length !== cipherKeyBytes)
    throw new Error(`SLUICE_MASTER_KEY is not ${cipherKeyBytes} bytes as base64: openssl rand -base64 32`);
  return key;
}

const openR2 = (bucket: R2Bucket, clock: Clock): ObjectBytes =>
  chunked({ default: r2Chunks(bucket) }, new WriteBudget(writeBytesMax, clock));

/** Longer than a runtime keeps a request alive after its reply. */
const outlivingMs = 25_000;

/**
 * A timer ends with the request that set it, and a wait that several requests share would never end: so each timer keeps its request
 * alive.
 */
const requestClock: Clock = {
  ...systemClock,
  sleep(ms, signal) {
    const slept = systemClock.sleep(ms, signal);
    if (ms <= outlivingMs) waitUntil(slept);
    return slept;
  },
};

/** Nothing may wait in an isolate, because it ends without notice: rows are written while their request is kept alive. */
const writeAtOnce = (metadata: MetadataStore, telemetry: Telemetry): LateWrites => ({
  async add(change) {
    waitUntil(
      metadata
        .apply([change])
        .catch((cause: unknown) => telemetry.log('WARN', 'a row that is written late was lost', { cause })),
    );
  },
  async flush() {},
});

/** Renews the intents of this isolate for as long as one of its requests has an open op. */
function renewing(records: RemoteRecords): RemoteRecords {
  const timers = new Map<string, ReturnType<typeof setInterval>>();
  const begin = async (intent: { readonly cluster: string }): Promise<Op> => {
    const op = await records.begin(intent);
    const renew = (): void => void records.maintain().catch(() => undefined);
    timers.set(op.id, setInterval(renew, intentTtlMs / 3));
    return op;
  };
  const stop = (opId: string): void => {
    clearInterval(timers.get(opId));
    timers.delete(opId);
  };
  const end = (op: Op): Promise<void> => {
    stop(op.id);
    return records.end(op);
  };
  const abort = (opId: string): Promise<void> => {
    stop(opId);
    return records.abort(opId);
  };
  return new Proxy(records, {
    get(target, name) {
      if (name === 'begin') return begin;
      if (name === 'end') return end;
      if (name === 'abort') return abort;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

interface MetadataStub {
  call: SendCall;
}

/** The metadata port over a binding. A stub belongs to the request that made it, so each call makes one. */
export function durableMetadata(namespace: MetadataNamespace, clock: Clock = systemClock): RemoteRecords {
  const send: SendCall = (name, args) =>
    (namespace.get(namespace.idFromName(objectName)) as MetadataStub).call(name, args);
  return remoteRecords(send, { clock, random: systemRandom(), intentTtlMs });
}

export interface CloudflareOptions {
  /** A binding of an R2 bucket. */
  readonly objects: R2Bucket;
  /** A binding of the class `SluiceMetadata`. */
  readonly metadata: MetadataNamespace;
  /** 32 random bytes as base64, the same for ever: seals the secrets of users and sessions. */
  readonly masterKey: string;
}

function portsOf({ objects, metadata, masterKey }: CloudflareOptions, telemetry: Telemetry): PortableOptions {
  const records = renewing(durableMetadata(metadata, requestClock));
  return {
    telemetry,
    clock: requestClock,
    metadata: records,
    bytes: openR2(objects, requestClock),
    lateWrites: writeAtOnce(records, telemetry),
    masterKeys: [readMasterKey(masterKey)],
  };
}

/** Metadata in a Durable Object, bytes in R2. The workers run beside the metadata, by alarms. */
export const cloudflare = (options: CloudflareOptions): Storage => ({
  settings: workerSettings,
  runsWorkers: true,
  open: async (config, { telemetry }) => openPortable(config, portsOf(options, telemetry)),
});

/** A gateway's context over the bindings of the default entry. */
export const openCloudflare = (
  config: Config,
  { BUCKET: objects, SLUICE: metadata, SLUICE_MASTER_KEY: masterKey }: CloudflareBindings,
  { telemetry, tracer }: Required<Pick<PortableOptions, 'telemetry' | 'tracer'>>,
) => openPortable(config, { ...portsOf({ objects, metadata, masterKey }, telemetry), tracer });

// The object.

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
/** The workers that need neither connections of their own nor the memory of a long scan. */
const alarmWorkers = [
  'gc',
  'bucket-stats',
  'force-empty',
  'lifecycle',
  'queue-retention',
  'audit-retention',
  'access-log',
  'inventory',
  'quota-reconcile',
  'usage-rollup',
  'rewrap',
] as const satisfies readonly WorkerName[];

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
    const telemetry: Telemetry = { ...silentTelemetry, log: createLog() };
    try {
      await this.maintain();
      await this.#work(telemetry);
    } catch (cause) {
      telemetry.log('ERROR', 'the workers of an alarm failed', { cause });
    } finally {
      await this.#setAlarm();
    }
  }

  async #work(telemetry: Telemetry): Promise<void> {
    // The cast: only settings are read of the bindings, and those are texts.
    const config = parseConfig({ ...this.#env, ...workerSettings } as object as Environment);
    if ('faults' in config) throw new Error(config.faults.join('\n'));
    const { context } = openPortable(config, {
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
