/** The world of a handler test in miniflare: one process for all, and a world for each test. */
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
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
import type { MetadataNamespace } from '../../src/runtime/cloudflare.ts';
import { workerdFlags } from '../runtimes/workerd.ts';
import type { GatewayWorldOptions } from '../support/gateway.ts';
import { bundleWorker } from './bundle.ts';
import { handlerSkips } from './handler-skips.ts';
import { openWorldContext, type World } from './world-context.ts';

/** The names of the tests that were skipped, with the reasons. */
export const skipped = new Map<string, string>();

let starting: Promise<Miniflare> | undefined;

async function startWorker(): Promise<Miniflare> {
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
}

/** What a world in another process cannot have. */
function findReason(options: GatewayWorldOptions, name: string): string | undefined {
  const listed = handlerSkips[name];
  if (listed !== undefined) return listed;
  if (options.backend !== 'workers') return `it is about the backend ${options.backend}`;
  if (options.clock !== undefined && options.clock !== systemClock) return 'it sets the clock of its gateway';
  if (options.wrap !== undefined) return 'it replaces ports of its gateway';
  if (options.telemetry !== undefined) return 'it reads the telemetry of its gateway';
  return options.basePath === undefined ? undefined : 'it mounts its gateway under a path';
}

export async function openWorkersWorld(
  options: GatewayWorldOptions,
  credentials: readonly Credential[],
): Promise<{ readonly gateway: Gateway; readonly context: Context }> {
  const current = TestRunner.getCurrentTest();
  const name = current?.name ?? '';
  const reason = findReason(options, name);
  if (reason !== undefined) {
    skipped.set(name, reason);
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
  };
  // The casts: its types need those of Cloudflare.
  const stores = {
    BUCKET: (await worker.getR2Bucket('BUCKET')) as unknown as R2Bucket,
    SLUICE: (await worker.getDurableObjectNamespace('SLUICE')) as unknown as MetadataNamespace,
  };
  const { hostname, port } = await worker.ready;
  const sent = encodeURIComponent(JSON.stringify(world));
  const handle: Gateway['handle'] = (incoming) => exchange({ hostname, port }, incoming, sent);
  const fetch: Gateway['fetch'] = async (request) =>
    toResponse(await handle(fromRequest(request)), request.method);
  return { gateway: { handle, fetch }, context: await openWorldContext(world, stores) };
}

interface At {
  readonly hostname: string;
  readonly port: string;
}

async function exchange(at: At, { wire, body }: Incoming, world: string) {
  const pieces: Uint8Array[] = [];
  if (body !== undefined) for await (const piece of body) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  const headers = [...wire.headers.names()].flatMap((name) =>
    name === 'content-length' ? [] : wire.headers.all(name).flatMap((value) => [name, value]),
  );
  if (body !== undefined) headers.push('content-length', String(bytes.length));
  headers.push('x-world', world);
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Gateway['handle']>>>();
  // A connection of its own: one that was idle may be closed when it is used again.
  const request = httpRequest({ ...at, agent: false, method: wire.method, path: wire.target, headers });
  request.on('error', reject);
  request.on('response', (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('error', reject);
    response.on('end', () => {
      const pairs = Array.from(
        { length: response.rawHeaders.length / 2 },
        (_, place) =>
          [response.rawHeaders[2 * place] ?? '', response.rawHeaders[2 * place + 1] ?? ''] as const,
      );
      resolve({ status: response.statusCode ?? 0, headers: pairs, body: Buffer.concat(chunks) });
    });
  });
  request.end(bytes);
  return promise;
}
