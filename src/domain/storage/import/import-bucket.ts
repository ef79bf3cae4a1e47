/**
 * Makes an index of the objects in an existing upstream bucket, without copying a byte (`sluice import`,
 * docs/adr/0015-import-of-upstream-objects.md). The position is saved, so that a run resumes after a kill.
 */

import { inParallel } from '../../../base/in-parallel.ts';
import { findTask, putTask, type Task, type TaskKind } from '../../../metadata/background/tasks.ts';
import type { ForeignObject } from '../../../ports/storage/object-bytes.ts';
import { advanceProgress, type Measure } from '../../tasks/progress.ts';
import { type Ctx, type ImportOptions, type ImportResult, importObject } from './import-object.ts';

export type ImportCounts = Readonly<Record<ImportResult, number>>;

export interface ImportState {
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
  counts: { imported: 0, replaced: 0, changed: 0, present: 0, released: 0, skipped: 0 },
};

export interface ImportRun extends ImportOptions {
  /** Objects a second, at most. */
  readonly rate: number;
  /** Called after each batch whose position was saved. */
  readonly progress: (state: ImportState) => void;
  /** Called for each object that changed upstream since it was imported. */
  readonly changed: (key: string) => void;
}

/** Keys of one page of the listing, which bounds what a run holds in memory. */
const listedMax = 1_000;
/** Objects between two saved positions; after a kill at most this many are read and committed again. */
const batchMax = 100;
const parallelMax = 8;

/** @returns the counts of the whole run, those of the part before a kill included */
export async function importBucket(ctx: Ctx, run: ImportRun): Promise<ImportCounts> {
  const name = `${run.bucket.id}/${run.cluster}`;
  const former = await findTask(ctx.metadata, importRuns, name);
  const startedAt = await ctx.metadata.now();
  let state: ImportState =
    former === undefined || former.state.finishedAt !== undefined ? { ...begin, startedAt } : former.state;
  const keep = async (next: ImportState): Promise<void> => {
    state = { startedAt: state.startedAt ?? startedAt, ...next };
    await savePosition(ctx, run, { name, state });
    run.progress(state);
  };
  for (let isLast = false; !isLast; ) {
    const { objects, skipped, last } = await list(ctx, run, state.after);
    isLast = last === undefined;
    for (let from = 0; from < objects.length; from += batchMax) {
      const batch = objects.slice(from, from + batchMax);
      const counts = await importBatch(ctx, run, { batch, counts: state.counts });
      await keep({ after: batch.at(-1)?.key ?? state.after, counts });
    }
    const counts = { ...state.counts, skipped: state.counts.skipped + skipped };
    await keep({ after: last ?? state.after, counts });
  }
  await keep({ ...state, finishedAt: await ctx.metadata.now() });
  return state.counts;
}

async function list(ctx: Ctx, { cluster, signal }: ImportRun, after: string) {
  signal.throwIfAborted();
  const { foreign } = ctx.bytes;
  if (foreign === undefined) throw new Error('this data backend has no objects but those of the gateway');
  return foreign.list(cluster, { after, max: listedMax, signal });
}

async function importBatch(
  ctx: Ctx,
  run: ImportRun,
  { batch, counts }: { readonly batch: readonly ForeignObject[]; readonly counts: ImportCounts },
): Promise<ImportCounts> {
  const { rate, signal } = run;
  const earliest = ctx.clock.elapsed() + (batch.length * 1000) / rate;
  const results = await inParallel(parallelMax, batch, async (object) => {
    signal.throwIfAborted();
    const result = await importObject(ctx, object, run);
    if (result === 'changed') run.changed(object.key);
    return result;
  });
  const left = earliest - ctx.clock.elapsed();
  if (left > 0) await ctx.clock.sleep(left, signal);
  const next = { ...counts };
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
  const found: Task<ImportState> | undefined = await findTask(ctx.metadata, importRuns, name);
  const progress = advanceProgress(found?.progress, measureImport(state, run), await ctx.metadata.now());
  await putTask(ctx.metadata, importRuns, { name, state, progress, expect: found?.revision ?? 'absent' });
}
