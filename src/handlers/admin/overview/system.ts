/** What operators learn about the process that answers, and about leases and deletions of the installation. */
import { inParallel } from '../../../base/in-parallel.ts';
import { showSetting, textsOfConfig } from '../../../config/read/read-config.ts';
import { workerNames } from '../../../config/values/workers.ts';
import { gcBacklog } from '../../../domain/storage/clusters/gc-backlog.ts';
import { findLease, leaderLease, mendingLease, slotLease } from '../../../metadata/background/leases.ts';
import { queueSlots } from '../../../metadata/background/queues.ts';
import { bucketSlots } from '../../../metadata/buckets/buckets.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

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
      const { value, default: fallback, ...shown } = showSetting(found);
      return {
        ...shown,
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
  mendingLease,
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
