/**
 * The queue of uploads: it outlives the page that shows it. Small files are one request; larger ones are multipart uploads with several
 * parts at once, which a retry continues with the parts that are missing.
 */
import { useEffect, useState } from 'preact/hooks';
import { Refused, Unreachable } from '../../app/client.ts';
import { queries } from '../../app/queries.ts';
import { storage } from '../../storage/client.ts';
import { escapeXml, textIn } from '../../storage/xml.ts';

const mib = 1_048_576;
const multipartFrom = 16 * mib;
const partMin = 8 * mib;
const partsMax = 10_000;
const filesAtOnce = 2;
const partsAtOnce = 4;
const triesMax = 8;
const waitMaxMs = 8_000;

interface Session {
  readonly uploadId: string;
  /** ETags of the parts that are stored, by number. */
  readonly stored: Map<number, string>;
}

export interface Upload {
  readonly id: number;
  readonly bucket: string;
  readonly key: string;
  readonly file: File;
  isOverwriting: boolean;
  state: 'waiting' | 'running' | 'done' | 'failed' | 'stopped';
  sent: number;
  startedAt: number;
  error: unknown;
  session: Session | undefined;
  abort: AbortController;
}

let uploads: readonly Upload[] = [];
let nextId = 0;
const listeners = new Set<() => void>();

function changed(): void {
  for (const each of listeners) each();
}

/** The uploads of a bucket, read again whenever one changes. */
export function useUploads(bucket: string): readonly Upload[] {
  const [, render] = useState(0);
  useEffect(() => {
    const listen = () => render((n) => n + 1);
    listeners.add(listen);
    return () => {
      listeners.delete(listen);
    };
  }, []);
  return uploads.filter((each) => each.bucket === bucket);
}

export interface Source {
  readonly key: string;
  readonly file: File;
}

export function addUploads(bucket: string, sources: readonly Source[], isOverwriting: boolean): void {
  uploads = [
    ...uploads,
    ...sources.map(({ key, file }): Upload => {
      nextId += 1;
      const state = {
        state: 'waiting',
        sent: 0,
        startedAt: 0,
        error: undefined,
        session: undefined,
      } as const;
      return { id: nextId, bucket, key, file, isOverwriting, ...state, abort: new AbortController() };
    }),
  ];
  startNext();
}

export function clearUploads(bucket: string): void {
  uploads = uploads.filter(
    (each) => each.bucket !== bucket || each.state === 'waiting' || each.state === 'running',
  );
  changed();
}

export function stopUpload(upload: Upload): void {
  upload.state = 'stopped';
  upload.abort.abort();
  endSession(upload);
  startNext();
}

export function retryUpload(upload: Upload, isOverwriting: boolean): void {
  upload.isOverwriting = isOverwriting;
  upload.abort = new AbortController();
  upload.error = undefined;
  upload.state = 'waiting';
  startNext();
}

/** The parts of an upload that will not be continued cost space: the gateway deletes them. */
function endSession(upload: Upload): void {
  const { session, bucket, key } = upload;
  upload.session = undefined;
  if (session !== undefined)
    storage({ method: 'DELETE', bucket, key, query: { uploadId: session.uploadId } }).catch(() => {});
}

const warn = (event: BeforeUnloadEvent): void => event.preventDefault();

function startNext(): void {
  const running = uploads.filter(({ state }) => state === 'running').length;
  const waiting = uploads.filter(({ state }) => state === 'waiting').slice(0, filesAtOnce - running);
  if (running + waiting.length > 0) addEventListener('beforeunload', warn);
  else removeEventListener('beforeunload', warn);
  for (const each of waiting) run(each).catch(() => {});
  changed();
}

async function run(upload: Upload): Promise<void> {
  upload.state = 'running';
  upload.startedAt = Date.now();
  upload.sent = 0;
  try {
    if (upload.file.size < multipartFrom) await sendWhole(upload);
    else await sendParts(upload);
    upload.state = 'done';
    upload.sent = upload.file.size;
    queries.invalidateQueries({ queryKey: ['s3', upload.bucket] }).catch(() => {});
  } catch (cause) {
    // Stopped by the user: its state says so already.
    if (upload.abort.signal.aborted) return;
    upload.state = 'failed';
    upload.error = cause;
  }
  startNext();
}

/** Repeats what did not arrive, or what the gateway could not do for now. */
async function withRetry<T>(signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send();
    } catch (cause) {
      const isTransient = cause instanceof Unreachable || (cause instanceof Refused && cause.status >= 500);
      if (!isTransient || tries >= triesMax || signal.aborted) throw cause;
      const ms = Math.min(waitMaxMs, 500 * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  }
}

const condition = ({ isOverwriting }: Upload) => (isOverwriting ? {} : { 'if-none-match': '*' });
const typeOf = ({ type }: File): string => (type === '' ? 'application/octet-stream' : type);

async function sendWhole(upload: Upload): Promise<void> {
  const { bucket, key, file, abort } = upload;
  const headers = { 'content-type': typeOf(file), ...condition(upload) };
  const onProgress = (sent: number) => {
    upload.sent = sent;
    changed();
  };
  await withRetry(abort.signal, () =>
    storage({ method: 'PUT', bucket, key, headers, body: file, signal: abort.signal, onProgress }),
  );
}

const partBytes = (size: number): number => Math.max(partMin, Math.ceil(size / partsMax / mib) * mib);

async function openSession({ bucket, key, file, abort: { signal } }: Upload): Promise<Session> {
  const { xml } = await withRetry(signal, () =>
    storage({
      method: 'POST',
      bucket,
      key,
      query: { uploads: '' },
      headers: { 'content-type': typeOf(file) },
      signal,
    }),
  );
  const uploadId = xml && textIn(xml, 'UploadId');
  if (uploadId === undefined) throw new Error('the reply has no upload id');
  return { uploadId, stored: new Map() };
}

async function sendParts(upload: Upload): Promise<void> {
  const { bucket, key, file } = upload;
  const { signal } = upload.abort;
  const session = upload.session ?? (await openSession(upload));
  upload.session = session;
  const bytes = partBytes(file.size);
  const count = Math.ceil(file.size / bytes);
  const missing = Array.from({ length: count }, (_, index) => index + 1).filter(
    (number) => !session.stored.has(number),
  );
  const sentBy = new Map<number, number>();
  const bytesOf = (number: number) => Math.min(bytes, file.size - (number - 1) * bytes);
  const report = () => {
    const stored = [...session.stored.keys()].reduce((sum, number) => sum + bytesOf(number), 0);
    const sending = [...sentBy.values()].reduce((sum, sent) => sum + sent, 0);
    upload.sent = stored + sending;
    changed();
  };
  const sendPart = async (number: number) => {
    const from = (number - 1) * bytes;
    const reply = await withRetry(signal, () =>
      storage({
        method: 'PUT',
        bucket,
        key,
        query: { partNumber: String(number), uploadId: session.uploadId },
        body: file.slice(from, from + bytesOf(number)),
        signal,
        onProgress: (sent) => {
          sentBy.set(number, sent);
          report();
        },
      }),
    );
    sentBy.delete(number);
    session.stored.set(number, reply.header('etag') ?? '');
    report();
  };
  const work = async () => {
    for (let number = missing.shift(); number !== undefined; number = missing.shift()) await sendPart(number);
  };
  await Promise.all(Array.from({ length: partsAtOnce }, work));
  await complete(upload, session);
}

async function complete(upload: Upload, { uploadId, stored }: Session): Promise<void> {
  const { bucket, key, abort } = upload;
  const parts = [...stored]
    .sort(([a], [b]) => a - b)
    .map(([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`)
    .join('');
  const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts}</CompleteMultipartUpload>`;
  const { xml } = await withRetry(abort.signal, () =>
    storage({
      method: 'POST',
      bucket,
      key,
      query: { uploadId },
      headers: condition(upload),
      body,
      signal: abort.signal,
    }),
  );
  // The status is sent before the work is done: an error may stand in the body of a 200.
  if (xml?.localName === 'Error')
    throw new Refused(500, {
      code: textIn(xml, 'Code') ?? '',
      message: textIn(xml, 'Message') ?? '',
      requestId: textIn(xml, 'RequestId') ?? '',
    });
  upload.session = undefined;
}

/** The files of a drop, those of folders included, with their paths. */
export async function droppedFiles(data: DataTransfer): Promise<readonly Source[]> {
  // The list is empty after the event has ended: take all entries of it first.
  const entries = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return (await Promise.all(entries.map((entry) => filesIn(entry)))).flat();
}

async function filesIn(entry: FileSystemEntry): Promise<readonly Source[]> {
  const key = entry.fullPath.replace(/^\//, '');
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    return [{ key, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Source[] = [];
  // A reader answers in batches until one is empty.
  for (;;) {
    const batch = await new Promise<readonly FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (batch.length === 0) return found;
    for (const each of batch) found.push(...(await filesIn(each)));
  }
}
