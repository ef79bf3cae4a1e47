/**
 * A report about this node for those who help with a problem, as one archive: settings without secrets, versions,
 * health, workers, queues, last errors, metrics and traces. Each part is what the operator API answers; a part that
 * fails says why, and the others follow. It leaves out operations, buckets, accounts, clusters, peers and targets that
 * a policy denies the caller explicitly.
 */

import { findDenial } from '../../auth/administer.ts';
import { Refusal } from '../../base/errors.ts';
import { describeError } from '../../base/text/describe-error.ts';
import { settings } from '../../config.ts';
import type { Context } from '../../context.ts';
import { openReadiness } from '../../domain/clusters/readiness.ts';
import {
  type AdminOperationName,
  adminPrefix,
  describeAdminOperation,
} from '../../protocol/admin/operations.ts';
import { fillPath } from '../../protocol/admin-target.ts';
import { type AdminHandler, type AdminRequest, withoutDenied } from './call.ts';
import * as clusters from './clusters.ts';
import * as deliveries from './deliveries.ts';
import { type Entries, openEntries } from './named-resources.ts';
import * as peers from './peers.ts';
import { describeProcess, diagnosticsTopic } from './recent.ts';
import * as storage from './storage.ts';
import * as traces from './traces.ts';
import * as workers from './workers.ts';

const askMs = 2_000;
/** A part that takes longer is left out: an engine that hangs is a reason to ask for a bundle. */
const partMs = 10_000;
const partBytesMax = 8 * 1024 * 1024;
/** More than a page of the API, so that failures before a burst of slow requests are in it; some 2 MiB. */
const tracesMax = 5_000;
/** Traces that are shown with their spans. */
const detailsMax = 20;

type Part = (ctx: Context, call: AdminRequest) => Promise<unknown>;

/** An operation as this caller calls it. @throws AccessDenied where a policy denies it explicitly */
async function openPart(
  ctx: Context,
  call: AdminRequest,
  {
    operation,
    params = new Map(),
  }: { readonly operation: AdminOperationName; readonly params?: AdminRequest['params'] },
) {
  const row = describeAdminOperation(operation);
  const path = fillPath(row.path.slice(adminPrefix.length + 1), params);
  const caller = { ...call.caller, operation };
  const asked = { caller, action: `admin:${operation}`, path, fields: Object.fromEntries(params) };
  const denial = await findDenial(ctx, caller, asked);
  if (denial !== undefined) throw denial;
  return { row, params, asked, entries: openEntries(ctx, row, asked) };
}

/** A part that is the reply of an operation. */
const partFrom =
  <N extends AdminOperationName>(operation: N, handle: AdminHandler<N>, query: object = {}): Part =>
  async (ctx, call) => {
    const { row, params, entries } = await openPart(ctx, call, { operation, params: call.params });
    // The casts: the operation has no body, and these are its parameters.
    const reply = await handle(ctx, { ...call, params, query, entries } as never);
    return JSON.parse(String((await withoutDenied(reply, row, entries)).body));
  };

const about: Part = async (ctx, call) => {
  const { diagnostics, siblings, clock } = ctx;
  const others = await siblings.ask({ topic: diagnosticsTopic, about: '' }, askMs);
  // The cast: a process of this installation has answered.
  const all = [describeProcess(ctx), ...others.map((each) => JSON.parse(each) as Process)];
  const lines = await openPart(ctx, call, { operation: 'ListLogs' }).catch((cause: unknown) => {
    if (cause instanceof Refusal) return undefined;
    throw cause;
  });
  const processes: Process[] = [];
  for (const { lastErrors, ...process } of all)
    processes.push({ ...process, lastErrors: await visibleLines(call, lines?.entries, lastErrors) });
  return {
    version: diagnostics?.version ?? 'unknown',
    time: new Date(clock.now()).toISOString(),
    processes,
  };
};

type Process = ReturnType<typeof describeProcess>;

/** @param entries absent where the log is denied as a whole */
async function visibleLines(
  { identity }: Pick<AdminRequest, 'identity'>,
  entries: Entries | undefined,
  lines: readonly unknown[],
): Promise<unknown[]> {
  if (identity?.operator === true) return [...lines];
  if (entries === undefined) return [];
  const left: unknown[] = [];
  for (const line of lines) {
    // A truncated line cannot be parsed, so its bucket and account are unknown.
    const isKnown = typeof line === 'object' && line !== null;
    if (isKnown && (await entries.denialOf('lines', line)) === undefined) left.push(line);
  }
  return left;
}

/** The paths of what policies can deny; their fields are labels of metrics. A label in no path names nothing that a policy can deny. */
const deniablePaths = [
  'buckets/{bucket}',
  'accounts/{account}',
  'clusters/{cluster}',
  'replication/peers/{peer}',
  'notify/targets/{target}',
];
const labels = /\b([a-z]+)="((?:[^"\\]|\\.)*)"/g;

/**
 * What labels of other names are about: destinations `<peer>/<bucket there>`, which processes of earlier builds show,
 * disks `data:<cluster>`, and holders of quotas.
 */
function namedOtherwise(labelValues: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { destination, component, of, name } = labelValues;
  if (destination !== undefined) return { peer: destination.split('/')[0] ?? '' };
  if (component?.startsWith('data:')) return { cluster: component.slice('data:'.length) };
  if (of === undefined || name === undefined) return {};
  // Of a user the name is `<account>/<user>`.
  return of === 'bucket' ? { bucket: name } : { account: name.split('/')[0] ?? '' };
}

/**
 * The samples of metrics that are about nothing that is denied. Metrics have no operation of their own, so a Deny of
 * ListLogs covers them.
 */
const metrics: Part = async (ctx, call) => {
  const text = await ctx.telemetry.metrics();
  if (call.identity?.operator === true) return text;
  const { asked } = await openPart(ctx, call, { operation: 'ListLogs' });
  const entries = openEntries(ctx, { lists: { samples: deniablePaths } }, asked);
  const left: string[] = [];
  for (const line of text.split('\n')) {
    const labelValues = Object.fromEntries(
      Array.from(line.matchAll(labels), ([, name = '', value = '']) => [name, value]),
    );
    const named = { ...labelValues, ...namedOtherwise(labelValues) };
    if ((await entries.denialOf('samples', named)) === undefined) left.push(line);
  }
  return left.join('\n');
};

const masked = '********';
const readSettings: Part = async (ctx, call) => {
  await openPart(ctx, call, { operation: 'ListSettings' });
  const { config } = ctx;
  return Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => {
      const value = config[name as keyof typeof config];
      return [name, 'secret' in setting && value !== undefined ? masked : (value ?? null)];
    }),
  );
};

const failedTraces: Part = async (ctx, call) => {
  const { tracer } = ctx;
  if (tracer === undefined) return [];
  const listed = (await partFrom('ListTraces', traces.ListTraces, { limit: tracesMax })(ctx, call)) as {
    readonly traces: readonly { readonly requestId: string; readonly kept: string }[];
  };
  const failed = listed.traces
    .filter(({ kept: retained }) => retained === 'failed' || retained === 'slow')
    .slice(0, detailsMax);
  return Promise.all(
    failed.map(({ requestId }) =>
      partFrom('GetTrace', traces.GetTrace)(ctx, { ...call, params: new Map([['id', requestId]]) }).catch(
        () => null,
      ),
    ),
  );
};

const parts: Readonly<Record<string, Part>> = {
  'about.json': about,
  'settings.json': readSettings,
  'ready.json': (ctx) => openReadiness(ctx)(),
  'workers.json': partFrom('ListWorkers', workers.ListWorkers),
  'storage-health.json': partFrom('GetStorageHealth', storage.GetStorageHealth),
  'storage-metadata.json': partFrom('GetStorageMeta', storage.GetStorageMeta),
  'storage-data.json': partFrom('GetStorageData', storage.GetStorageData),
  'storage-classes.json': partFrom('GetStorageClasses', storage.GetStorageClasses),
  'clusters.json': partFrom('ListClusters', clusters.ListClusters),
  'scrub.json': partFrom('GetScrub', storage.GetScrub),
  'fsck.json': partFrom('GetFsck', storage.GetFsck),
  'notify-targets.json': partFrom('GetNotifyTargets', deliveries.GetNotifyTargets),
  'replication-peers.json': partFrom('ListReplicationPeers', peers.ListReplicationPeers),
  'replication-status.json': partFrom('GetReplicationStatus', deliveries.GetReplicationStatus),
  'replication-failed.json': partFrom('ListFailedReplications', deliveries.ListFailedReplications),
  'metrics.txt': metrics,
  'traces.json': partFrom('ListTraces', traces.ListTraces, { limit: tracesMax }),
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
    return `${JSON.stringify({ missing: describeError(cause) })}\n`;
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
