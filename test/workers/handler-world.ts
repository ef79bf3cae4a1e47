/** The world of a handler test in miniflare: one process for all, and a world for each test. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { TestRunner } from 'vitest';
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import type { Context } from '../../src/context.ts';
import type { Gateway } from '../../src/gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { Credential } from '../../src/ports/credentials.ts';
import { fromRequest, toResponse } from '../../src/protocol/fetch.ts';
import type { Incoming } from '../../src/protocol/wire.ts';
import { workerdFlags } from '../runtimes/workerd.ts';
import type { Backend, GatewayWorldOptions } from '../support/gateway.ts';
import { useMemoryDisk } from '../support/memory-disk.ts';
import { bundleWorker } from './bundle.ts';
import { findSkip } from './handler-suites.ts';
import { objectsAt } from './object-client.ts';
import { sendWhole } from './whole-requests.ts';
import { openWorldContext, type World } from './world-context.ts';

/** The tests that were skipped, each as `suite: title`, with the reasons. */
export const skipped = new Map<string, string>();

let starting: Promise<Miniflare> | undefined;
let removeFiles = (): void => {};

async function startWorker(): Promise<Miniflare> {
  removeFiles = useMemoryDisk();
  const contents = await bundleWorker(join(import.meta.dirname, 'world-worker.ts'));
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'world.js', contents }],
    ...workerdFlags,
    r2Buckets: ['BUCKET'],
    durableObjects: { SLUICE: { className: 'WorldMetadata', useSQLite: true } },
    handleStructuredLogs: () => {},
  });
  await worker.ready;
  return worker;
}

export async function stopWorker(): Promise<void> {
  await (await starting)?.dispose();
  removeFiles();
}

/** The backends of tests that are about none of them. */
const replaced: readonly Backend[] = ['workers', 'memory', 'embedded+file'];

/** What a world in another process cannot have. */
function findReason(
  options: GatewayWorldOptions,
  { suite, title }: { readonly suite: string; readonly title: string },
): string | undefined {
  const listed = findSkip(suite, title);
  if (listed !== undefined) return listed;
  if (!replaced.includes(options.backend ?? 'workers')) return `it is about the backend ${options.backend}`;
  if (options.wrap !== undefined && !('onlyDelays' in options.wrap))
    return 'it replaces ports of its gateway';
  return options.telemetry === undefined ? undefined : 'it reads the telemetry of its gateway';
}

export async function openWorkersWorld(
  options: GatewayWorldOptions,
  credentials: readonly Credential[],
): Promise<{ readonly gateway: Gateway; readonly context: Context }> {
  const current = TestRunner.getCurrentTest();
  const title = current?.name ?? '';
  // `runHandlerSuites` puts each suite into a block of its name.
  let block = current?.suite;
  while (block?.suite !== undefined) block = block.suite;
  const suite = block?.name ?? '';
  const reason = findReason(options, { suite, title });
  if (reason !== undefined) {
    skipped.set(`${suite}: ${title}`, reason);
    current?.context.skip(reason);
  }
  starting ??= startWorker();
  const worker = await starting;
  const world: World = {
    id: randomUUID(),
    shards: Number(process.env['SLUICE_TEST_SHARDS'] ?? 1),
    settings: {
      SVC_BUCKET_SHARDS: '4',
      SVC_GC_GRACE: '0s',
      SVC_CONFIG_CACHE_TTL: '0s',
      SVC_CREDENTIALS: JSON.stringify(credentials),
      ...options.settings,
    },
    basePath: options.basePath ?? '',
  };
  const { clock = systemClock } = options;
  const readHeaders = (): Readonly<Record<string, string>> => ({
    'x-world-id': world.id,
    ...(clock === systemClock ? {} : { 'x-time': String(clock.now()) }),
  });
  const url = await worker.ready;
  const stores = {
    // The cast: its types need those of Cloudflare.
    BUCKET: (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket,
    SLUICE: objectsAt(url, readHeaders),
  };
  const sent = encodeURIComponent(JSON.stringify(world));
  const handle: Gateway['handle'] = (incoming) =>
    exchange(url, incoming, { 'x-world': sent, ...readHeaders() });
  const fetch: Gateway['fetch'] = async (request) =>
    toResponse(await handle(fromRequest(request)), request.method);
  const context = await openWorldContext(world, stores);
  return { gateway: { handle, fetch }, context: { ...context, clock } };
}

async function exchange(
  { hostname, port }: URL,
  { wire, body }: Incoming,
  ofWorld: Readonly<Record<string, string>>,
) {
  const pieces: Uint8Array[] = [];
  if (body !== undefined) for await (const piece of body) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  const headers = [...wire.headers.names()].flatMap((name) =>
    name === 'content-length' ? [] : wire.headers.all(name).flatMap((value) => [name, value]),
  );
  if (body !== undefined) headers.push('content-length', String(bytes.length));
  headers.push(...Object.entries(ofWorld).flat());
  // A connection of its own: one that was idle may be closed when it is used again.
  const {
    status,
    rawHeaders,
    body: replied,
  } = await sendWhole(
    { hostname, port, agent: false, method: wire.method, path: wire.target, headers },
    bytes,
  );
  const pairs = Array.from(
    { length: rawHeaders.length / 2 },
    (_, place) => [rawHeaders[2 * place] ?? '', rawHeaders[2 * place + 1] ?? ''] as const,
  );
  return { status, headers: pairs, body: replied };
}
