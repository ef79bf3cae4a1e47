/**
 * `node bench/allocations.ts [--sites=N] [--only=GET] [--floor]` prints the bytes of JavaScript heap that a PUT, a GET
 * and a HEAD of 4 KiB, a LIST of 100 keys and a PUT in signed chunks allocate through `gateway.handle`, on `embedded` +
 * `file`, without the HTTP server. With `--sites`, also the N functions that allocate most. With `--floor`, of
 * `lib/floor-handler.ts` instead, which does only what must be done.
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
import { createGateway } from '../src/admin-gateway.ts';
import { configWith } from '../src/config/read-config.ts';
import type { Gateway } from '../src/gateway.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { openLogLevel } from '../src/runtime/processes/node-log-level.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { openFloor } from './lib/floor-handler.ts';
import { incomingOf } from './lib/incoming.ts';
import { withTrailer } from './lib/operations.ts';
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
const chunked = withTrailer(body);
const paths = Array.from({ length: requests }, (_, n) => `/bench/object-${n}`);
interface Sent {
  readonly head: string;
  readonly body?: Uint8Array;
}
function inChunks(path: string): Sent {
  const [head, ...pieces] = signer.chunked({ method: 'PUT', path }, chunked);
  return { head: String(head), body: Buffer.concat(pieces.map((piece) => Buffer.from(piece as Uint8Array))) };
}
const sent = {
  PUT: paths.map((path) => ({
    head: signer.header({ method: 'PUT', path, payloadHash, length: body.length }),
    body,
  })),
  GET: paths.map((path) => ({ head: signer.header({ method: 'GET', path }) })),
  HEAD: paths.map((path) => ({ head: signer.header({ method: 'HEAD', path }) })),
  LIST: paths.map(() => ({
    head: signer.header({ method: 'GET', path: '/bench', query: 'list-type=2&max-keys=100' }),
  })),
  // The last, because a row with a checksum takes more than one without.
  CHUNKED: paths.map(inChunks),
} satisfies Record<string, readonly Sent[]>;
type Method = keyof typeof sent;
const names: Readonly<Record<Method, string>> = {
  PUT: 'PUT 4 KiB',
  GET: 'GET 4 KiB',
  HEAD: 'HEAD',
  LIST: 'LIST 100 keys',
  CHUNKED: 'CHUNKED PUT 4 KiB',
};

type Served = Pick<Gateway, 'handle'>;

async function send(gateway: Served, incoming: ReturnType<typeof incomingOf>): Promise<void> {
  const reply = await gateway.handle(incoming);
  if (reply.status >= 300) throw new Error(`answered ${reply.status}`);
  if (typeof reply.body === 'object' && Symbol.asyncIterator in reply.body) for await (const _ of reply.body);
}

/** Requests one after the other; what they are made from is allocated before. @returns the growth of the heap */
async function round(gateway: Served, method: Method): Promise<number> {
  const each: readonly Sent[] = sent[method];
  const incoming = each.map(({ head, body: content }) => incomingOf(head, content));
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (const one of incoming) await send(gateway, one);
  return process.memoryUsage().heapUsed - before;
}

async function count(gateway: Served, method: Method): Promise<number> {
  const grown: number[] = [];
  for (let n = -warmUpRounds; n < rounds; n += 1) {
    const bytes = await round(gateway, method);
    if (n >= 0) grown.push(bytes / requests);
  }
  return median(grown);
}

async function printSites(gateway: Served, method: Method, sites: number): Promise<void> {
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

async function openServer(directory: string): Promise<Served & { close(): Promise<void> }> {
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never', SVC_LOG_LEVEL: 'WARN' });
  const { context, close } = await compose(config, {
    credentials: [benchCredential],
    telemetry: nodeTelemetry(config),
    // As the server has it: the line of an answered request is made at DEBUG only.
    logLevel: openLogLevel(config.SVC_LOG_LEVEL),
  });
  return { handle: createGateway(context).handle, close };
}

interface Options {
  readonly sites: number;
  readonly only: string | undefined;
  readonly floor: boolean;
}

async function main({ sites, only, floor }: Options): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  const gateway = floor ? openFloor(directory) : await openServer(directory);
  try {
    await send(gateway, incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
    await round(gateway, 'PUT');
    for (const method of Object.keys(sent) as Method[]) {
      if (only !== undefined && only !== method) continue;
      process.stdout.write(`${names[method]}: ${(await count(gateway, method)).toFixed(0)} bytes\n`);
      if (sites > 0) await printSites(gateway, method, sites);
    }
  } finally {
    await gateway.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

if (globalThis.gc === undefined) {
  const args = [...nodeFlags, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  process.exitCode = spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1;
} else {
  const { values } = parseArgs({
    options: {
      sites: { type: 'string', default: '0' },
      only: { type: 'string' },
      floor: { type: 'boolean', default: false },
    },
  });
  await main({ sites: Number(values.sites), only: values.only, floor: values.floor });
}
