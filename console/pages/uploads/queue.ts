/**
 * The queue of uploads of this tab. It outlives the page that shows it, the log-in, and, as far as multipart uploads go, the tab itself:
 * `remembered.ts` has what a reload needs.
 */

import { hearLogIn, type LogIn, logIn } from '../../app/log-in.ts';
import { queries } from '../../app/queries.ts';
import { writeStored } from '../../app/stored.ts';
import { readBucketAgain } from '../../storage/queries.ts';
import { Changes, useChanges } from '../../ui/changes.ts';
import { checkedAtOnce, Hindered, precheck } from './precheck.ts';
import { forget, lockUpload, type Remembered, remember, rememberedOf } from './remembered.ts';
import { differenceFrom, type FileMark, fileOf, markOf, type Source } from './sources.ts';
import { abortUpload, ObjectExists, type Session, transfer, type Wait } from './transfer.ts';
import { w } from './words.ts';

/** Several small files at once; the requests of all of them together are bounded by `transfer.ts`. */
const filesAtOnce = 4;
/** How often the page shows the progress of a running upload. */
const renderMs = 200;
const rateMs = 10_000;
const refreshMs = 500;

export type UploadState =
  | 'waiting'
  | 'running'
  | 'paused'
  /** After a reload: the user chooses the same file again. */
  | 'file'
  /** An object of the key exists: overwrite it, or skip the file. */
  | 'conflict'
  | 'failed'
  | 'done'
  | 'cancelled';

export interface Upload {
  readonly id: string;
  /** The access key that began it. */
  readonly owner: string;
  readonly bucket: string;
  readonly key: string;
  readonly name: string;
  readonly type: string;
  readonly size: number;
  file: File | undefined;
  readonly handle: FileSystemFileHandle | undefined;
  mark: FileMark | undefined;
  isOverwriting: boolean;
  state: UploadState;
  wait: Wait | undefined;
  /** Begun by an earlier page. */
  isRecalled: boolean;
  /** Policies and quotas have nothing against it. */
  isChecked: boolean;
  sent: number;
  readonly rate: Rate;
  error: unknown;
  session: Session | undefined;
  abort: AbortController;
  /** Releases the browser's lock, which this tab has while it shows the upload and the browser remembers it. */
  letGo: (() => void) | undefined;
}

/** Bytes per second over the last ten seconds. */
export class Rate {
  #samples: (readonly [at: number, bytes: number])[] = [];

  add(bytes: number): void {
    if (bytes > 0) this.#samples.push([Date.now(), bytes]);
  }

  perSecond(): number {
    const now = Date.now();
    this.#samples = this.#samples.filter(([at]) => now - at < rateMs);
    const [first] = this.#samples;
    if (first === undefined) return 0;
    return this.#samples.reduce((sum, [, bytes]) => sum + bytes, 0) / Math.max(1, (now - first[0]) / 1_000);
  }
}

export const queueRate = new Rate();

let uploads: readonly Upload[] = [];
const changes = new Changes();
let isRendering = false;

function changed(): void {
  if (isRendering) return;
  isRendering = true;
  setTimeout(() => {
    isRendering = false;
    changes.publish();
  }, renderMs);
}

/** The uploads of the caller in this tab. */
export function useUploads(): readonly Upload[] {
  useChanges(changes);
  const now = logIn();
  return now.is === 'in' ? uploads.filter(({ owner }) => owner === now.accessKey) : uploads;
}

const newId = (): string => [...crypto.getRandomValues(new Uint32Array(4))].join('-');

interface Begun {
  readonly bucket: string;
  readonly prefix: string;
  readonly isOverwriting: boolean;
}

export function addUploads(sources: readonly Source[], { bucket, prefix, isOverwriting }: Begun): void {
  const now = logIn();
  if (now.is !== 'in' || sources.length === 0) return;
  const added = sources.map(
    ({ path, file, handle }): Upload => ({
      id: newId(),
      owner: now.accessKey,
      bucket,
      key: prefix + path,
      name: file.name,
      type: file.type,
      size: file.size,
      file,
      handle,
      mark: undefined,
      isOverwriting,
      ...fresh('waiting'),
    }),
  );
  uploads = [...uploads, ...added];
  showBar();
  startNext();
}

const fresh = (state: UploadState) => ({
  state,
  wait: undefined,
  isRecalled: false,
  isChecked: false,
  sent: 0,
  rate: new Rate(),
  error: undefined,
  session: undefined,
  abort: new AbortController(),
  letGo: undefined,
});

/** The shell loads the bar with the first upload, and after a reload only where there was one. */
function showBar(): void {
  writeStored('uploads', '1');
  dispatchEvent(new Event('sluice-uploads'));
}

/** What is neither sent nor given up is in the memory of this page only. */
const isHeld = ({ state, file }: Upload): boolean =>
  file !== undefined &&
  (state === 'waiting' || state === 'running' || state === 'paused' || state === 'conflict');
const warn = (event: BeforeUnloadEvent): void => event.preventDefault();

function startNext(): void {
  if (uploads.some(isHeld)) addEventListener('beforeunload', warn);
  else removeEventListener('beforeunload', warn);
  changed();
  if (logIn().is !== 'in') return;
  const waiting = uploads.filter(({ state }) => state === 'waiting');
  checkNext(waiting.filter(({ isChecked }) => !isChecked)).catch(() => {});
  const running = uploads.filter(({ state }) => state === 'running').length;
  const next = waiting.filter(({ isChecked }) => isChecked).slice(0, Math.max(0, filesAtOnce - running));
  for (const each of next) run(each).catch(() => {});
}

let isChecking = false;

/** Asks about those of the first one's bucket, as many as one request takes. */
async function checkNext(unchecked: readonly Upload[]): Promise<void> {
  const [first] = unchecked;
  if (first === undefined || isChecking) return;
  isChecking = true;
  const asked = unchecked.filter(({ bucket }) => bucket === first.bucket).slice(0, checkedAtOnce);
  const reserving = uploads.filter(
    ({ bucket, isChecked, state }) =>
      bucket === first.bucket && isChecked && state !== 'done' && state !== 'failed' && state !== 'cancelled',
  );
  const reserved = {
    bytes: reserving.reduce((sum, { size }) => sum + size, 0),
    objects: reserving.length,
  };
  try {
    const obstacles = await precheck(first.bucket, asked, reserved);
    for (const [index, upload] of asked.entries()) {
      const obstacle = obstacles[index];
      if (obstacle === undefined) upload.isChecked = true;
      else if (upload.state === 'waiting') fail(upload, new Hindered(obstacle));
    }
  } catch {
    // The gateway judges by itself what could not be asked.
    for (const upload of asked) upload.isChecked = true;
  } finally {
    isChecking = false;
    startNext();
  }
}

/** The lock stays, because this tab offers to try again: another tab that had it would send the same upload. */
function fail(upload: Upload, error: unknown): void {
  upload.state = 'failed';
  upload.error = error;
}

function unlock(upload: Upload): void {
  upload.letGo?.();
  upload.letGo = undefined;
}

async function run(upload: Upload): Promise<void> {
  const { bucket, key, file, isOverwriting, session, isRecalled } = upload;
  if (file === undefined) return;
  const { signal } = upload.abort;
  upload.state = 'running';
  upload.error = undefined;
  changed();
  try {
    await transfer({
      bucket,
      key,
      file,
      isOverwriting,
      session,
      isRecalled,
      signal,
      onSent(sent, isStored = false) {
        if (signal.aborted) return;
        if (!isStored) {
          upload.rate.add(sent - upload.sent);
          queueRate.add(sent - upload.sent);
        }
        upload.sent = sent;
        changed();
      },
      onWait(wait) {
        upload.wait = wait;
        changed();
      },
      onSession: (next) => keepSession(upload, next),
    });
    upload.state = 'done';
    upload.sent = upload.size;
    upload.file = undefined;
    unlock(upload);
    refreshSoon(bucket);
  } catch (cause) {
    // Paused or cancelled: its state says so already.
    if (signal.aborted) return;
    if (cause instanceof ObjectExists) {
      upload.state = 'conflict';
      upload.error = cause;
    } else fail(upload, cause);
  } finally {
    upload.wait = undefined;
  }
  startNext();
}

const refreshing = new Set<string>();

/** Many small files end in a second: the list of objects is read once for all of them. */
function refreshSoon(bucket: string): void {
  if (refreshing.has(bucket)) return;
  refreshing.add(bucket);
  setTimeout(() => {
    refreshing.delete(bucket);
    readBucketAgain(bucket).catch(() => {});
    queries.invalidateQueries({ queryKey: ['ListOpenUploads'] }).catch(() => {});
  }, refreshMs);
}

async function keepSession(upload: Upload, session: Session | undefined): Promise<void> {
  upload.session = session;
  if (session === undefined) {
    await forget(upload.id);
    return;
  }
  if (upload.file === undefined) return;
  upload.letGo ??= await lockUpload(upload.id);
  upload.mark = await markOf(upload.file);
  await rememberUpload(upload);
}

async function rememberUpload(upload: Upload, isCancelled = false): Promise<void> {
  const { session, mark, id, owner, bucket, key, name, type, isOverwriting, handle, state } = upload;
  if (session === undefined || mark === undefined) return;
  const isPaused = state === 'paused';
  const row = { id, owner, bucket, key, name, type, mark, ...session, isOverwriting, handle };
  await remember({ ...row, isPaused, isCancelled });
}

/** Ends the requests of an upload; the gateway keeps the parts that it has. */
function halt(upload: Upload, state: UploadState): void {
  upload.state = state;
  upload.abort.abort(new DOMException('halted', 'AbortError'));
  upload.abort = new AbortController();
  rememberUpload(upload).catch(() => {});
}

export function pauseUpload(upload: Upload): void {
  halt(upload, 'paused');
  startNext();
}

/** Goes on: after a pause, a failure, or with another choice about what the key holds. */
export function resumeUpload(upload: Upload, isOverwriting = upload.isOverwriting): void {
  upload.isOverwriting = isOverwriting;
  upload.isChecked = upload.session !== undefined;
  upload.error = undefined;
  upload.state = upload.file === undefined ? 'file' : 'waiting';
  rememberUpload(upload).catch(() => {});
  startNext();
}

/** The gateway deletes the parts: they cost room until then. */
export function cancelUpload(upload: Upload): void {
  halt(upload, 'cancelled');
  endSession(upload).catch((cause) => {
    fail(upload, cause);
    // Taken from the list meanwhile: the next page of any tab cancels it.
    if (!uploads.includes(upload)) unlock(upload);
    changed();
  });
  upload.file = undefined;
  startNext();
}

async function endSession(upload: Upload): Promise<void> {
  const { session, bucket, key, id } = upload;
  if (session === undefined) return;
  await rememberUpload(upload, true);
  await abortUpload({ bucket, key, uploadId: session.uploadId }, upload.abort.signal);
  upload.session = undefined;
  await forget(id);
  unlock(upload);
  queries.invalidateQueries({ queryKey: ['ListOpenUploads'] }).catch(() => {});
}

const ended: readonly UploadState[] = ['done', 'cancelled'];

/** Takes what has ended from the list; what failed too, and its parts from the gateway. */
export function clearUploads(): void {
  for (const each of uploads) if (each.state === 'failed') cancelUpload(each);
  uploads = uploads.filter(({ state }) => !ended.includes(state));
  if (uploads.length === 0) writeStored('uploads', undefined);
  startNext();
}

/** The same file was chosen again. @returns in what another one differs, which is not taken */
export async function giveFile(upload: Upload, file: File): Promise<keyof FileMark | undefined> {
  if (upload.mark === undefined) return undefined;
  const difference = await differenceFrom(upload.mark, file);
  if (difference !== undefined) return difference;
  upload.file = file;
  resumeUpload(upload);
  return undefined;
}

/** The file by the handle that the browser has kept. @returns as `giveFile` */
export async function askFile(upload: Upload): Promise<keyof FileMark | 'refused' | undefined> {
  const file = upload.handle && (await fileOf(upload.handle, { ask: true }));
  return file === undefined ? 'refused' : giveFile(upload, file);
}

/** What an earlier page of this caller did not end. */
async function recall(owner: string): Promise<void> {
  const rows = await rememberedOf(owner);
  for (const row of rows) {
    if (uploads.some(({ id }) => id === row.id)) continue;
    const letGo = await lockUpload(row.id);
    if (letGo === undefined) continue;
    const upload = uploadOf(row, letGo);
    uploads = [...uploads, upload];
    if (row.isCancelled) cancelUpload(upload);
    else if (upload.handle !== undefined) await recallFile(upload, row).catch(() => {});
  }
  // Another tab may have them.
  if (rows.length === 0 && uploads.length === 0) writeStored('uploads', undefined);
  startNext();
}

/** Where the browser lets the page read the file without a question, the upload goes on by itself. */
async function recallFile(upload: Upload, { isPaused, mark, handle }: Remembered): Promise<void> {
  const file = handle && (await fileOf(handle, { ask: false }));
  if (file === undefined || (await differenceFrom(mark, file)) !== undefined) return;
  upload.file = file;
  upload.state = isPaused ? 'paused' : 'waiting';
}

const uploadOf = (row: Remembered, letGo: () => void): Upload => {
  const { id, owner, bucket, key, name, type, mark, isOverwriting, handle, uploadId, partBytes } = row;
  const session = { uploadId, partBytes };
  const about = { id, owner, bucket, key, name, type, size: mark.size, file: undefined, handle, mark };
  return { ...about, isOverwriting, ...fresh('file'), isRecalled: true, isChecked: true, session, letGo };
};

const isActive = ({ state }: Upload): boolean => state === 'running' || state === 'waiting';
let recalled = '';

function follow(now: LogIn): string | undefined {
  const stopped = uploads.filter(
    (each) => isActive(each) && (now.is === 'out' || (now.is === 'in' && now.accessKey !== each.owner)),
  );
  for (const each of stopped) halt(each, 'paused');
  if (now.is === 'in' && uploads.length > 0) showBar();
  if (now.is === 'in' && recalled !== now.accessKey) {
    recalled = now.accessKey;
    recall(now.accessKey).catch(() => {});
  }
  startNext();
  return now.is === 'out' && stopped.length > 0 ? w.stoppedByLogOut(stopped.length) : undefined;
}

hearLogIn(follow);
follow(logIn());
