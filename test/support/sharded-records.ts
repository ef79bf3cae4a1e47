/** Several SQLite stores that share the partitions of one gateway, in this process: each call is copied, as between Durable Objects. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { type RecordCalls, remoteRecords, serveRecords } from '../../src/backends/metadata/records/remote.ts';
import { shardCalls } from '../../src/backends/metadata/records/shard-calls.ts';
import { sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../src/backends/metadata/records/store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { contractTables } from '../contract/metadata-store/tables.ts';

const random = systemRandom();

/** A call that arrives or does not; a test changes what becomes of it. */
export type Between = (shard: number, name: keyof RecordCalls) => 'lost before' | 'lost after' | undefined;

export async function openShards(
  count: number,
  { clock, intentTtlMs }: { readonly clock: Clock; readonly intentTtlMs: number },
) {
  const directory = await mkdtemp(join(tmpdir(), 'shards-'));
  const stores: RecordStore[] = [];
  const faults: { between: Between } = { between: () => undefined };
  const start = (number: number): void => {
    const sql = openNodeSqlite({ path: join(directory, `${number}.sqlite`), durable: false });
    const store = sqliteStore(sql, { clock, random, intentTtlMs });
    store.join({
      number,
      count,
      send: (target, entries) => call(target, 'receive', [number, entries]) as Promise<void>,
    });
    stores[number] = store;
  };
  const call = async (shard: number, name: keyof RecordCalls, args: readonly unknown[]) => {
    const fault = faults.between(shard, name);
    if (fault === 'lost before') throw new Error('the object was evicted');
    // Not the store of a former life: a call goes to the one that runs now.
    const serve = serveRecords(stores[shard] as RecordStore, contractTables)[name] as (
      ...args: unknown[]
    ) => Promise<unknown>;
    const answer = structuredClone(await serve(...structuredClone(args)));
    if (fault === 'lost after') throw new Error('the connection was lost');
    return answer;
  };
  for (let number = 0; number < count; number += 1) start(number);
  const client = (of: Clock = clock) =>
    remoteRecords(shardCalls(call, { count, tables: contractTables, intentTtlMs }), {
      clock: of,
      random,
      intentTtlMs,
      isSharded: true,
    });
  return {
    stores,
    faults,
    client,
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
