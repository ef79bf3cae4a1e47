/** The state of inventories that are being written, from which they resume after a kill, and the result of the last one. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import {
  assertLeads,
  beginTerm,
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  putTasks,
  type Task,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import { everySoundBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage, sumUsage } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import {
  MetadataDamaged,
  type MetadataStore,
  type Revision,
  type SideChange,
} from '../../ports/metadata-store.ts';
import { isAhead } from '../common/clock-skew.ts';
import { passOverDamage, unlessDamaged } from '../common/damaged-buckets.ts';
import { drawId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketInventories, findInventory, type Inventory } from '../configurations/inventory.ts';
import type { InventoryPlace } from './rows.ts';

export interface InventoryRun {
  readonly bucketId: string;
  readonly bucket: string;
  /** The configuration when the run began. */
  readonly inventory: Inventory;
  /** Store time (ms): the instant that the manifest states. */
  readonly startedAt: number;
  /** The prefix of the names of its data files. */
  readonly fileId: string;
  /** Data files that are written, and their rows. */
  readonly files: number;
  readonly rows: number;
  readonly after?: InventoryPlace;
  /** All rows are in data files: the manifest is next. */
  readonly isListed?: true;
  /** Set at the end, before the records of the run are removed: nothing is written any more. No result: it was broken off. */
  readonly ended?: { readonly result?: InventoryResult };
}

/** A data file as the manifest names it. */
export interface DataFile {
  readonly key: string;
  readonly size: number;
  readonly md5: string;
}

export interface InventoryResult {
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly rows: number;
  readonly files: number;
  /** The key of `manifest.json`; absent where the run failed. */
  readonly manifest?: string;
  readonly failure?: string;
  /** Its configuration was deleted. It is kept, because a run in its minute would replace its manifest. */
  readonly isOfDeleted?: true;
}

export const runs: TaskKind<InventoryRun> = { kind: 'inventory' };
const dataFiles: TaskKind<DataFile> = { kind: 'inventory-files' };
export const results: TaskKind<InventoryResult> = { kind: 'inventory-results' };

/** How long the last result of a configuration is kept: longer than a week, so that a weekly one is not due early. */
const resultMs = 30 * 24 * 60 * 60 * 1000;
const removedAtOnce = 32;

/** @param further rows of the data file that is being written */
const measureInventory = ({ bucket, startedAt, rows }: InventoryRun, further = 0): Measure => ({
  bucket,
  startedAt,
  done: { count: rows + further },
});

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'now'>;
type Of = Pick<InventoryRun, 'bucketId' | 'inventory'>;

const nameRun = ({ bucketId, inventory }: Of): string => `${bucketId}/${inventory.Id}`;
const nameFile = (run: Of, n: number): string => `${nameRun(run)}/${n}`;

/** After it returns, no earlier leader can save anything. @throws LeaseLost */
export const beginInventories = (metadata: Metadata, generation: number): Promise<Term> =>
  beginTerm(metadata, runs, generation);

export const everyRun = (metadata: Metadata): AsyncGenerator<Task<InventoryRun>> => everyTask(metadata, runs);

export const findRun = async (metadata: Metadata, of: Of): Promise<InventoryRun | undefined> =>
  (await findTask(metadata, runs, nameRun(of)))?.state;

const findLast = async (metadata: Metadata, of: Of): Promise<InventoryResult | undefined> =>
  (await findTask(metadata, results, nameRun(of)))?.state;

export async function findResult(metadata: Metadata, of: Of): Promise<InventoryResult | undefined> {
  const last = await findLast(metadata, of);
  return last?.isOfDeleted ? undefined : last;
}

/** An inventory that is stored under the id of a deleted one is due from the next minute on. */
export async function forgetResult(metadata: Metadata, of: Of): Promise<void> {
  const found = await findSoundTask(metadata, results, nameRun(of));
  if (found === undefined) return;
  const { name, progress, revision, state } = found;
  const expiresAt = state.finishedAt + resultMs;
  await putTask(metadata, results, {
    name,
    state: { ...state, isOfDeleted: true },
    progress,
    expect: revision,
    expiresAt,
  });
}

interface Beginning {
  readonly then: readonly SideChange[];
  /** Of a leader, which has looked whether the run is due: its successor may have ended one since. */
  readonly term: Term | undefined;
}

/** Begins a run, unless one of the configuration is under way. @returns the run that is under way then @throws LeaseLost */
async function beginRun(
  metadata: Metadata,
  run: InventoryRun,
  { then, term }: Beginning,
): Promise<{ readonly run: InventoryRun; readonly isNew: boolean }> {
  const progress = advanceProgress(undefined, measureInventory(run), run.startedAt);
  const put = () =>
    putTask(metadata, runs, { name: nameRun(run), state: run, progress, expect: 'absent', term, then });
  let outcome = await unlessDamaged(put);
  if (outcome instanceof MetadataDamaged) {
    // A run whose row is damaged begins again, under the names of a new run.
    await findSoundTask(metadata, runs, nameRun(run));
    outcome = await put();
  }
  if (outcome.applied) return { run, isNew: true };
  if (term !== undefined) await assertLeads(metadata, runs, term);
  return { run: (await findRun(metadata, run)) ?? run, isNew: false };
}

// Records of data files and results are tasks of other kinds, whose commits state no term. So a leader reads such a record, looks whether it
// still leads, and then states the revision that it has read: after a pause it replaces nothing that a successor has stored.

/** The record of the next data file as it is before the file is written: an interrupted leader may have stored the same one. */
export type FileRecord = 'absent' | Revision;
export const readFileRecord = async (metadata: Metadata, run: InventoryRun): Promise<FileRecord> =>
  (await findSoundTask(metadata, dataFiles, nameFile(run, run.files)))?.revision ?? 'absent';

/** @throws LeaseLost when a later leader has begun, or the run was changed otherwise */
export async function saveRun(
  metadata: Metadata,
  former: Task<InventoryRun>,
  {
    run,
    written,
    term,
  }: {
    readonly run: InventoryRun;
    /** `former` was read before the commit of the file, which looked whether this leader still leads. */
    readonly written?: { readonly file: DataFile; readonly former: FileRecord };
    readonly term: Term;
  },
): Promise<void> {
  if (written !== undefined) {
    const record = {
      name: nameFile(run, former.state.files),
      state: written.file,
      expect: written.former,
    };
    const stored = await putTask(metadata, dataFiles, record);
    if (!stored.applied) throw new LeaseLost(runs.kind, term.generation);
  }
  const { name, revision } = former;
  const progress = advanceProgress(former.progress, measureInventory(run), await metadata.now());
  const outcome = await putTask(metadata, runs, { name, state: run, progress, expect: revision, term });
  if (!outcome.applied) throw new LeaseLost(runs.kind, term.generation);
}

const progressMs = 1_000;

/** Saves the rows of the data file that is being written, at most once a second. @throws LeaseLost */
export async function saveRows(
  metadata: Metadata,
  former: Task<InventoryRun>,
  { rows, term }: { readonly rows: number; readonly term: Term },
): Promise<Task<InventoryRun>> {
  const now = await metadata.now();
  if (now - (former.progress?.updatedAt ?? 0) < progressMs) return former;
  const { name, state, revision } = former;
  const progress = advanceProgress(former.progress, measureInventory(state, rows), now);
  const outcome = await putTask(metadata, runs, { name, state, progress, expect: revision, term });
  if (!outcome.applied) throw new LeaseLost(runs.kind, term.generation);
  return { name, state, progress, revision: outcome.revision };
}

/** The data files of a run, in order. @throws LeaseLost where a later leader has ended the run */
export async function* filesOfRun(
  metadata: Metadata,
  run: InventoryRun,
  term: Term,
): AsyncGenerator<DataFile> {
  for (let n = 0; n < run.files; n += 1) {
    const found = await findTask(metadata, dataFiles, nameFile(run, n));
    if (found === undefined) await assertLeads(metadata, runs, term);
    if (found === undefined) throw new Error(`data file ${n} of inventory ${run.inventory.Id} has no record`);
    yield found.state;
  }
}

/** Saves that the run is over, stores the result, and removes the run and the records of its files. @throws LeaseLost */
export async function endRun(
  metadata: Metadata,
  { name, state, progress, revision }: Task<InventoryRun>,
  { result, term }: { readonly result: InventoryResult | undefined; readonly term: Term },
): Promise<void> {
  const ended: InventoryRun = { ...state, ended: result === undefined ? {} : { result } };
  const outcome = await putTask(metadata, runs, { name, state: ended, progress, expect: revision, term });
  if (!outcome.applied) throw new LeaseLost(runs.kind, term.generation);
  await forgetRun(metadata, { name, state: ended, revision: outcome.revision }, term);
}

/** The rest of `endRun`, for a run that has ended. @throws LeaseLost */
export async function forgetRun(
  metadata: Metadata,
  { name, state, revision }: Task<InventoryRun>,
  term: Term,
): Promise<void> {
  const result = state.ended?.result;
  if (result !== undefined) {
    const found = await findSoundTask(metadata, results, name);
    await assertLeads(metadata, runs, term);
    const expiresAt = result.finishedAt + resultMs;
    const expect = found?.revision ?? 'absent';
    const { finishedAt, failure } = result;
    const measure = { ...measureInventory({ ...state, rows: result.rows }), finishedAt, failure };
    const progress = advanceProgress(found?.progress, measure, finishedAt);
    await putTask(metadata, results, { name, state: result, progress, expect, expiresAt });
  }
  // One more than is known: a file may have been stored without the run.
  for (let n = 0; n <= state.files; n += removedAtOnce) await removeFiles(metadata, state, { from: n, term });
  const changes = [{ remove: { name }, expect: revision }];
  const outcome = await putTasks(metadata, runs, { changes, term });
  if (!outcome.applied) throw new LeaseLost(runs.kind, term.generation);
}

/** A later run has records of the same names. @throws LeaseLost */
async function removeFiles(
  metadata: Metadata,
  run: InventoryRun,
  { from, term }: { readonly from: number; readonly term: Term },
): Promise<void> {
  const changes: { remove: { name: string }; expect: Task<DataFile>['revision'] }[] = [];
  for (let n = from; n < Math.min(from + removedAtOnce, run.files + 1); n += 1) {
    const found = await findSoundTask(metadata, dataFiles, nameFile(run, n));
    if (found !== undefined) changes.push({ remove: { name: found.name }, expect: found.revision });
  }
  await assertLeads(metadata, runs, term);
  if (changes.length > 0) await putTasks(metadata, dataFiles, { changes });
}

// Which inventories are due: daily ones once in each UTC day, weekly ones once in each week that begins on Sunday (UTC).

type Ctx = Pick<Context, 'metadata' | 'caches' | 'random'>;
type DueCtx = Ctx & Pick<Context, 'telemetry'>;

const dayMs = 24 * 60 * 60 * 1000;
/** The first of January 1970 was a Thursday. */
const sundayOffsetMs = 4 * dayMs;
/** After a failure the destination is tried again this often. */
const retryMs = 60 * 60 * 1000;

/** The day or week of a time. */
const schedulePeriod = ({ Schedule }: Inventory, time: number): number =>
  Schedule.Frequency === 'Daily'
    ? Math.floor(time / dayMs)
    : Math.floor((time + sundayOffsetMs) / (7 * dayMs));

function isDue(inventory: Inventory, last: InventoryResult | undefined, now: number): boolean {
  if (!inventory.IsEnabled) return false;
  if (last === undefined) return true;
  if (last.isOfDeleted) return !isInMinuteOf(last, now);
  if (last.failure !== undefined) return now - last.finishedAt >= retryMs || isAhead(last.finishedAt, now);
  const periods = schedulePeriod(inventory, now) - schedulePeriod(inventory, last.startedAt);
  // A clock that steps back begins none twice. One that was further ahead has left a time that says nothing.
  return periods > 0 || periods < -1;
}

/** Begins the runs that are due in all buckets. @throws LeaseLost */
export async function beginDueInventories(
  ctx: DueCtx,
  { term, signal }: { readonly term: Term; readonly signal: AbortSignal },
): Promise<void> {
  for await (const bucket of everySoundBucket(ctx.metadata)) {
    signal.throwIfAborted();
    await passOverDamage(ctx, {
      bucket,
      left: 'the inventories of a bucket are not begun',
      run: () => beginDue(ctx, bucket, term),
    });
  }
}

async function beginDue(ctx: Ctx, name: string, term: Term): Promise<void> {
  const bucket = (await findBucket(ctx.metadata, name))?.row;
  if (bucket === undefined || bucket.documents[bucketInventories.name] === undefined) return;
  for (const inventory of (await readDocument(ctx, bucket, bucketInventories)) ?? []) {
    const last = await findLast(ctx.metadata, { bucketId: bucket.id, inventory });
    if (isDue(inventory, last, await ctx.metadata.now()))
      await beginInventory(ctx, bucket, { inventory, term });
  }
}

/**
 * Begins a run now, unless one is under way. @returns the run that is under way
 * @throws OperationAborted in the minute of the run before, because a manifest is named by the minute
 */
export async function requestInventory(
  ctx: Ctx,
  bucket: BucketRow,
  call: { readonly inventory: Inventory; readonly record: Recorder | undefined },
): Promise<InventoryRun> {
  const last = await findLast(ctx.metadata, { bucketId: bucket.id, inventory: call.inventory });
  const now = await ctx.metadata.now();
  if (last !== undefined && isInMinuteOf(last, now)) {
    const next = new Date((toMinute(now) + 1) * minuteMs).toISOString();
    throw fail(
      'OperationAborted',
      `The last run began in this minute, which names its manifest. Ask again from ${next} on.`,
    );
  }
  return beginInventory(ctx, bucket, call);
}

const minuteMs = 60_000;
const toMinute = (time: number): number => Math.floor(time / minuteMs);
/** Whether the manifest of a run that begins now would have the name of the last one's. */
const isInMinuteOf = ({ manifest, startedAt }: InventoryResult, now: number): boolean =>
  manifest !== undefined && toMinute(startedAt) === toMinute(now);

/**
 * Whether an earlier run has written the manifest of this name. Requests for both came in one minute to two gateways, and the earlier run
 * ended while the gateway of the later one stalled between its look and its commit. Each result is stored before the next run can begin.
 */
export async function isManifestWritten(metadata: Metadata, run: InventoryRun): Promise<boolean> {
  const last = await findSoundTask(metadata, results, nameRun(run));
  return last !== undefined && isInMinuteOf(last.state, run.startedAt);
}

async function beginInventory(
  ctx: Ctx,
  { id, name }: BucketRow,
  {
    inventory,
    record,
    term,
  }: {
    readonly inventory: Inventory;
    readonly record?: Recorder | undefined;
    readonly term?: Term;
  },
): Promise<InventoryRun> {
  const begun: InventoryRun = {
    bucketId: id,
    bucket: name,
    inventory,
    startedAt: await ctx.metadata.now(),
    fileId: drawId(ctx.random),
    files: 0,
    rows: 0,
  };
  const { run, isNew } = await beginRun(ctx.metadata, begun, { then: await recorded(record), term });
  if (isNew) record?.applied();
  return run;
}

/** @throws NoSuchConfiguration */
export async function openInventory(
  ctx: Pick<Context, 'metadata' | 'caches'>,
  bucket: BucketRow,
  id: string,
): Promise<Inventory> {
  const found = findInventory(await readDocument(ctx, bucket, bucketInventories), id);
  if (found === undefined) throw fail('NoSuchConfiguration');
  return found;
}

// How many rows the inventories that are being written have left, estimated from what their buckets hold.

type RowsMetadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'now'>;

/** Assumes that all versions which the bucket counts are listed: with a prefix, or without old versions, it is too much. */
export async function countLeft(
  metadata: RowsMetadata,
  { bucketId, rows, isListed }: Pick<InventoryRun, 'bucketId' | 'rows' | 'isListed'>,
): Promise<number> {
  if (isListed) return 0;
  const { count } = sumUsage((await readUsage(metadata, bucketId)).values());
  return Math.max(0, count - rows);
}

export async function countAllLeft(metadata: RowsMetadata): Promise<number> {
  let left = 0;
  for await (const { state } of everyRun(metadata)) left += await countLeft(metadata, state);
  return left;
}
