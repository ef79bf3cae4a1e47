/**
 * The lines of one access log object, named before the object is written. The rows of a batch and the object's key are stored first.
 * The commit of the object removes the batch's first row from the queue, so a leader that finds a batch knows whether its object was
 * committed. Then the other rows are removed, then the batch. So a kill at any point writes no line twice and loses none.
 */
import type { MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { AccessLogTask, HourlyRow } from '../records/queues.ts';
import { soundPages, undefinedIfDamaged } from '../sound-rows.ts';
import { hourAt } from './hourly-queues.ts';
import { LeaseLost } from './leases.ts';
import {
  beginTerm,
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  putTasks,
  type TaskKind,
  type Term,
} from './tasks.ts';

/** A line of the queue, by its place in its hour. */
export interface LogLine {
  readonly due: number;
  readonly id: string;
}

export interface LogBatch {
  readonly id: string;
  /** Where the rows are: the lines of a batch are in one slot of one hour. */
  readonly slot: number;
  readonly hour: number;
  readonly bucketId: string;
  readonly bucket: string;
  readonly account: string;
  readonly region: string;
  readonly target: AccessLogTask['target'];
  /** The key of the object. */
  readonly key: string;
  readonly first: LogLine;
  readonly lines: number;
}

type Parts = readonly string[];
/** One partition, so that the term of the leader guards all of it. */
const kind = 'access-log';
const batches: TaskKind<LogBatch> = { kind };
const parts: TaskKind<Parts> = { kind };
const everything: TaskKind<LogBatch | Parts> = { kind };

const batchName = (id: string): string => `batch/${id}`;
const partPrefix = 'lines/';
const partName = (id: string, n: number): string => `${partPrefix}${id}/${String(n).padStart(4, '0')}`;

/** Names of lines in one row of `tasks`, which takes 24 KiB. */
const namesMax = 300;
/** The largest number of lines of a batch. */
export const batchLinesMax = 5_000;
/** Rows that one call removes. */
const removalsMax = 64;

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'apply'>;

const rowsAt = ({ slot, hour }: Pick<LogBatch, 'slot' | 'hour'>) =>
  hourAt({ queue: 'access-log', slot, hour });

/** After it returns, no earlier leader can store a batch. @throws LeaseLost */
export const beginLogs = (metadata: Metadata, generation: number): Promise<Term> =>
  beginTerm(metadata, batches, generation);

const nameLine = ({ due, id }: LogLine): string => `${due} ${id}`;
const readLine = (name: string): LogLine => {
  const space = name.indexOf(' ');
  return { due: Number(name.slice(0, space)), id: name.slice(space + 1) };
};

/** Stores a batch: first the names of its lines, then the batch itself. @throws LeaseLost */
export async function storeBatch(
  metadata: Metadata,
  batch: LogBatch,
  { lines, term }: { readonly lines: readonly LogLine[]; readonly term: Term },
): Promise<void> {
  const put = async (name: string, state: LogBatch | Parts): Promise<void> => {
    const outcome = await putTask(metadata, everything, { name, state, expect: 'absent', term });
    if (!outcome.applied) throw new LeaseLost(kind, term.generation);
  };
  for (let n = 0; n * namesMax < lines.length; n += 1)
    await put(partName(batch.id, n), lines.slice(n * namesMax, (n + 1) * namesMax).map(nameLine));
  await put(batchName(batch.id), batch);
}

/** The batches that an earlier run left; removes names of lines that belong to no batch. */
export async function leftBatches(metadata: Metadata, term: Term): Promise<readonly LogBatch[]> {
  const found: LogBatch[] = [];
  const strays: string[] = [];
  const ids = new Set<string>();
  // Batches sort before the names of their lines.
  for await (const { name, state } of everyTask(metadata, everything)) {
    if (!name.startsWith(partPrefix)) {
      const batch = state as LogBatch;
      found.push(batch);
      ids.add(batch.id);
    } else if (!ids.has(name.slice(partPrefix.length, name.lastIndexOf('/')))) strays.push(name);
  }
  for (const name of strays) await removeTask(metadata, name, term);
  return found;
}

async function removeTask(metadata: Metadata, name: string, term: Term): Promise<void> {
  const found = await findSoundTask(metadata, everything, name);
  if (found === undefined) return;
  const changes = [{ remove: { name }, expect: found.revision }];
  const outcome = await putTasks(metadata, everything, { changes, term });
  if (!outcome.applied) throw new LeaseLost(kind, term.generation);
}

/** Whether the object of the batch is not committed. A later removal by the queue's retention counts as committed. */
export const isOpenBatch = async (metadata: Metadata, batch: LogBatch): Promise<boolean> =>
  (await metadata.get(rowsAt(batch), batch.first)) !== undefined;

/** For the commit of the object. */
export const closesBatch = (batch: LogBatch): SideChange => ({ at: rowsAt(batch), remove: batch.first });

/**
 * The names of the batch's lines, in order. Lines whose names are damaged stay in the queue and come with a later batch, so those of an
 * object that is committed are delivered twice.
 */
async function batchLines(metadata: Metadata, batch: LogBatch): Promise<readonly LogLine[]> {
  const names: string[] = [];
  for (let n = 0; n * namesMax < batch.lines; n += 1)
    names.push(
      ...((await findTask(metadata, parts, partName(batch.id, n)).catch(undefinedIfDamaged))?.state ?? []),
    );
  return names.map(readLine);
}

/** The texts of the batch's lines, in order. */
export async function readBatch(metadata: Metadata, batch: LogBatch): Promise<readonly string[]> {
  const unread = new Set((await batchLines(metadata, batch)).map(nameLine));
  const texts: string[] = [];
  const cursor = metadata.scan(rowsAt(batch), { from: { ...batch.first } });
  // A line that was damaged after it entered the batch is lost: the others are delivered without it.
  for await (const page of soundPages(cursor, 500)) {
    for (const { row } of page) if (unread.delete(nameLine(row))) texts.push(logLine(row));
    if (unread.size === 0) break;
  }
  return texts;
}

export const accessLogTask = (row: Pick<HourlyRow, 'task'>): AccessLogTask => row.task as AccessLogTask;
const logLine = (row: HourlyRow): string => accessLogTask(row).line;

/** Removes the lines of a batch whose object is committed, and the batch. */
export async function finishBatch(metadata: Metadata, batch: LogBatch, term: Term): Promise<void> {
  const lines = await batchLines(metadata, batch);
  for (let n = 0; n < lines.length; n += removalsMax)
    await metadata.apply(
      lines.slice(n, n + removalsMax).map(({ due, id }) => ({ at: rowsAt(batch), remove: { due, id } })),
    );
  await dropBatch(metadata, batch, term);
}

/** Forgets a batch; the lines that are left stay in the queue. */
export async function dropBatch(metadata: Metadata, batch: LogBatch, term: Term): Promise<void> {
  await removeTask(metadata, batchName(batch.id), term);
  for (let n = 0; n * namesMax < batch.lines; n += 1) await removeTask(metadata, partName(batch.id, n), term);
}
