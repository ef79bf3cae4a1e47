/** The health of storage, for the console and for operators. */
import type { Context } from '../../context.ts';
import { classSnapshot } from '../../domain/buckets/class-stats.ts';
import { historyMs, readHealthHistory } from '../../domain/storage/health-history.ts';
import {
  type DataReport,
  type MetadataReport,
  probeData,
  probeMetadata,
  probeStorage,
} from '../../domain/storage/storage-health.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import { type AdminHandler, jsonReply } from './call.ts';

export const GetStorageMeta: AdminHandler<'GetStorageMeta'> = async (ctx) =>
  jsonReply(shownMetadata(await probeMetadata(ctx)));
export const GetStorageData: AdminHandler<'GetStorageData'> = async (ctx) =>
  jsonReply(shownData(await probeData(ctx)));

const shownMetadata = ({ backend, nodes, replicationFactor, warnings }: MetadataReport) => ({
  backend,
  // The specification has no sizes here: GetStatus shows them.
  nodes: nodes.map(({ usedBytes: _, freeBytes: __, sizeUnknown: ___, ...node }) => node),
  ...(replicationFactor === undefined ? {} : { replicationFactor }),
  warnings,
});

const shownData = ({ backend, clusters, pools, warnings }: DataReport) => ({
  backend,
  clusters,
  pools: pools.map(({ bytesUsed, chunkCount, bytesFree, ...pool }) => ({
    ...pool,
    BytesUsed: bytesUsed,
    ChunkCount: chunkCount,
    ...(bytesFree === undefined ? {} : { BytesFree: bytesFree }),
  })),
  warnings,
});

export const GetStorageClasses: AdminHandler<'GetStorageClasses'> = async (ctx) => {
  const snapshot = await classSnapshot(ctx);
  return jsonReply({
    classes: snapshot?.classes ?? [],
    pools_by_class: poolsByClass(ctx.config),
    ...(snapshot === undefined ? {} : { sampledAt: Math.floor(snapshot.sampledAt / 1000) }),
  });
};

export const GetStorageHealth: AdminHandler<'GetStorageHealth'> = async (ctx) => {
  const overridden = readOverride(ctx);
  if (overridden !== undefined) return overridden;
  return jsonReply(await probeStorage(ctx));
};

export const GetHealthHistory: AdminHandler<'GetHealthHistory'> = async (ctx) => {
  const history = await readHealthHistory(ctx);
  const until = new Date(history?.now ?? ctx.clock.now()).toISOString();
  const [first] = history?.changes ?? [];
  if (history === undefined || first === undefined) return jsonReply({ until, changes: [], isCut: false });
  const { changes, isCut = false, now } = history;
  return jsonReply({
    since: new Date(Math.max(now - historyMs, first.at)).toISOString(),
    until,
    changes: changes.map(({ at, ...change }) => ({ at: new Date(at).toISOString(), ...change })),
    isCut,
  });
};

/** As configured: only clusters with pools have pool names, other backends have none. */
const poolsByClass = ({ SVC_STORAGE_CLASSES }: Context['config']): Readonly<Record<string, string>> =>
  Object.fromEntries(
    SVC_STORAGE_CLASSES.flatMap(({ storageClass, pool }) =>
      pool === undefined ? [] : [[storageClass, pool]],
    ),
  );

/** The value of SVC_STORAGE_HEALTH_OVERRIDE, unchanged; a text that is not JSON is ignored. */
function readOverride({ config, telemetry }: Context): Reply | undefined {
  const text = config.SVC_STORAGE_HEALTH_OVERRIDE;
  if (text === undefined) return undefined;
  try {
    JSON.parse(text);
  } catch (cause) {
    telemetry.log('WARN', 'SVC_STORAGE_HEALTH_OVERRIDE is no JSON; the live probe is used', { cause });
    return undefined;
  }
  return { ...jsonReply(undefined), body: text };
}
