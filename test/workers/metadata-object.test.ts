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
import { namespaceOf } from './named-metadata.ts';

interface Stub extends MetadataStub {
  pass(ms: number): Promise<void>;
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

/** @param count how many objects share the partitions */
async function open(count: number): Promise<Opened> {
  // The cast: its types need those of Cloudflare.
  const namespace = (await worker.getDurableObjectNamespace('SLUICE')) as unknown as MetadataNamespace;
  const objects = namespaceOf(namespace, `law-${++laws}`);
  const stubs = Array.from({ length: count }, (_, shard) => shardObject(objects, shard) as Stub);
  const passStore = async (ms: number): Promise<void> => {
    now += ms;
    // Its clock is that of all objects.
    await stubs[0]?.pass(ms);
  };
  const send: SendToShard = (shard, name, args) =>
    (stubs[shard] as Stub).call(name, args, { number: shard, count });
  return timed(
    intentTtlMs,
    async ({ clock }) => durableRecords(send, count, { clock, tables: contractTables }),
    {
      start: now,
      passStore,
    },
  );
}

for (const count of [1, 3])
  metadataStoreContract(count === 1 ? 'Durable Object' : `${count} Durable Objects`, () => open(count), {
    runs: 6,
    patience: 3,
    skips: {
      'keeps a thousand commits that were sent at once':
        'the bridge of miniflare opens a connection for each call, and refuses that many',
      'keeps JSON names that mean something to JavaScript':
        'the bridge of miniflare between Node and workerd drops __proto__; durable-gateway.test.ts asks the gateway',
    },
  });
