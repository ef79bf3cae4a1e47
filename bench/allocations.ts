/**
 * `node bench/allocations.ts [--sites=N] [--only=GET]` prints the bytes of JavaScript heap that a PUT, a GET and a HEAD of 4 KiB and a LIST of
 * 100 keys allocate through `gateway.handle`, on `embedded` + `file`, without the HTTP server. With `--sites`, also the N functions that
 * allocate most.
 *
 * It starts itself again with a young generation that takes all requests of a count, so that the heap only grows meanwhile.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import inspector, { type HeapProfiler } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { configWith } from '../src/config/read-config.ts';
import { createGateway, type Gateway } from '../src/gateway.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { openLogLevel } from '../src/runtime/processes/node-log-level.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { incomingOf } from './lib/incoming.ts';
import { median } from './lib/percentile.ts';
import { benchCredential, Signer, sha256Of } from './lib/sign.ts';

const requests = 128;
const rounds = 9;
/** Until the compiler has settled, it allocates too. */
const warmUpRounds = 32;
const nodeFlags = [
  '--expose-gc',
  '--min-semi-space-size=128',
  '--max-semi-space-size=128',
  // Code that waits for the compiler allocates more, and on a busy machine it would wait for long.
  '--no-concurrent-recompilation',
];

const body = new Uint8Array(4096).fill(3);
const signer = new Signer('localhost:9000');
const payloadHash = sha256Of(body);
const paths = Array.from({ length: requests }, (_, n) => `/bench/object-${n}`);
const heads = {
  PUT: paths.map((path) => signer.header({ method: 'PUT', path, payloadHash, length: body.length })),
  GET: paths.map((path) => signer.header({ method: 'GET', path })),
  HEAD: paths.map((path) => signer.header({ method: 'HEAD', path })),
  LIST: paths.map(() => signer.header({ method: 'GET', path: '/bench', query: 'list-type=2&max-keys=100' })),
};
type Method = keyof typeof heads;
const names: Readonly<Record<Method, string>> = {
  PUT: 'PUT 4 KiB',
  GET: 'GET 4 KiB',
  HEAD: 'HEAD',
  LIST: 'LIST 100 keys',
};

async function send(gateway: Gateway, incoming: ReturnType<typeof incomingOf>): Promise<void> {
  const reply = await gateway.handle(incoming);
  if (reply.status >= 300) throw new Error(`answered ${reply.status}`);
  if (typeof reply.body === 'object' && Symbol.asyncIterator in reply.body) for await (const _ of reply.body);
}

/** Requests one after the other; what they are made from is allocated before. @returns the growth of the heap */
async function round(gateway: Gateway, method: Method): Promise<number> {
  const incoming = heads[method].map((head) => incomingOf(head, method === 'PUT' ? body : undefined));
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (const each of incoming) await send(gateway, each);
  return process.memoryUsage().heapUsed - before;
}

async function count(gateway: Gateway, method: Method): Promise<number> {
  const grown: number[] = [];
  for (let n = -warmUpRounds; n < rounds; n += 1) {
    const bytes = await round(gateway, method);
    if (n >= 0) grown.push(bytes / requests);
  }
  return median(grown);
}

async function printSites(gateway: Gateway, method: Method, sites: number): Promise<void> {
  const session = new inspector.Session();
  session.connect();
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 256,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  await round(gateway, method);
  const { profile } = await session.post('HeapProfiler.stopSampling');
  session.disconnect();
  const bytes = new Map<string, number>();
  // What a built-in function allocates counts for the function that called it.
  const add = (node: HeapProfiler.SamplingHeapProfileNode, caller: string): void => {
    const { functionName, url, lineNumber } = node.callFrame;
    const own = `${functionName || '(anonymous)'} ${url.split('/').slice(-3).join('/')}:${lineNumber + 1}`;
    const site = url === '' ? caller : own;
    bytes.set(site, (bytes.get(site) ?? 0) + node.selfSize);
    for (const child of node.children) add(child, site);
  };
  add(profile.head, '(no function)');
  const most = [...bytes].toSorted(([, a], [, b]) => b - a).slice(0, sites);
  for (const [site, sum] of most)
    process.stdout.write(`  ${(sum / requests).toFixed(0).padStart(6)}  ${site}\n`);
}

async function main(sites: number, only: string | undefined): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never', SVC_LOG_LEVEL: 'WARN' });
  const { context, close } = await compose(config, {
    credentials: [benchCredential],
    telemetry: nodeTelemetry(config),
    // As the server has it: the line of an answered request is made at DEBUG only.
    logLevel: openLogLevel(config.SVC_LOG_LEVEL),
  });
  try {
    const gateway = createGateway(context);
    await send(gateway, incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
    await round(gateway, 'PUT');
    for (const method of Object.keys(heads) as Method[]) {
      if (only !== undefined && only !== method) continue;
      process.stdout.write(`${names[method]}: ${(await count(gateway, method)).toFixed(0)} bytes\n`);
      if (sites > 0) await printSites(gateway, method, sites);
    }
  } finally {
    await close();
    rmSync(directory, { recursive: true, force: true });
  }
}

if (globalThis.gc === undefined) {
  const args = [...nodeFlags, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  process.exitCode = spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1;
} else {
  const { values } = parseArgs({
    options: { sites: { type: 'string', default: '0' }, only: { type: 'string' } },
  });
  await main(Number(values.sites), values.only);
}
