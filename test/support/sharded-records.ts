/** Several SQLite stores that share the partitions of one gateway, in this process: each call is copied, as between Durable Objects. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { answerCalls, type RecordCalls, remoteRecords } from '../../src/backends/metadata/records/remote.ts';
import { type SendToShard, shardCalls } from '../../src/backends/metadata/records/shard-calls.ts';
import { type Sql, sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../src/backends/metadata/records/store.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { contractTables } from '../contract/metadata-store/tables.ts';

const random = systemRandom();

/** `unanswered`: the call does not arrive, and its caller hears nothing. */
type Fault = 'lost before' | 'lost after' | 'unanswered';

/** A call that arrives or does not; a test changes what becomes of it. */
export type Between = (shard: number, name: keyof RecordCalls, args: readonly unknown[]) => Fault | undefined;

interface Faults {
  between: Between;
  /** Gets each error that a call is answered with. */
  heard?: ((cause: unknown) => void) | undefined;
  /** Gets each call that has arrived, as a function by which the same message arrives once more. */
  delay?: ((name: keyof RecordCalls, again: () => Promise<unknown>) => void) | undefined;
}

export interface ShardsOptions {
  readonly clock: Clock;
  readonly intentTtlMs: number;
  /** The size from which a store refuses commits. */
  readonly bytesMax?: number;
  /** What a store uses in place of its connection. */
  wrap?(sql: Sql, number: number): Sql;
}

export async function openShards(
  count: number,
  { clock, intentTtlMs, bytesMax, wrap = (sql) => sql }: ShardsOptions,
) {
  const directory = await mkdtemp(join(tmpdir(), 'shards-'));
  const stores: RecordStore[] = [];
  const connections: Sql[] = [];
  const faults: Faults = { between: () => undefined };
  const start = (number: number): void => {
    const sql = wrap(openNodeSqlite({ path: join(directory, `${number}.sqlite`), durable: false }), number);
    connections[number] = sql;
    const limit = bytesMax === undefined ? {} : { bytesMax };
    const store = sqliteStore(sql, { clock, random, intentTtlMs, ...limit });
    const send = (target: number, name: string, args: readonly unknown[]) =>
      call(target, name as keyof RecordCalls, args, 0);
    store.connect({
      number,
      count,
      tables: contractTables,
      send: (target, entries) => send(target, 'receive', [number, entries]) as Promise<void>,
      call: send,
    });
    stores[number] = store;
  };
  const call: SendToShard = async (shard, name, args, version) => {
    const fault = faults.between(shard, name, args);
    if (fault === 'unanswered') return new Promise(() => {});
    if (fault === 'lost before') throw new Error('the object was evicted');
    // A store that splits off begins with its first call.
    if (stores[shard] === undefined) start(shard);
    const sent = structuredClone(args);
    // Not the store of a former life: a call goes to the one that runs now.
    const arrive = (): Promise<unknown> =>
      answerCalls(stores[shard] as RecordStore, contractTables)(name, structuredClone(sent), version);
    faults.delay?.(name, arrive);
    const answer = structuredClone(
      await arrive().catch((cause: unknown) => {
        faults.heard?.(cause);
        // Errors lose their class on their way.
        throw new Error(String(cause));
      }),
    );
    if (fault === 'lost after') throw new Error('the connection was lost');
    return answer;
  };
  for (let number = 0; number < count; number += 1) start(number);
  const client = (of: Clock = clock) =>
    remoteRecords(shardCalls(call, { count, tables: contractTables, intentTtlMs, clock: systemClock }), {
      clock: of,
      random,
      intentTtlMs,
      isSharded: true,
    });
  return {
    stores,
    connections,
    faults,
    client,
    /** Does a step of the split of each store; one splits while there are fewer than `storesMax`. @returns whether more is to do */
    async split(storesMax: number): Promise<boolean> {
      const steps = stores.map((store) => store.shard?.step(stores.length < storesMax ? 0 : undefined));
      return (await Promise.all(steps)).includes(true);
    },
    /** Each store reads the placement and sends side changes by it. */
    async adopt(): Promise<void> {
      await Promise.all(stores.map((store) => store.shard?.isActive && store.shard.adopt()));
    },
    /** Closes a store and opens its file again. */
    async restart(number: number): Promise<void> {
      await stores[number]?.close();
      start(number);
    },
    async close(): Promise<void> {
      await Promise.all(stores.map((store) => store.close()));
      await rm(directory, { recursive: true, force: true });
    },
  };
}
