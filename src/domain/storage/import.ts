/**
 * Makes an index of the objects in an existing upstream bucket, without copying a byte (`sluice import`,
 * docs/adr/0015-import-of-upstream-objects.md). The position is saved, so that a run resumes after a kill.
 */
import { inParallel } from '../../base/concurrency.ts';
import { type ErrorCode, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findReleased } from '../../metadata/background/queues.ts';
import { findSoundTask, putTask, type Task, type TaskKind } from '../../metadata/background/tasks.ts';
import { findHead } from '../../metadata/objects/objects.ts';
import {
  type BucketRow,
  checkColumns,
  type Lock,
  type ObjectHeaders,
  type ObjectRow,
} from '../../metadata/tables.ts';
import { MetadataDamaged, RowTooLong } from '../../ports/metadata-store.ts';
import {
  DataUnavailable,
  type Extent,
  type UnmanagedDetails,
  type UnmanagedObject,
} from '../../ports/object-bytes.ts';
import { mayBeEmptied } from '../clusters/cluster-states.ts';
import { inlineExtents } from '../common/garbage.ts';
import { drawId, drawVersion } from '../common/ids.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { changeKey } from '../objects/commit-version.ts';
import { lockAtWrite } from '../objects/object-lock.ts';
import { planNewVersion } from '../objects/versions.ts';

export type ImportCounts = Readonly<Record<ImportResult, number>>;

interface ImportState {
  /** Every key up to this one was processed; '' at the beginning. */
  readonly after: string;
  readonly counts: ImportCounts;
  /** Store time (ms). Absent in rows of an earlier release. */
  readonly startedAt?: number;
  /** Store time (ms); absent while the run is not finished. */
  readonly finishedAt?: number;
}
export const importRuns: TaskKind<ImportState> = { kind: 'import' };

const measureImport = (
  { startedAt = 0, finishedAt, counts }: ImportState,
  { bucket, cluster }: Pick<ImportRun, 'bucket' | 'cluster'>,
): Measure => ({
  bucket: bucket.name,
  cluster,
  startedAt,
  finishedAt,
  done: { count: Object.values(counts).reduce((sum, count) => sum + count, 0) },
});

const begin: ImportState = {
  after: '',
  counts: { imported: 0, replaced: 0, changed: 0, present: 0, released: 0, skipped: 0, failed: 0 },
};

export interface ImportRun extends ImportOptions {
  /** Objects a second, at most. */
  readonly rate: number;
  /** Called after each batch whose position was saved. */
  readonly progress: (state: ImportState) => void;
  /** Called for each object that changed upstream since it was imported. */
  readonly changed: (key: string) => void;
  /** Called for each object that could not be imported. */
  readonly failed: (key: string, why: string) => void;
}

/** Keys of one page of the listing, which bounds what a run holds in memory. */
const listedMax = 1_000;
/** Objects between two saved positions; after a kill at most this many are read and committed again. */
const batchMax = 100;
const parallelMax = 8;
/**
 * A position that no run has saved for so long is forgotten, also where its bucket was deleted. A later run begins
 * again, which is safe.
 */
const retentionMs = 30 * 24 * 60 * 60 * 1000;

/** @returns the counts of the whole run, those of the part before a kill included */
export async function importBucket(ctx: Ctx, run: ImportRun): Promise<ImportCounts> {
  const name = `${run.bucket.id}/${run.cluster}`;
  const former = await findSoundTask(ctx.metadata, importRuns, name);
  const startedAt = await ctx.metadata.now();
  let state: ImportState =
    former === undefined || former.state.finishedAt !== undefined ? { ...begin, startedAt } : former.state;
  const keep = async (next: ImportState): Promise<void> => {
    state = { startedAt: state.startedAt ?? startedAt, ...next };
    await savePosition(ctx, run, { name, state });
    run.progress(state);
  };
  for (let isLast = false, token: string | undefined; !isLast; ) {
    const page = await list(ctx, run, { after: state.after, token });
    const { objects, skipped, unreadable, last } = page;
    isLast = last === undefined;
    token = page.token;
    for (let from = 0; from < objects.length; from += batchMax) {
      const batch = objects.slice(from, from + batchMax);
      const counts = await importBatch(ctx, run, { batch, counts: state.counts });
      await keep({ after: batch.at(-1)?.key ?? state.after, counts });
    }
    for (const key of unreadable) run.failed(key, 'the key is no UTF-8');
    const former = { ...begin.counts, ...state.counts };
    const counts = {
      ...former,
      skipped: former.skipped + skipped,
      failed: former.failed + unreadable.length,
    };
    await keep({ after: last ?? state.after, counts });
  }
  await keep({ ...state, finishedAt: await ctx.metadata.now() });
  return state.counts;
}

async function list(
  ctx: Ctx,
  { cluster, signal }: ImportRun,
  page: { readonly after: string; readonly token: string | undefined },
) {
  signal.throwIfAborted();
  const { foreign: unmanaged } = ctx.bytes;
  if (unmanaged === undefined) throw new Error('this data backend has no objects but those of the gateway');
  return unmanaged.list(cluster, { ...page, max: listedMax, signal });
}

async function importBatch(
  ctx: Ctx,
  run: ImportRun,
  { batch, counts }: { readonly batch: readonly UnmanagedObject[]; readonly counts: ImportCounts },
): Promise<ImportCounts> {
  const { rate, signal } = run;
  const earliest = ctx.clock.elapsed() + (batch.length * 1000) / rate;
  const results = await inParallel(parallelMax, batch, async (object) => {
    signal.throwIfAborted();
    const result = await importObject(ctx, object, run);
    if (result === 'changed') run.changed(object.key);
    if (typeof result === 'string') return result;
    run.failed(object.key, result.failed);
    return 'failed';
  });
  const left = earliest - ctx.clock.elapsed();
  if (left > 0) await ctx.clock.sleep(left, signal);
  // A row of an earlier release has no `failed`.
  const next = { ...begin.counts, ...counts };
  for (const result of results) next[result] += 1;
  return next;
}

/**
 * Of two concurrent runs one position is lost. Either position is correct: every key before it was handled, so a run that
 * starts there misses nothing.
 */
async function savePosition(
  ctx: Ctx,
  run: ImportRun,
  { name, state }: { readonly name: string; readonly state: ImportState },
): Promise<void> {
  const found: Task<ImportState> | undefined = await findSoundTask(ctx.metadata, importRuns, name);
  const now = await ctx.metadata.now();
  const progress = advanceProgress(found?.progress, measureImport(state, run), now);
  const expect = found?.revision ?? 'absent';
  await putTask(ctx.metadata, importRuns, { name, state, progress, expect, expiresAt: now + retentionMs });
}

// Makes a row for one existing upstream object. Safe to repeat: it does not change a key that has a head.

type Ctx = Pick<Context, 'caches' | 'metadata' | 'bytes' | 'clusterStates' | 'clock' | 'random' | 'config'>;

/**
 * - `imported`: the key had no version and has one now.
 * - `replaced`: the version of an earlier import named a former content of the upstream object; it names the present one now.
 * - `changed`: the same, but the run does not replace; a read of the version is refused.
 * - `present`: the key has a version or a delete marker, which stays as it is.
 * - `released`: a client deleted or replaced the version that an earlier import made from this content.
 * - `skipped`: the object is gone, or another gateway stored it.
 * - `failed`: the upstream refuses to describe the object, it is larger than the bucket takes, its key or headers do not fit into a row, or
 * the gateway refuses it for another reason. The others are imported all the same.
 */
type ImportResult = 'imported' | 'replaced' | 'changed' | 'present' | 'released' | 'skipped' | 'failed';
type ObjectResult = Exclude<ImportResult, 'failed'> | { readonly failed: string };

interface ImportOptions {
  readonly bucket: BucketRow;
  readonly cluster: string;
  /** Reads the headers of each object. */
  readonly headers: boolean;
  /** Replaces the version of an earlier import whose upstream object changed since. */
  readonly again: boolean;
  readonly signal: AbortSignal;
}

/** Recorded in place of a request id. */
const requestId = 'import';
/** The same limit as for keys that clients write (public API). */
const keyBytesMax = 1024;
/** Keeps the row of an object small. */
const headerBytesMax = 8192;

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

async function importObject(
  ctx: Ctx,
  listed: UnmanagedObject,
  options: ImportOptions,
): Promise<ObjectResult> {
  try {
    return await importSound(ctx, listed, options);
  } catch (cause) {
    const isOfObject =
      cause instanceof MetadataDamaged ||
      cause instanceof RowTooLong ||
      (cause instanceof Refusal && !endsRun.has(cause.code));
    if (!isOfObject) throw cause;
    return { failed: cause.message };
  }
}

/** Refusals that are not about one object. */
const endsRun: ReadonlySet<ErrorCode> = new Set([
  'QuotaExceeded',
  'NoSuchBucket',
  'OperationAborted',
  'ServiceUnavailable',
]);

/** @throws DataUnavailable where the upstream is away, QuotaExceeded where the bucket is full: a later run continues */
async function importSound(ctx: Ctx, listed: UnmanagedObject, options: ImportOptions): Promise<ObjectResult> {
  const { bucket, cluster, again } = options;
  const { key, size } = listed;
  if (key === '' || key.includes('\0') || !key.isWellFormed() || byteLength(key) > keyBytesMax)
    return { failed: `a key has 1 to ${keyBytesMax} bytes of UTF-8 without NUL` };
  // Check the head before calling the upstream, because in a second run most keys have a version.
  const seen = await findHead(ctx.metadata, bucket, key);
  const standing = standingFor(seen?.row, listed, { cluster, again });
  if (standing !== undefined) return standing;
  const allowed = bucket.quota?.maxBytesPerObject ?? 0;
  if (allowed > 0 && size > allowed)
    return { failed: `it has ${size} bytes, and maxBytesPerObject of the bucket is ${allowed}` };
  const described = await describe(ctx, listed, options);
  if (described === undefined) return 'skipped';
  if (described instanceof Error) return { failed: described.message };
  // A listing has the time in milliseconds, a header in seconds.
  const details = described.etag === listed.etag ? { ...described, modified: listed.modified } : described;
  const headers = toObjectHeaders(details);
  if (byteLength(JSON.stringify(headers)) > headerBytesMax)
    return { failed: `its headers have more than ${headerBytesMax} bytes` };
  return commitImport(ctx, { details, headers }, options);
}

/** @returns an error that is about this object alone; undefined where the object is gone */
async function describe(
  { bytes }: Ctx,
  listed: UnmanagedObject,
  { cluster, headers, signal }: ImportOptions,
): Promise<UnmanagedDetails | Error | undefined> {
  if (!headers) return { ...listed, system: {}, user: {} };
  try {
    return await bytes.foreign?.describe(cluster, listed.key, signal);
  } catch (cause) {
    if (signal.aborted || cause instanceof DataUnavailable || !(cause instanceof Error)) throw cause;
    return cause;
  }
}

/** The result for a key that has a head; undefined when a row must be created. */
function standingFor(
  head: ObjectRow | undefined,
  { key, etag }: UnmanagedObject,
  { cluster, again }: Pick<ImportOptions, 'cluster' | 'again'>,
): 'present' | 'changed' | undefined {
  if (head === undefined) return undefined;
  const own = inlineExtents(head.manifest).find(
    (extent) => extent.cluster === cluster && extent.foreign?.key === key,
  );
  if (own === undefined || own.foreign?.etag === etag) return 'present';
  return again ? undefined : 'changed';
}

async function commitImport(
  ctx: Ctx,
  { details, headers }: { readonly details: UnmanagedDetails; readonly headers: ObjectHeaders },
  { bucket, cluster, again }: ImportOptions,
): Promise<ObjectResult> {
  const { key, size, etag, modified } = details;
  const id = `import-${drawId(ctx.random)}`;
  let result: ObjectResult = 'present';
  await changeKey(ctx, {
    bucket,
    key,
    requestId,
    id,
    async decide({ bucket: now, head, oldNull }) {
      const standing = standingFor(head?.row, details, { cluster, again });
      result = standing ?? (head === undefined ? 'imported' : 'replaced');
      if (standing !== undefined) return undefined;
      // Read the release after the head, because one commit removes the version and records the release.
      const released = await findReleased(ctx.metadata, now.id, { key, cluster });
      if (head === undefined && released?.etag === etag) {
        result = 'released';
        return undefined;
      }
      // An operator may remove such a cluster from the settings, because no row named it.
      if (await mayBeEmptied(ctx, cluster))
        throw new Error(`${cluster} was drained, and is empty: undrain it first, so that it is not removed`);
      const extent: Extent = { cluster, id, size, foreign: { key, etag } };
      const lock: Lock | undefined = now.objectLock ? await lockAtWrite(ctx, now, undefined) : undefined;
      const fresh = checkColumns('import', {
        bucketId: now.id,
        key,
        marker: false,
        modified,
        size,
        etag,
        storageClass: now.defaultClass ?? 'STANDARD',
        // The extent names the upstream object, even where that has no bytes.
        manifest: { extents: [extent] },
        headers,
        owner: now.owner,
        requestId,
        conditional: true,
        ...(lock === undefined ? {} : { lock }),
      });
      return planNewVersion(now, head, oldNull, { fresh, version: drawVersion(ctx, head?.row.version) });
    },
  });
  return result;
}

const toObjectHeaders = ({ system, user }: UnmanagedDetails): ObjectHeaders => ({
  ...(Object.keys(system).length === 0 ? {} : { system }),
  ...(Object.keys(user).length === 0 ? {} : { user }),
});
