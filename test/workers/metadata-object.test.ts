/** The Durable Object of the metadata against the contract of the metadata port, in workerd; the port's other half runs here. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placement } from '../../src/backends/metadata/records/placement.ts';
import type { SendToShard } from '../../src/backends/metadata/records/shard-calls.ts';
import {
  durableRecords,
  intentTtlMs,
  type MetadataNamespace,
  type MetadataStub,
  shardObject,
} from '../../src/runtime/cloudflare/bindings.ts';
import { contractTables } from '../contract/metadata-store/tables.ts';
import { metadataStoreContract, type Opened, timed } from '../contract/metadata-store.ts';
import { useMemoryDisk } from '../support/memory-disk.ts';
import { bundleWorker } from './bundle.ts';
import { namespaceOf } from './named-metadata.ts';
import { objectsAt } from './object-client.ts';

interface Stub extends MetadataStub {
  pass(ms: number): Promise<void>;
  split(bytesMax: number): Promise<boolean>;
}

let worker: Miniflare;
let namespace: MetadataNamespace;
let removeFiles = (): void => {};
beforeAll(async () => {
  removeFiles = useMemoryDisk();
  const contents = await bundleWorker(join(import.meta.dirname, 'contract-object.ts'));
  worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'contract.js', contents }],
    compatibilityDate: '2026-04-01',
    compatibilityFlags: ['nodejs_compat'],
    durableObjects: { SLUICE: { className: 'ContractMetadata', useSQLite: true } },
  });
  namespace = objectsAt(await worker.ready);
});
afterAll(async () => {
  await worker?.dispose();
  removeFiles();
});

let laws = 0;
/** Objects share the clock of their isolate, which laws only move forward. */
let now = Date.UTC(2026, 0, 1);

/** Objects that split in a law. */
const splitting = 4;

/** @param count how many objects share the partitions */
async function open(count: number, { splits = false } = {}): Promise<Opened> {
  const objects = namespaceOf(namespace, `law-${++laws}`);
  const find = (shard: number): Stub => shardObject(objects, shard) as Stub;
  let passedMs = 0;
  let passing: Promise<void> = Promise.resolve();
  // With the next call, because a day is more than a thousand steps.
  const tellTime = (): Promise<void> => {
    if (passedMs === 0) return passing;
    const ms = passedMs;
    passedMs = 0;
    // The clock of one object is that of all.
    passing = passing.then(() => find(0).pass(ms));
    return passing;
  };
  const passStore = async (ms: number): Promise<void> => {
    now += ms;
    passedMs += ms;
  };
  const send: SendToShard = async (shard, name, args, version) => {
    await tellTime();
    return find(shard).call(name, args, { number: shard, count, version });
  };
  let isOver = false;
  const split = async (): Promise<void> => {
    // The first object splits, and so does the one that splits off from it.
    for (let turn = 0; !isOver; turn += 1) {
      await find(turn % splitting)
        .split(0)
        .catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const ended = splits ? split() : undefined;
  const opened = await timed(
    intentTtlMs,
    async ({ clock }) => durableRecords(send, count, { clock, tables: contractTables }),
    {
      start: now,
      passStore,
    },
  );
  return {
    ...opened,
    async close() {
      isOver = true;
      await ended;
      if (splits) mostObjects = Math.max(mostObjects, await countObjects(send));
      await opened.close();
      await tellTime();
    },
  };
}

/** The largest number of objects that those of a law have become, without those that have no rows yet. */
let mostObjects = 1;
const countObjects = async (send: SendToShard): Promise<number> =>
  ((await send(0, 'placement', [], 0)) as Placement).shards.filter(
    ({ splitsFrom }) => splitsFrom === undefined,
  ).length;

const rules = { runs: 6, patience: 3 };

for (const count of [1, 3])
  metadataStoreContract(
    count === 1 ? 'Durable Object' : `${count} Durable Objects`,
    () => open(count),
    rules,
  );

metadataStoreContract('Durable Objects that split meanwhile', () => open(1, { splits: true }), rules);

test('the objects of the laws above did split', () => {
  expect(mostObjects).toBeGreaterThan(1);
});
