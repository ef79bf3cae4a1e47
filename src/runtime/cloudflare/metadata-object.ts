/**
 * `SluiceMetadata`, the class of the Durable Object that has the metadata, and runs the background workers by alarms.
 *
 * One object holds all metadata of a gateway, so that each commit is one transaction with its side changes; or several share the partitions, with
 * a journal of side changes between them (`backends/metadata/records/outbox.ts`).
 */
import type { ShardPlace } from '../../backends/metadata/records/placement.ts';
import {
  misplacedMessage,
  type RemoteRecords,
  serveRecords,
} from '../../backends/metadata/records/remote.ts';
import { type Sql, sqliteStore } from '../../backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../backends/metadata/records/store.ts';
import type { Bindings } from '../../backends/sinks/fetch-sinks.ts';
import { parseConfig } from '../../config/read-config.ts';
import type { Config, Environment } from '../../config.ts';
import { tables } from '../../metadata/tables.ts';
import { openContext } from '../../portable-context.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { AnyTable } from '../../ports/metadata-store.ts';
import { systemRandom } from '../../ports/random.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { createLineLog } from '../../telemetry/log-line.ts';
import { lightWorkers, startRegistered } from '../../workers/registry.ts';
import {
  type CloudflareBindings,
  durableRecords,
  intentTtlMs,
  type MetadataNamespace,
  type MetadataStub,
  openCryptography,
  openR2,
  openSinks,
  readMasterKey,
  shardObject,
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
/** docs/workers.md says why the others do not run. */
const alarmWorkers = Object.keys(lightWorkers) as (keyof typeof lightWorkers)[];

/** Below the 10 GB of an object, so that deletions and the workers still have room. */
const databaseBytesMax = 9_000_000_000;

/** Of the only object. */
const wholePlace: ShardPlace = { number: 0, count: 1 };

export class SluiceMetadata extends ObjectBase {
  readonly #state: ObjectState;
  readonly #env: CloudflareBindings;
  readonly #store: RecordStore;
  readonly #calls: Readonly<Record<string, (...args: never[]) => Promise<unknown>>>;
  #place: ShardPlace | undefined;
  /** The metadata of all objects, where there are several. */
  #records: RemoteRecords | undefined;

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
    this.#place = this.#store.findPlace();
    if (this.#place !== undefined) this.#connect(this.#place);
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
  async call(name: string, args: readonly unknown[], place = wholePlace): Promise<unknown> {
    const serve = Object.hasOwn(this.#calls, name) ? this.#calls[name] : undefined;
    if (serve === undefined) throw new Error(`there is no call ${name}`);
    if (!this.#has(place)) await this.join(place);
    return serve(...(args as never[]));
  }

  #has({ number, count }: ShardPlace): boolean {
    return this.#place?.number === number && this.#place.count === count;
  }

  /** Takes a place, which cannot change afterwards. An empty object takes any place that the first object agrees with. */
  async join(place: ShardPlace): Promise<void> {
    if (this.#place === undefined && place.count > 1) {
      // If SLUICE_SHARDS was changed, an empty object must not answer for rows that another object stores.
      if (place.number > 0) await this.stub(0).join({ ...place, number: 0 });
      if (await this.#store.take(place)) this.#place = place;
    }
    // Without shards, the place is not stored: there can be some as long as the object is empty when it starts.
    this.#place ??= wholePlace;
    const { number, count } = this.#place;
    if (number !== place.number || count !== place.count)
      throw new Error(
        `${misplacedMessage}: the metadata of this gateway are in ${count} objects and this is number ${number}, but the Worker asks for number ${place.number} of ${place.count}. SLUICE_SHARDS cannot be changed`,
      );
    if (count > 1) this.#connect({ number, count });
  }

  /** The object of another shard. */
  protected stub(shard: number): MetadataStub {
    const namespace = this.#env.SLUICE as MetadataNamespace | undefined;
    if (namespace === undefined)
      throw new Error('shards need the binding SLUICE in the script of the object too');
    return shardObject(namespace, shard);
  }

  #connect({ number, count }: ShardPlace): void {
    const to = (shard: number): MetadataStub => (shard === number ? this : this.stub(shard));
    this.#store.join({
      number,
      count,
      send: async (shard, entries) => {
        await to(shard).call('receive', [number, entries], { number: shard, count });
      },
    });
    this.#records ??= durableRecords(
      (shard, name, args) => to(shard).call(name, args, { number: shard, count }),
      count,
      { clock: this.clock(), tables: this.tables() },
    );
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
      await this.#store.outbox?.settleAll();
      await this.#records?.maintain();
      // An object that was refused its place stays empty, so it has no work.
      if (!this.#store.isEmpty()) await this.#work(config, { ...silentTelemetry, log });
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
      metadata: this.#records ?? this.#store,
      bytes: openR2(this.#env.BUCKET, systemClock),
      masterKeys: [readMasterKey(this.#env.SLUICE_MASTER_KEY)],
    });
    const named = config.SVC_WORKERS;
    const ends = new AbortController();
    const workers = startRegistered(context, {
      registry: lightWorkers,
      names: alarmWorkers.filter((name) => named.includes(name)),
      signal: ends.signal,
      host: { process: `durable-object-${this.#place?.number ?? 0}` },
    });
    await systemClock.sleep(workersMs);
    await workers.stop();
    await context.lateWrites.flush();
  }

  #setAlarm(): Promise<void> {
    const everyMs = Math.max(1, Number(this.#env.SLUICE_WORKERS_EVERY ?? 60)) * 1_000;
    return this.#state.storage.setAlarm(Date.now() + everyMs);
  }
}
