/**
 * GetStatus: the installation on one page. Parts are read side by side, each for a limited time: an engine that hangs
 * is a reason to look at the others.
 */
import { lastMinute, percentileMs, RequestHistory, sumCounts } from '../../base/recent-entries.ts';
import { describeError } from '../../base/text/describe-error.ts';
import type { Context } from '../../context.ts';
import { findSealWarning } from '../../domain/events/seal-hours.ts';
import {
  pauseWarnings,
  probeData,
  probeMetadata,
  storageHealth,
} from '../../domain/storage/storage-health.ts';
import { everyGateway, silentAfterMs } from '../../metadata/background/heartbeats.ts';
import type { GatewayRequests, GatewayRow } from '../../metadata/records/processes.ts';
import type { AdminReply } from '../../protocol/admin/operations.ts';
import type { Plain } from '../../protocol/formats/json.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from './call.ts';
import { readLastErrors, readNodeMinutes, roundMs } from './recent.ts';
import { ListTasks, ListWorkers } from './workers.ts';

const partMs = 5_000;
const errorsMax = 5;
const tasksMax = 10;

type Reply = AdminReply<'GetStatus'>;
type Worker = AdminReply<'ListWorkers'>['workers'][number];

export const GetStatus: AdminHandler<'GetStatus'> = async (ctx, call) => {
  const missing: string[] = [];
  const part = async <T>(name: string, read: Promise<T>): Promise<T | undefined> => {
    const ended = new AbortController();
    const late = ctx.clock.sleep(partMs, ended.signal).then(() => `no answer within ${partMs / 1000} s`);
    const value = await Promise.race([read.then((found) => ({ found }), describeError), late]);
    ended.abort();
    if (typeof value === 'object') return value.found;
    missing.push(`${name}: ${value}`);
    return undefined;
  };
  const [metadata, data, pauses = [], workers = [], tasks = [], rows = [], requests, errors = []] =
    await Promise.all([
      part('metadata', probeMetadata(ctx)),
      part('data', probeData(ctx)),
      part('pauses and audit seals', readWarnings(ctx)),
      part('workers', readWorkers(ctx, call)),
      part('tasks', readTasks(ctx, call)),
      part('gateways', readGateways(ctx)),
      readRequests(ctx),
      part('last errors', readLastErrors(ctx, errorsMax)),
    ]);
  const gateways = describeGateways(ctx, rows, { workers, requests });
  const health =
    metadata === undefined || data === undefined
      ? { warnings: pauses }
      : storageHealth(metadata, data, pauses);
  const warnings = [
    ...health.warnings,
    ...(ctx.diskSpace?.states() ?? []).flatMap(({ warning }) => warning ?? []),
    ...gateways
      .filter(({ state }) => state === 'silent')
      .map(({ host, address, beatAt }) => `gateway ${host} (${address}) is silent since ${beatAt}`),
    ...workers
      .filter(({ state }) => state === 'failing')
      .map(({ worker, lastError }) => `worker ${worker} fails: ${lastError?.message ?? ''}`),
  ];
  return jsonReply({
    ok: warnings.length === 0 && missing.length === 0,
    time: new Date(ctx.clock.now()).toISOString(),
    warnings,
    missing,
    gateways,
    metadata: (metadata?.nodes ?? []).map(({ name, state, usedBytes, freeBytes, sizeUnknown }) => ({
      backend: metadata?.backend ?? '',
      name,
      state,
      usedBytes,
      freeBytes,
      sizeUnknown,
    })),
    pools: (data?.pools ?? []).map(({ cluster, pool, state, bytesUsed, bytesFree }) => ({
      backend: data?.backend ?? '',
      cluster,
      pool,
      state,
      ...(state === 'ok' ? { usedBytes: bytesUsed } : {}),
      freeBytes: bytesFree,
    })),
    work: workers.filter(hasWork).map(describeWork),
    tasks,
    requests,
    errors,
  });
};

const readWarnings = async (ctx: Context): Promise<readonly string[]> =>
  (await Promise.all([pauseWarnings(ctx), findSealWarning(ctx)])).flat();

async function readWorkers(ctx: Context, call: AdminRequest<'GetStatus'>): Promise<readonly Worker[]> {
  // The cast: the operation reads neither a query nor a body.
  const { json } = await ListWorkers(ctx, call as never);
  return (json?.workers ?? []) as readonly Worker[];
}

/** Those that have not ended. */
async function readTasks(ctx: Context, call: AdminRequest<'GetStatus'>): Promise<Plain<Reply>['tasks']> {
  const query = { state: 'active', limit: tasksMax } as const;
  // The cast: the operation reads nothing else of the request.
  const { json } = await ListTasks(ctx, { ...call, query } as never);
  return json?.tasks ?? [];
}

interface Beat extends GatewayRow {
  readonly isUp: boolean;
  /** Since its last heartbeat. */
  readonly agoMs: number;
}

async function readGateways(ctx: Context): Promise<readonly Beat[]> {
  const { metadata, diagnostics } = ctx;
  const rows: GatewayRow[] = [];
  for await (const row of everyGateway(metadata)) rows.push(row);
  const now = await metadata.now();
  const silentMs = silentAfterMs(metadata);
  return rows.map((row) => {
    const agoMs = Math.max(0, now - row.beatAt);
    return { ...row, agoMs, isUp: row.process === diagnostics?.name || agoMs <= silentMs };
  });
}

const withRate = ({ seconds, requests, refused, failed }: GatewayRequests) => ({
  seconds,
  requests,
  refused,
  failed,
  perSecond: Math.round((requests / seconds) * 100) / 100,
});

/** A line for each node: its processes together. */
function describeGateways(
  { diagnostics }: Pick<Context, 'diagnostics'>,
  rows: readonly Beat[],
  { workers, requests }: { readonly workers: readonly Worker[]; readonly requests: GatewayRequests },
): Reply['gateways'] {
  const nodes = Map.groupBy(rows, ({ node }) => node);
  return [...nodes].map(([node, all]) => {
    const up = all.filter(({ isUp }) => isUp);
    const [first] = (up.length === 0 ? all : up) as [Beat];
    const names = new Set(up.map(({ process }) => process));
    const leads = workers
      .filter(
        ({ process = '', generation, state }) =>
          names.has(process) && generation !== undefined && isLed(state),
      )
      .map(({ worker }) => worker);
    // This node is asked now, the others said it with their last heartbeats.
    const isOwn = diagnostics !== undefined && all.some(({ process }) => process === diagnostics.name);
    const seen = up.map((row) => row.requests);
    const sum = (of: keyof GatewayRequests) => seen.reduce((total, each) => total + each[of], 0);
    const counted = {
      seconds: Math.max(60, ...seen.map(({ seconds }) => seconds)),
      requests: sum('requests'),
      refused: sum('refused'),
      failed: sum('failed'),
    };
    return {
      host: node.split(' ')[0] ?? '',
      address: first.address,
      state: up.length === 0 ? 'silent' : 'up',
      version: first.version,
      runtime: first.runtime,
      startedAt: new Date(first.startedAt).toISOString(),
      beatAt: new Date(Math.max(...all.map(({ beatAt }) => beatAt))).toISOString(),
      uptimeSeconds: Math.floor((first.uptimeMs + (first.isUp ? first.agoMs : 0)) / 1000),
      processes: first.processes,
      processesUp: up.length,
      leads,
      requests: withRate(isOwn ? requests : counted),
    };
  });
}

const isLed = (state: Worker['state']): boolean => !/^(?:stopped|silent|paused|never-ran)$/.test(state);

const hasWork = ({ state, progress }: Worker): boolean =>
  state === 'failing' || state === 'silent' || state === 'busy' || (progress?.backlog ?? 0) > 0;

const describeWork = ({ worker, state, progress }: Worker) => ({
  worker,
  state,
  of: progress?.of,
  left: progress?.backlog,
  isLeftCut: progress?.isBacklogCut,
  perSecond: progress?.perSecond,
  oldestSeconds: progress?.oldestSeconds,
  etaSeconds: progress?.etaSeconds,
});

async function readRequests(ctx: Context): Promise<Reply['requests']> {
  const { minutes, processes } = await readNodeMinutes(ctx, 2);
  const { durations, ...counts } = sumCounts(minutes.map(([, counters]) => counters));
  const { seconds } = lastMinute(ctx.caches.of(RequestHistory), ctx.clock.now());
  return {
    ...withRate({ ...counts, seconds }),
    processes,
    p50Ms: roundMs(percentileMs(durations, 0.5)),
    p99Ms: roundMs(percentileMs(durations, 0.99)),
  };
}
