/**
 * `SluiceMetadata`, the class of the Durable Object that has the metadata, and runs the background workers by alarms.
 *
 * One object holds all metadata of a gateway, so that each commit is one transaction with its side changes; or several
 * share the partitions, with a journal of side changes between them (`backends/metadata/records/outbox.ts`). An object
 * splits before it is full (`shard-split.ts` beside
 * `outbox.ts`).
 */
import type { Placement, ShardPlace } from '../../backends/metadata/records/placement.ts';
import {
  type AnswerCall,
  answerCalls,
  misplacedMessage,
  type RemoteRecords,
} from '../../backends/metadata/records/remote.ts';
import { type Sql, sqliteStore } from '../../backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../backends/metadata/records/store.ts';
import type { Bindings } from '../../backends/sinks/fetch-sinks.ts';
import { parseConfig } from '../../config/read-config.ts';
import type { Config } from '../../config.ts';
import { tables } from '../../metadata/tables.ts';
import { openContext } from '../../portable-context.ts';
import { type Clock, systemClock, workerdClock } from '../../ports/clock.ts';
import type { AnyTable } from '../../ports/metadata-store.ts';
import { systemRandom } from '../../ports/random.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { createLineLog } from '../../telemetry/log-line.ts';
import { lightWorkers, startRegistered } from '../../workers/registry.ts';
import {
  type CallPlace,
  type CloudflareBindings,
  durableRecords,
  intentTtlMs,
  type MetadataNamespace,
  type MetadataStub,
  openCryptography,
  openR2,
  openSinks,
  readMasterKey,
  readWorkersEvery,
  settingTexts,
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
    /** Resolves when earlier writes are durable. */
    sync(): Promise<void>;
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

/** How long the workers run at an alarm, and at one of an object that splits: its writers may not change more than it copies. */
const workersMs = 10_000;
const workersMsOfSplit = 1_000;
/** docs/workers.md says why the others do not run. */
const alarmWorkers = Object.keys(lightWorkers) as (keyof typeof lightWorkers)[];

/** Below the 10 GB of an object, so that deletions and the workers still have room. */
const databaseBytesMax = 9_000_000_000;

/** Steps of an alarm, below the calls that a runtime allows it. */
const splitSteps = 400;
/** A step that failed is repeated within the alarm: until the next one, writers would change more than an alarm copies. */
const failuresMax = 5;
const failureMs = 100;
/** From an alarm in which the object ended, while it splits, to its repetition. */
const repeatMs = 1_000;
/** From an alarm to the next one while the object splits. */
const splittingMs = 100;

const write = (line: string): void => console.log(line);

/** Of the only object. */
const wholePlace: ShardPlace = { number: 0, count: 1 };

export class SluiceMetadata extends ObjectBase {
  readonly #state: ObjectState;
  readonly #env: CloudflareBindings;
  readonly #store: RecordStore;
  readonly #answer: AnswerCall;
  #place: ShardPlace | undefined;
  /** The metadata of all objects. */
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
    this.#answer = answerCalls(this.#store, this.tables());
    // An object with rows and without a place is the only one, or was at first.
    this.#place = this.#store.findPlace() ?? (this.#store.isEmpty() ? undefined : wholePlace);
    if (this.#place !== undefined) this.#connect(this.#place);
    const { fault } = readWorkersEvery(env.SLUICE_WORKERS_EVERY);
    if (fault !== undefined) createLineLog({ level: 'INFO', write })('WARN', fault);
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
  async call(name: string, args: readonly unknown[], place: CallPlace = wholePlace): Promise<unknown> {
    if (!this.#has(place)) await this.join(place);
    return this.#answer(name, args, place.version);
  }

  #has({ number, count }: ShardPlace): boolean {
    return this.#place?.number === number && this.#place.count === count;
  }

  /** Takes a place, which cannot change afterwards. An empty object takes any place that the first object agrees with. */
  async join({ number, count }: ShardPlace): Promise<void> {
    if (this.#place === undefined && (count > 1 || number > 0)) {
      // If SLUICE_SHARDS was changed, an empty object must not answer for rows that another object stores.
      if (number > 0) await this.#askFirst({ number, count });
      if (await this.#store.takePlace({ number, count })) this.#place = { number, count };
    }
    // Of the only object it is not stored: there can be another number of them as long as it is empty when it starts.
    this.#place ??= wholePlace;
    if (!this.#has({ number, count }))
      throw new Error(
        `${misplacedMessage}: the metadata of this gateway are in ${this.#place.count} objects and this is number ${this.#place.number}, but the Worker asks for number ${number} of ${count}. SLUICE_SHARDS cannot be changed; an object splits by itself when it is large`,
      );
    this.#connect({ number, count });
  }

  async #askFirst({ number, count }: ShardPlace): Promise<void> {
    const first = this.stub(0);
    await first.join({ number: 0, count });
    if (number < count) return;
    const { shards } = (await first.call('placement', [], { number: 0, count })) as Placement;
    if (!shards.some((shard) => shard.number === number))
      throw new Error(`${misplacedMessage}: no object has split into number ${number}`);
  }

  /** The object of another shard. */
  protected stub(shard: number): MetadataStub {
    const namespace = this.#env.SLUICE as MetadataNamespace | undefined;
    if (namespace === undefined)
      throw new Error('shards need the binding SLUICE in the script of the object too');
    return shardObject(namespace, shard);
  }

  #connect({ number, count }: ShardPlace): void {
    const send = (
      shard: number,
      name: string,
      args: readonly unknown[],
      version?: number,
    ): Promise<unknown> => {
      const stub: MetadataStub = shard === number ? this : this.stub(shard);
      return stub.call(name, args, { number: shard, count, ...(version === undefined ? {} : { version }) });
    };
    this.#store.connect({
      number,
      count,
      tables: this.tables(),
      send: async (shard, entries) => {
        await send(shard, 'receive', [number, entries]);
      },
      call: send,
    });
    this.#records ??= durableRecords(send, count, { clock: this.clock(), tables: this.tables() });
  }

  /** Does some steps of a split, and begins one where the object is large. @returns whether more steps are to do */
  async split(bytesMax: number): Promise<boolean> {
    const { shard } = this.#store;
    // Without the binding of its own class no object can be reached.
    if (shard === undefined || this.#env.SLUICE === undefined) return false;
    let hasMore = true;
    for (let step = 0, failures = 0; hasMore && step < splitSteps; step += 1)
      try {
        hasMore = await shard.step(bytesMax);
        failures = 0;
      } catch (cause) {
        failures += 1;
        if (failures === failuresMax) throw cause;
        await systemClock.sleep(failureMs);
      }
    await shard.adopt();
    return hasMore;
  }

  maintain(): Promise<void> {
    return this.#store.maintain();
  }

  /**
   * Sends what was left unsent, does steps of a split, and runs the workers for a while. A failure of one of them stops none of the others.
   */
  async alarm(): Promise<void> {
    // Set the next alarm before any work, and make it durable. If the object ends during the alarm, the runtime repeats the alarm at
    // most six times, after pauses that double, unless another alarm is set.
    await this.#setAlarm(this.#store.shard?.phase === undefined ? undefined : repeatMs);
    await this.#state.storage.sync();
    const config = parseConfig({ ...settingTexts(this.#env), ...workerSettings });
    const level = 'faults' in config ? 'INFO' : config.SVC_LOG_LEVEL;
    const log = createLineLog({ level, write });
    if ('faults' in config) {
      log('ERROR', 'the settings of the object are wrong: it does no work', { faults: config.faults });
      await this.#setAlarm();
      return;
    }
    const attempt = async (part: string, work: () => Promise<unknown>): Promise<void> => {
      await work().catch((cause: unknown) =>
        log('WARN', 'a part of an alarm failed; the next one repeats it', { part, cause }),
      );
    };
    const { shard, outbox } = this.#store;
    let isSplitting = false;
    await attempt('leases', () => this.maintain());
    await attempt('side changes', async () => {
      // A half that is being handed over takes no side changes.
      await shard?.finishHandover();
      await outbox?.settleAll();
    });
    await attempt('split', async () => {
      // Where it cannot go on, the workers have their time, and the next alarm tries again.
      isSplitting = await this.split(config.SVC_METADATA_SPLIT_SIZE);
    });
    await attempt('leases in all objects', async () => this.#records?.maintain());
    // An object that was refused its place stays empty, and a new one has no rows yet: neither has work.
    if (shard?.isActive && !this.#store.isEmpty())
      await attempt('workers', () =>
        this.#work(config, {
          telemetry: { ...silentTelemetry, log },
          ms: isSplitting ? workersMsOfSplit : workersMs,
        }),
      );
    await this.#setAlarm(isSplitting ? splittingMs : undefined);
  }

  /** @param ms how long the workers run */
  async #work(
    config: Config,
    { telemetry, ms }: { readonly telemetry: Telemetry; readonly ms: number },
  ): Promise<void> {
    const cryptography = openCryptography();
    const { context } = openContext(config, {
      ...cryptography,
      clock: workerdClock,
      sinks: openSinks(config, {
        ...cryptography,
        clock: workerdClock,
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
    await systemClock.sleep(ms);
    await workers.stop();
    await context.lateWrites.flush();
  }

  #setAlarm(afterMs?: number): Promise<void> {
    const { ms } = readWorkersEvery(this.#env.SLUICE_WORKERS_EVERY);
    return this.#state.storage.setAlarm(Date.now() + (afterMs ?? ms));
  }
}
