/** Storage: its health and engines; fsck, scrub and the wrapping of keys: state, and start on request. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { classSnapshot } from '../../domain/buckets/class-stats.ts';
import {
  countSlotsSeen,
  fromTheStart,
  fsckSlots,
  type SavedRun,
  savedRun,
  saveRun,
} from '../../domain/fsck/fsck.ts';
import { scrubRate } from '../../domain/scrub/budget.ts';
import {
  type DamagedContent,
  damagedContents,
  knownDamaged,
  nextRun,
  oldestUncheckedMs,
  type ScrubRun,
  savedScrub,
  saveStep,
} from '../../domain/scrub/saved-scrub.ts';
import { beginRewrapping, findRewrapping, type Rewrapping } from '../../domain/storage/rewrap.ts';
import {
  type DataReport,
  historyMs,
  type MetadataReport,
  probeData,
  probeMetadata,
  probeStorage,
  readHealthHistory,
} from '../../domain/storage/storage-health.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type AdminHandler, jsonReply, runState, seconds } from './call.ts';

// The state of the background comparison of metadata and data (fsck), and its start on request.

export const GetFsck: AdminHandler<'GetFsck'> = async (ctx) => {
  const run = await savedRun(ctx, 'worker');
  if (run === undefined) throw fail('NotFound', 'No fsck run is recorded.');
  return jsonReply(runJson(run));
};

/** Does not disturb a run that is under way. */
export const StartFsck: AdminHandler<'StartFsck'> = async (ctx, { body }) => {
  const { fix = ctx.config.SVC_FSCK_FIX, deep = false } = body;
  const last = await savedRun(ctx, 'worker');
  if (last !== undefined && last.finishedAt === undefined) return jsonReply(runJson(last), 202);
  const run = { state: fromTheStart({ fix, drop: false, deep }), startedAt: await ctx.metadata.now() };
  await saveRun(ctx, 'worker', run);
  return jsonReply(runJson(run), 202);
};

const runJson = ({ state, state: { mode, position, seen }, startedAt, finishedAt }: SavedRun) => ({
  state: runState(finishedAt),
  fix: mode.fix,
  deep: mode.deep ?? false,
  ...(finishedAt === undefined ? { at: position.at } : {}),
  slotsSeen: countSlotsSeen(state),
  slots: fsckSlots,
  ...seen,
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});

// The state of the scrub and the damage that it found, and its start on request.

export const GetScrub: AdminHandler<'GetScrub'> = async (ctx) => {
  const saved = await savedScrub(ctx);
  if (saved === undefined) throw fail('NotFound', 'No scrub run is recorded.');
  const damaged: ReturnType<typeof damagedJson>[] = [];
  for await (const { state } of damagedContents(ctx)) damaged.push(damagedJson(state));
  return jsonReply({ ...(await scrubJson(ctx, saved.state)), damagedList: damaged });
};

/** Does not disturb a pass that is under way. */
export const StartScrub: AdminHandler<'StartScrub'> = async (ctx) => {
  if (scrubRate(ctx.config) === 0)
    throw fail('InvalidRequest', 'SVC_SCRUB_RATE is 0 here, or unset on upstream-store: no scrub runs.');
  const former = await savedScrub(ctx);
  if (former !== undefined && former.state.finishedAt === undefined)
    return jsonReply(await scrubJson(ctx, former.state), 202);
  const run = nextRun(former?.state, await ctx.metadata.now());
  // If two passes begin at the same time, the one that is saved first counts.
  const isBegun = (await saveStep(ctx, { run, former })) !== undefined;
  return jsonReply(await scrubJson(ctx, isBegun ? run : ((await savedScrub(ctx))?.state ?? run)), 202);
};

async function scrubJson({ metadata }: Pick<Context, 'metadata'>, run: ScrubRun) {
  const { startedAt, finishedAt, completeFrom, position, seen } = run;
  return {
    state: runState(finishedAt),
    ...(finishedAt === undefined ? { position } : {}),
    ...seen,
    damaged: knownDamaged(run),
    oldestUncheckedSeconds: seconds(oldestUncheckedMs(run, await metadata.now())),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
    ...(completeFrom === undefined ? {} : { completeFrom: seconds(completeFrom) }),
  };
}

const damagedJson = ({ foundAt, pass: _, ...found }: DamagedContent) => ({
  ...found,
  foundAt: seconds(foundAt),
});

// Wrapping stored keys again under the current version of their wrapping key, and how far that is.

export const RewrapKeys: AdminHandler<'RewrapKeys'> = async (ctx, { record, requestId }) =>
  jsonReply(rewrappingJson(await beginRewrapping(ctx, { record, requestId })), 202);

export const GetRewrapKeys: AdminHandler<'GetRewrapKeys'> = async (ctx) => {
  const found = await findRewrapping(ctx);
  if (found === undefined) throw fail('NotFound', 'There is no recent request to wrap keys again.');
  return jsonReply(rewrappingJson(found.state));
};

const rewrappingJson = ({ bucket, counts, lastFailure, startedAt, finishedAt }: Rewrapping) => ({
  state: runState(finishedAt),
  ...counts,
  ...(bucket === undefined ? {} : { bucket: bucket.name }),
  ...(lastFailure === undefined ? {} : { lastFailure }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});

// The health of storage, for the console and for operators.

export const GetStorageMeta: AdminHandler<'GetStorageMeta'> = async (ctx) =>
  jsonReply(metadataJson(await probeMetadata(ctx)));
export const GetStorageData: AdminHandler<'GetStorageData'> = async (ctx) =>
  jsonReply(dataJson(await probeData(ctx)));

const metadataJson = ({ backend, nodes, replicationFactor, warnings }: MetadataReport) => ({
  backend,
  // The specification has no sizes here: GetStatus shows them.
  nodes: nodes.map(({ usedBytes: _, freeBytes: __, sizeUnknown: ___, ...node }) => node),
  ...(replicationFactor === undefined ? {} : { replicationFactor }),
  warnings,
});

const dataJson = ({ backend, clusters, pools, warnings }: DataReport) => ({
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
