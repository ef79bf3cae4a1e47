/** The Durable Object of the metadata against the contract of the metadata port, in workerd; the port's other half runs here. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll } from 'vitest';
import { remoteRecords } from '../../src/backends/metadata/records/remote.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { MetadataNamespace } from '../../src/runtime/cloudflare/bindings.ts';
import { metadataStoreContract, type Opened, timed } from '../contract/metadata-store.ts';
import { bundleWorker } from './bundle.ts';

interface Stub {
  call(name: string, args: readonly unknown[]): Promise<unknown>;
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

// As in `cloudflare.ts`.
const intentTtlMs = 5 * 60_000;
let objects = 0;
/** Objects share the clock of their isolate, which laws only move forward. */
let now = Date.UTC(2026, 0, 1);

async function open(): Promise<Opened> {
  // The cast: its types need those of Cloudflare.
  const namespace = (await worker.getDurableObjectNamespace('SLUICE')) as unknown as MetadataNamespace;
  const stub = namespace.get(namespace.idFromName(`law-${++objects}`)) as Stub;
  const passStore = async (ms: number): Promise<void> => {
    now += ms;
    await stub.pass(ms);
  };
  return timed(
    intentTtlMs,
    async ({ clock }) =>
      remoteRecords((call, args) => stub.call(call, args), { clock, random: systemRandom(), intentTtlMs }),
    { start: now, passStore },
  );
}

metadataStoreContract('Durable Object', open, {
  runs: 6,
  patience: 3,
  skips: {
    'keeps a thousand commits that were sent at once':
      'the bridge of miniflare opens a connection for each call, and refuses that many',
    'keeps JSON names that mean something to JavaScript':
      'the bridge of miniflare between Node and workerd drops __proto__; durable-gateway.test.ts asks the gateway',
  },
});
