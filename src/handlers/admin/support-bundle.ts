/**
 * A report about this node for those who help with a problem, as one archive: settings without secrets, versions, health, workers, queues, last
 * errors, metrics and traces. Each part is what the operator API answers; a part that fails says why, and the others follow.
 */

import { settings } from '../../config.ts';
import type { Context } from '../../context.ts';
import { openReadiness } from '../../domain/clusters/readiness.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { AdminHandler, AdminRequest } from './call.ts';
import * as clusters from './clusters.ts';
import * as deliveries from './deliveries.ts';
import * as peers from './peers.ts';
import * as storage from './storage.ts';
import * as traces from './traces.ts';
import * as workers from './workers.ts';

const topic = 'diagnostics';
const askMs = 2_000;
/** A part that takes longer is left out: an engine that hangs is a reason to ask for a bundle. */
const partMs = 10_000;
const partBytesMax = 8 * 1024 * 1024;
/** More than a page of the API, so that failures before a burst of slow requests are in it; some 2 MiB. */
const tracesMax = 5_000;
/** Traces that are shown with their spans. */
const detailsMax = 20;

/** Answers the other processes of the node. */
export function shareDiagnostics(ctx: Pick<Context, 'siblings' | 'diagnostics'>): void {
  ctx.siblings.answer(topic, () => JSON.stringify(describeProcess(ctx)));
}

const describeProcess = ({ diagnostics }: Pick<Context, 'diagnostics'>) => ({
  process: diagnostics?.process() ?? {},
  lastErrors: (diagnostics?.lines.severe() ?? []).map((line) => readLine(line)),
});

const readLine = (line: string): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    // A long line is cut.
    return line;
  }
};

type Part = (ctx: Context, call: AdminRequest) => Promise<unknown>;

/** A part that is the reply of an operation without parameters. */
const replyOf =
  (handle: (ctx: Context, call: never) => Promise<Reply>, query: object = {}): Part =>
  async (ctx, call) =>
    JSON.parse(String((await handle(ctx, { ...call, query } as never)).body));

const about: Part = async ({ diagnostics, siblings, clock }) => {
  const others = await siblings.ask({ topic, about: '' }, askMs);
  return {
    version: diagnostics?.version ?? 'unknown',
    time: new Date(clock.now()).toISOString(),
    processes: [
      describeProcess({ diagnostics } as Context),
      ...others.map((each) => JSON.parse(each) as unknown),
    ],
  };
};

const masked = '********';
const readSettings: Part = async ({ config }) =>
  Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => {
      const value = config[name as keyof typeof config];
      return [name, 'secret' in setting && value !== undefined ? masked : (value ?? null)];
    }),
  );

const failedTraces: Part = async (ctx, call) => {
  const { tracer } = ctx;
  if (tracer === undefined) return [];
  const listed = (await replyOf(traces.ListTraces, { limit: tracesMax })(ctx, call)) as {
    readonly traces: readonly { readonly requestId: string; readonly kept: string }[];
  };
  const failed = listed.traces
    .filter(({ kept: retained }) => retained === 'failed' || retained === 'slow')
    .slice(0, detailsMax);
  return Promise.all(
    failed.map(({ requestId }) =>
      replyOf(traces.GetTrace)(ctx, { ...call, params: new Map([['id', requestId]]) }).catch(() => null),
    ),
  );
};

const parts: Readonly<Record<string, Part>> = {
  'about.json': about,
  'settings.json': readSettings,
  'ready.json': (ctx) => openReadiness(ctx)(),
  'workers.json': replyOf(workers.ListWorkers),
  'storage-health.json': replyOf(storage.GetStorageHealth),
  'storage-metadata.json': replyOf(storage.GetStorageMeta),
  'storage-data.json': replyOf(storage.GetStorageData),
  'storage-classes.json': replyOf(storage.GetStorageClasses),
  'clusters.json': replyOf(clusters.ListClusters),
  'scrub.json': replyOf(storage.GetScrub),
  'fsck.json': replyOf(storage.GetFsck),
  'notify-targets.json': replyOf(deliveries.GetNotifyTargets),
  'replication-peers.json': replyOf(peers.ListReplicationPeers),
  'replication-status.json': replyOf(deliveries.GetReplicationStatus),
  'replication-failed.json': replyOf(deliveries.ListFailedReplications),
  'metrics.txt': ({ telemetry }) => telemetry.metrics(),
  'traces.json': replyOf(traces.ListTraces, { limit: tracesMax }),
  'traces-with-spans.json': failedTraces,
};

export const GetSupportBundle: AdminHandler<'GetSupportBundle'> = async (ctx, call) => ({
  status: 200,
  headers: [
    ['Content-Type', 'application/x-tar'],
    ['Content-Disposition', `attachment; filename="sluice-support-${call.requestId}.tar"`],
    ['Cache-Control', 'no-store'],
  ],
  body: writeBundle(ctx, call as AdminRequest),
});

/** One part is in memory at a time. */
async function* writeBundle(ctx: Context, call: AdminRequest): AsyncGenerator<Uint8Array> {
  for (const [name, part] of Object.entries(parts)) {
    const text = await readPart(ctx, part, call);
    const bytes = new TextEncoder().encode(text).subarray(0, partBytesMax);
    const file: TarFile = { name: `sluice-support/${name}`, bytes, modifiedAt: ctx.clock.now() };
    yield tarEntry(file);
  }
  yield tarEnd();
}

async function readPart(ctx: Context, part: Part, call: AdminRequest): Promise<string> {
  const ended = new AbortController();
  try {
    const late = ctx.clock.sleep(partMs, ended.signal).then(() => {
      throw new Error(`no answer within ${partMs / 1000} s`);
    });
    late.catch(() => {});
    const value = await Promise.race([part(ctx, call), late]);
    return typeof value === 'string' ? value : `${JSON.stringify(value, showValue, 1)}\n`;
  } catch (cause) {
    return `${JSON.stringify({ missing: cause instanceof Error ? cause.message : String(cause) })}\n`;
  } finally {
    ended.abort();
  }
}

const showValue = (_name: string, value: unknown): unknown =>
  value instanceof Map ? Object.fromEntries(value) : value instanceof Set ? [...value] : value;

// Writes an archive in the format `ustar` (POSIX.1-1988), a file at a time.

const blockBytes = 512;
const encoder = new TextEncoder();

interface TarFile {
  /** At most 100 bytes. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** In ms since the epoch. */
  readonly modifiedAt: number;
}

export function tarEntry({ name, bytes, modifiedAt }: TarFile): Uint8Array {
  const padded = Math.ceil(bytes.length / blockBytes) * blockBytes;
  const entry = new Uint8Array(blockBytes + padded);
  const write = (at: number, text: string): void => entry.set(encoder.encode(text), at);
  const octal = (at: number, length: number, value: number): void =>
    write(
      at,
      `${Math.floor(value)
        .toString(8)
        .padStart(length - 1, '0')}\0`,
    );
  write(0, name);
  octal(100, 8, 0o600);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, bytes.length);
  octal(136, 12, modifiedAt / 1000);
  // The checksum is computed as if its own field held spaces.
  write(148, ' '.repeat(8));
  write(156, '0');
  write(257, 'ustar\x0000');
  let sum = 0;
  for (const byte of entry.subarray(0, blockBytes)) sum += byte;
  write(148, `${sum.toString(8).padStart(6, '0')}\0 `);
  entry.set(bytes, blockBytes);
  return entry;
}

/** Two empty blocks end an archive. */
export const tarEnd = (): Uint8Array => new Uint8Array(2 * blockBytes);
