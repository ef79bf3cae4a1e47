/** The Durable Object of the metadata against the contract of the metadata port, in workerd; the port's other half runs here. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll } from 'vitest';
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
import { bundleWorker } from './bundle.ts';
import type { ContractMetadata } from './contract-object.ts';
import { namespaceOf } from './named-metadata.ts';

interface Stub extends MetadataStub {
  pass(ms: number): Promise<void>;
  attempt(...call: Parameters<MetadataStub['call']>): ReturnType<ContractMetadata['attempt']>;
  split(bytesMax: number): Promise<boolean>;
}

let worker: Miniflare;
beforeAll(async () => {
  const contents = await bundleWorker(join(import.meta.dirname, 'contract-object.ts'));
  worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'contract.js', contents }],
    compatibilityDate: '2026-04-01',
    compatibilityFlags: ['nodejs_compat'],
    durableObjects: { SLUICE: { className: 'ContractMetadata', useSQLite: true } },
  });
  await worker.ready;
});
afterAll(() => worker?.dispose());

let laws = 0;
/** Objects share the clock of their isolate, which laws only move forward. */
let now = Date.UTC(2026, 0, 1);

/** Objects that split in a law, and more than there can be then. */
const splitting = 4;
const stubsMax = 64;

/** @param count how many objects share the partitions */
async function open(count: number, { splits = false } = {}): Promise<Opened> {
  // The cast: its types need those of Cloudflare.
  const namespace = (await worker.getDurableObjectNamespace('SLUICE')) as unknown as MetadataNamespace;
  const objects = namespaceOf(namespace, `law-${++laws}`);
  // Those that split off too: the bridge wants one stub for all calls of an object.
  const stubs = Array.from({ length: stubsMax }, (_, shard) => shardObject(objects, shard) as Stub);
  const passStore = async (ms: number): Promise<void> => {
    now += ms;
    // Its clock is that of all objects.
    await stubs[0]?.pass(ms);
  };
  const send: SendToShard = async (shard, name, args, version) => {
    const replied = await (stubs[shard] as Stub).attempt(name, args, { number: shard, count, version });
    if ('refusal' in replied) throw new Error(replied.refusal);
    return replied.answer;
  };
  let isOver = false;
  const split = async (): Promise<void> => {
    // The first object splits, and so does the one that splits off from it.
    for (let turn = 0; !isOver; turn += 1) {
      await stubs[turn % splitting]?.split(0).catch(() => undefined);
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
      await opened.close();
    },
  };
}

const rules = {
  runs: 6,
  patience: 3,
  skips: {
    'keeps a thousand commits that were sent at once':
      'the bridge of miniflare opens a connection for each call, and refuses that many',
    'keeps JSON names that mean something to JavaScript':
      'the bridge of miniflare between Node and workerd drops __proto__; durable-gateway.test.ts asks the gateway',
  },
};

for (const count of [1, 3])
  metadataStoreContract(
    count === 1 ? 'Durable Object' : `${count} Durable Objects`,
    () => open(count),
    rules,
  );

metadataStoreContract('Durable Objects that split meanwhile', () => open(1, { splits: true }), rules);
