/** The process that answers and its installation: identity, API document, key provider, log level. */
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import { showSetting, textsOfConfig } from '../../config/read-config.ts';
import { workerNames } from '../../config/workers.ts';
import { gcBacklog } from '../../domain/clusters/drains.ts';
import { findLease, leaderLease, repairLease, slotLease } from '../../metadata/background/leases.ts';
import { queueSlots } from '../../metadata/background/queues.ts';
import { bucketSlots } from '../../metadata/buckets/buckets.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import { adminOpenApi } from '../../protocol/admin/openapi.ts';
import { type AdminHandler, jsonReply, seconds } from './call.ts';

// What operators learn about the process that answers, and about leases and deletions of the installation.

export const GetVersion: AdminHandler<'GetVersion'> = async ({ version = 'unknown', config, keys }) =>
  jsonReply({
    version,
    runtime: globalThis.navigator?.userAgent ?? 'unknown',
    metadata: config.SVC_META_BACKEND,
    data: config.SVC_DATA_BACKEND,
    region: config.SVC_REGION,
    features: keys === undefined ? [] : ['key-provider'],
  });

export const ListSettings: AdminHandler<'ListSettings'> = async ({ config }) =>
  jsonReply({
    rows: textsOfConfig(config).map((found) => {
      const { value, default: fallback, ...visible } = showSetting(found);
      return {
        ...visible,
        ...(value === null ? {} : { value }),
        ...(fallback === null ? {} : { default: fallback }),
      };
    }),
  });

/** Leases that are read at the same time. */
const readsMax = 16;

/** Every lease that this build knows. */
const leaseNames: readonly string[] = [
  ...workerNames.map(leaderLease),
  ...Array.from({ length: queueSlots }, (_, slot) => slotLease('gc', slot)),
  ...Array.from({ length: bucketSlots }, (_, slot) => slotLease('rebalance', slot)),
  repairLease,
];

export const ListLeases: AdminHandler<'ListLeases'> = async ({ metadata }) => {
  const found = await inParallel(readsMax, leaseNames, (name) => findLease(metadata, name));
  const now = await metadata.now();
  return jsonReply({
    rows: found
      .filter((lease) => lease !== undefined)
      .map(({ name, holder, generation, expires }) => ({
        name,
        holder,
        generation,
        expires: new Date(expires).toISOString(),
        isHeld: expires > now,
      })),
  });
};

export const GetGcBacklog: AdminHandler<'GetGcBacklog'> = async (ctx) => {
  const { extents, oldest, elsewhere, isCut } = await gcBacklog(ctx);
  const now = await ctx.metadata.now();
  const clusters = [...new Set([...ctx.bytes.clusters, ...extents.keys()])];
  return jsonReply({
    clusters: clusters.map((cluster) => ({
      cluster,
      extents: extents.get(cluster) ?? 0,
      oldestSeconds: Math.max(0, Math.floor((now - (oldest.get(cluster) ?? now)) / 1000)),
    })),
    elsewhere,
    isCut,
  });
};

// GetOpenApi: the document that describes this API.

export const GetOpenApi: AdminHandler<'GetOpenApi'> = async () => jsonReply(adminOpenApi());

// The key provider as the process that answers sees it: whether it answers now, and its circuit breaker.

export const GetKeyProvider: AdminHandler<'GetKeyProvider'> = async ({ keys, config }) => {
  const provider = config.SVC_KEY_PROVIDER;
  if (keys === undefined || provider === undefined) return jsonReply({ provider: 'none' });
  const problem = await keys.probe?.().catch((cause: unknown) => {
    if (cause instanceof KeyFailure) return cause.message;
    throw cause;
  });
  const circuit = keys.circuit?.();
  return jsonReply({
    provider,
    state: problem === undefined ? 'ok' : 'failed',
    ...(problem === undefined ? {} : { problem }),
    ...(circuit && { circuit: circuit.isOpen ? 'open' : 'closed', failures: circuit.failures }),
    ...(circuit?.lastFailure && {
      lastFailure: { at: seconds(circuit.lastFailure.at), reason: circuit.lastFailure.message },
    }),
  });
};

// The level of the log of every process of this node, until it is restarted.

const announceMs = 5_000;

export const GetLogLevel: AdminHandler<'GetLogLevel'> = async ({ logLevel, config }) =>
  jsonReply({ level: logLevel?.get() ?? config.SVC_LOG_LEVEL });

/** `processes` is `some` where a process of the node has not confirmed it in time. */
export const PutLogLevel: AdminHandler<'PutLogLevel'> = async (
  { logLevel, siblings, telemetry },
  { body, requestId, record },
) => {
  const { level } = body;
  record?.about('log-level');
  if (logLevel === undefined)
    throw fail('NotImplemented', 'The application that embeds this gateway owns its log.');
  const before = logLevel.get();
  record?.change?.({ level: before }, { level });
  logLevel.set(level);
  const isWhole = await siblings.announce({ topic: 'log-level', about: level }, announceMs);
  // Written at the level that is always on.
  telemetry.log('ERROR', 'the level of the log was changed', { request_id: requestId, before, level });
  return jsonReply({ level, processes: isWhole ? 'all' : 'some' });
};
