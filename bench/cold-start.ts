/**
 * The CPU time of a Worker's cold start: from a new workerd to its first answer, less that of a script that answers at once.
 * `node bench/cold-start.ts [starts]`; the least of some starts (default 7) in turns, because other work makes a start
 * slower and never faster.
 */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { sender } from '../test/runtimes/client.ts';
import { durableBindings, workerdEntry, workerdFlags } from '../test/runtimes/workerd.ts';
import { testCredentials } from '../test/support/server.ts';
import { bundleWorker } from '../test/workers/bundle.ts';
import { cpuMicros, findChild } from './lib/process-cost.ts';

const starts = Number(process.argv[2] ?? 7);
const empty = `
import { DurableObject } from 'cloudflare:workers';
export class SluiceMetadata extends DurableObject {}
export default { fetch: () => new Response('') };`;
const small = join(import.meta.dirname, '../test/workers/small-worker.ts');
const scripts = new Map([
  ['an empty script', empty],
  ['a Worker that answers requests', await bundleWorker(small, { minify: true })],
  ['everything in one script', await bundleWorker(workerdEntry, { minify: true })],
]);

/** @returns ms of CPU until workerd listens, and until the first answer */
async function start(contents: string): Promise<readonly [number, number]> {
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'sluice.js', contents }],
    ...workerdFlags,
    ...durableBindings,
    // An alarm would run beside the first request.
    bindings: { ...durableBindings.bindings, SLUICE_WORKERS_EVERY: '3600' },
    handleStructuredLogs: () => {},
  });
  try {
    const { origin: url } = await worker.ready;
    const workerd = findChild();
    const listening = cpuMicros(workerd);
    await sender({ url, ...testCredentials.root })('OPTIONS', '/bucket');
    return [listening / 1000, cpuMicros(workerd) / 1000];
  } finally {
    await worker.dispose();
  }
}

const least = new Map<string, [number, number]>();
for (let round = 0; round < starts; round++)
  for (const [name, contents] of scripts) {
    const [listening, answered] = await start(contents);
    const [listeningMin, answeredMin] = least.get(name) ?? [Infinity, Infinity];
    least.set(name, [Math.min(listening, listeningMin), Math.min(answered, answeredMin)]);
  }
const [baseListening, baseAnswered] = least.get('an empty script') ?? [0, 0];
for (const [name, [listening, answered]] of least)
  console.log(
    `${name}: ${listening.toFixed(0)} ms of CPU until it listens (${(listening - baseListening).toFixed(0)} above empty), ${answered.toFixed(0)} ms until the first answer (${(answered - baseAnswered).toFixed(0)} above empty)`,
  );
