/** The Durable Object of the metadata against the contract of the metadata port, in workerd; the port's other half runs here. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll } from 'vitest';
import { remoteRecords } from '../../src/backends/metadata/records/remote.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { metadataStoreContract, type Opened } from '../contract/metadata-store.ts';
import { bundleWorker } from './bundle.ts';

interface MetadataNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): unknown;
}

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
  const name = `law-${++objects}`;
  // The cast: its types need those of Cloudflare.
  const namespace = (await worker.getDurableObjectNamespace('SLUICE')) as unknown as MetadataNamespace;
  const stub = namespace.get(namespace.idFromName(name)) as Stub;
  const clock: Clock = { now: () => now, elapsed: () => now, sleep: async () => {} };
  const reopen = () =>
    remoteRecords((call, args) => stub.call(call, args), { clock, random: systemRandom(), intentTtlMs });
  const store = reopen();
  const others: (typeof store)[] = [];
  let paused = false;
  return {
    store,
    intentTtlMs,
    async pass(ms) {
      const steps = Math.ceil(ms / (intentTtlMs / 4));
      for (let step = 0; step < steps; step++) {
        now += ms / steps;
        await stub.pass(ms / steps);
        for (const each of paused ? others : [store, ...others]) await each.maintain();
      }
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
    },
    async another() {
      const other = reopen();
      others.push(other);
      return other;
    },
    async close() {
      for (const each of [store, ...others]) await each.close();
    },
  };
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
