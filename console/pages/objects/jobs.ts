/**
 * Work on many objects that goes on while other pages are opened: copies, moves, deletions and their undoing, archives. Objects below a
 * prefix are listed while they are worked on, so a prefix may have any number of them.
 */

import { Unreachable } from '../../app/client.ts';
import { storage } from '../../storage/client.ts';
import { readBucketAgain } from '../../storage/queries.ts';
import { Changes, useChanges } from '../../ui/changes.ts';
import { copyObject } from './copy.ts';
import { type Entry, isObject, objectsBelow, type StoredObject } from './listing.ts';
import { type Marker, type NotDone, notDone, removeObjects } from './remove.ts';
import { saveArchive } from './zip.ts';

export interface Totals {
  readonly objects: number;
  readonly bytes: number;
}

export type JobKind = 'copy' | 'move' | 'delete' | 'undo' | 'zip';

export interface Job {
  readonly id: number;
  readonly kind: JobKind;
  readonly bucket: string;
  readonly total: Totals;
  readonly startedAt: number;
  readonly abort: AbortController;
  state: 'running' | 'done' | 'stopped' | 'failed';
  objects: number;
  bytes: number;
  /** Counted without an end; the list of them ends at `failedMax`. */
  failures: number;
  readonly failed: NotDone[];
  /** What ended the job before its end. */
  error: unknown;
  /** Of a deletion in a bucket that keeps versions; empty where there are too many to be kept. */
  markers: readonly Marker[];
  markersLeftOut: number;
}

const failedMax = 1_000;
/** Undoing a larger deletion is a task for a client that lists versions. */
const markersMax = 100_000;
const copiesAtOnce = 4;
const triesMax = 4;

let jobs: readonly Job[] = [];
let nextId = 0;
const changes = new Changes();

/** The jobs of this page, read again whenever one changes. */
export function useJobs(): readonly Job[] {
  useChanges(changes);
  return jobs;
}

export const stopJob = (job: Job): void => job.abort.abort();
export function clearJob(job: Job): void {
  jobs = jobs.filter((each) => each !== job);
  changes.publish();
}

type Pages = AsyncIterable<readonly StoredObject[]>;

/** The panel of an object is open by its address: its row was not read. */
const isUnseen = ({ etag }: StoredObject): boolean => etag === '';
async function headOf(bucket: string, object: StoredObject, signal: AbortSignal): Promise<StoredObject> {
  const { header } = await storage({ method: 'HEAD', bucket, key: object.key, signal });
  return {
    ...object,
    size: Number(header('content-length') ?? 0),
    modified: new Date(header('last-modified') ?? 0).toISOString(),
    etag: header('etag') ?? '',
  };
}

/** The chosen objects, and those below the chosen prefixes. */
export async function* objectsOf(
  bucket: string,
  entries: readonly Entry[],
  signal: AbortSignal,
): AsyncGenerator<readonly StoredObject[]> {
  yield await Promise.all(
    entries.filter(isObject).map((each) => (isUnseen(each) ? headOf(bucket, each, signal) : each)),
  );
  for (const { is, key } of entries) if (is === 'folder') yield* objectsBelow(bucket, key, signal);
}

/** How many objects and bytes are chosen. @param onCount is called with what was counted so far */
export async function measure(pages: Pages, onCount: (totals: Totals) => void): Promise<Totals> {
  let totals: Totals = { objects: 0, bytes: 0 };
  for await (const page of pages) {
    const bytes = page.reduce((sum, { size }) => sum + size, 0);
    totals = { objects: totals.objects + page.length, bytes: totals.bytes + bytes };
    onCount(totals);
  }
  return totals;
}

interface JobAsk {
  readonly bucket: string;
  readonly entries: readonly Entry[];
  readonly total: Totals;
}

export function startDeletion({ bucket, entries, total }: JobAsk): void {
  start({ kind: 'delete', bucket, total }, async (job) => {
    for await (const page of objectsOf(bucket, entries, job.abort.signal)) {
      const { failed, markers } = await persist(job, () =>
        removeObjects(
          bucket,
          page.map(({ key }) => ({ key })),
          job.abort.signal,
        ),
      );
      const space = markersMax - job.markers.length;
      job.markers = [...job.markers, ...markers.slice(0, space)];
      job.markersLeftOut += Math.max(0, markers.length - space);
      count(job, page, failed);
    }
  });
}

/** Removes the delete markers of a deletion. */
export function startUndo({ bucket, markers }: Job): void {
  const total = { objects: markers.length, bytes: 0 };
  start({ kind: 'undo', bucket, total }, async (job) => {
    for (let at = 0; at < markers.length; at += 1_000) {
      const batch = markers.slice(at, at + 1_000);
      const { failed } = await persist(job, () => removeObjects(bucket, batch, job.abort.signal));
      count(
        job,
        batch.map(() => ({ size: 0 })),
        failed,
      );
    }
  });
}

export interface TransferAsk extends JobAsk {
  readonly kind: 'copy' | 'move';
  readonly toBucket: string;
  /** The new key of an object. */
  readonly toKey: (key: string) => string;
  readonly isOverwriting: boolean;
}

export function startTransfer(ask: TransferAsk): void {
  const { kind, bucket, entries, total } = ask;
  start({ kind, bucket, total, also: ask.toBucket }, async (job) => {
    for await (const page of objectsOf(bucket, entries, job.abort.signal)) {
      const left = [...page];
      const work = async () => {
        for (let object = left.shift(); object !== undefined; object = left.shift())
          await transferOne(job, ask, object);
      };
      await Promise.all(Array.from({ length: copiesAtOnce }, work));
    }
  });
}

async function transferOne(job: Job, ask: TransferAsk, object: StoredObject): Promise<void> {
  const { bucket, toBucket, toKey, isOverwriting, kind } = ask;
  const { signal } = job.abort;
  const { key, size, etag } = object;
  const to = { bucket: toBucket, key: toKey(key) };
  // Moved onto itself it would be deleted.
  if (to.bucket === bucket && to.key === key) return count(job, [{ size }], [{ key, code: '', reason: '=' }]);
  let copied = 0;
  const onBytes = (bytes: number) => {
    copied += bytes;
    job.bytes += bytes;
    changes.publish();
  };
  try {
    await persist(job, () =>
      copyObject({ from: { bucket, key, size, etag }, to, isOverwriting, signal, onBytes }),
    );
    // What was written meanwhile is not deleted: it was not copied.
    if (kind === 'move') {
      const batch = await persist(job, () => removeObjects(bucket, [{ key, etag }], signal));
      return count(job, [{ size: size - copied }], batch.failed);
    }
    count(job, [{ size: size - copied }], []);
  } catch (cause) {
    if (signal.aborted || cause instanceof Unreachable) throw cause;
    count(job, [{ size: size - copied }], [notDone(key, cause)]);
  }
}

/** Archives are saved under the names that keys have below the prefix. */
export function startArchive({ prefix, ...ask }: JobAsk & { readonly prefix: string }): void {
  const { bucket, entries, total } = ask;
  start({ kind: 'zip', bucket, total }, (job) =>
    saveArchive({
      bucket,
      prefix,
      total,
      pages: objectsOf(bucket, entries, job.abort.signal),
      signal: job.abort.signal,
      onBytes(bytes) {
        job.bytes += bytes;
        changes.publish();
      },
      onObject: (failed) => count(job, [{ size: 0 }], failed === undefined ? [] : [failed]),
    }),
  );
}

const warn = (event: BeforeUnloadEvent): void => event.preventDefault();

interface Begun extends Pick<Job, 'kind' | 'bucket' | 'total'> {
  /** Another bucket that changes. */
  readonly also?: string;
}

function start({ also, ...begun }: Begun, work: (job: Job) => Promise<void>): void {
  nextId += 1;
  const job: Job = {
    ...begun,
    id: nextId,
    startedAt: Date.now(),
    abort: new AbortController(),
    state: 'running',
    objects: 0,
    bytes: 0,
    failures: 0,
    failed: [],
    error: undefined,
    markers: [],
    markersLeftOut: 0,
  };
  jobs = [...jobs, job];
  addEventListener('beforeunload', warn);
  changes.publish();
  const end = (state: Job['state']) => {
    job.state = state;
    if (jobs.every((each) => each.state !== 'running')) removeEventListener('beforeunload', warn);
    for (const bucket of new Set([job.bucket, also ?? job.bucket])) readBucketAgain(bucket).catch(() => {});
    changes.publish();
  };
  work(job).then(
    () => end('done'),
    (cause: unknown) => {
      const isStopped = job.abort.signal.aborted;
      job.error = cause;
      // Others of the same job may still be copying.
      job.abort.abort();
      end(isStopped ? 'stopped' : 'failed');
    },
  );
}

function count(job: Job, done: readonly { readonly size: number }[], failed: readonly NotDone[]): void {
  job.objects += done.length;
  job.bytes += done.reduce((sum, { size }) => sum + size, 0);
  job.failures += failed.length;
  job.failed.push(...failed.slice(0, Math.max(0, failedMax - job.failed.length)));
  changes.publish();
}

/** Repeats what did not arrive. */
async function persist<T>({ abort: { signal } }: Job, send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send();
    } catch (cause) {
      if (!(cause instanceof Unreachable) || tries >= triesMax || signal.aborted) throw cause;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tries * (0.5 + Math.random() / 2)));
    }
  }
}
