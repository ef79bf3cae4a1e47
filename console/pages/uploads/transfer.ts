/**
 * Sends one file to the storage protocol: a small one by PutObject, a larger one by the parts that the gateway does not have yet. What did
 * not arrive is sent again, an end of the log-in is waited for, and every byte is checked by CRC32C.
 */
import { crc32c } from '../../../src/backends/crypto/crc.ts';
import { inParallel } from '../../../src/base/concurrency.ts';
import { Semaphore } from '../../../src/base/mutex.ts';
import { combineCrcs } from '../../../src/domain/content/digests.ts';
import { Refused, Unreachable } from '../../app/client.ts';
import { askLogIn, nextLogIn } from '../../app/log-in.ts';
import { type StorageAsk, type StorageReply, storage } from '../../storage/client.ts';
import { forgetCredentials } from '../../storage/credentials.ts';
import { childrenOf, escapeXml, textIn } from '../../storage/xml.ts';

const mib = 1_048_576;
export const multipartFrom = 16 * mib;
const partMin = 8 * mib;
export const partsMax = 10_000;
export const partsAtOnce = 4;
/** Browsers have six connections to a gateway over HTTP/1.1: the page itself needs some. */
const requests = new Semaphore(partsAtOnce);
/** Answers with 5xx to one request. */
const failuresMax = 10;
const waitMaxMs = 15_000;
/** How long a gateway that does not answer is tried again. */
const unreachableMaxMs = 24 * 3_600_000;
/** Bytes of a file that are in memory for its checksum at a time. */
const readBytes = 4 * mib;

export interface Session {
  readonly uploadId: string;
  readonly partBytes: number;
}

export type Wait = 'network' | 'login';

export interface Task {
  readonly bucket: string;
  readonly key: string;
  readonly file: File;
  readonly isOverwriting: boolean;
  readonly session: Session | undefined;
  /** An earlier page has sent parts: each is compared with the file again. */
  readonly isRecalled: boolean;
  readonly signal: AbortSignal;
  /** Bytes that the gateway has or that are on their way. `isStored`: it had them before. */
  onSent(bytes: number, isStored?: boolean): void;
  onWait(wait: Wait | undefined): void;
  /** A multipart upload was opened, or it is gone. */
  onSession(session: Session | undefined): Promise<void>;
}

/** An object of the key exists, and it is not to be overwritten. */
export class ObjectExists extends Error {
  readonly size: number;
  readonly modified: string;

  constructor({ size, modified }: { readonly size: number; readonly modified: string }) {
    super('an object of this key exists');
    this.size = size;
    this.modified = modified;
  }
}

/** @throws ObjectExists, Refused, Unreachable, NotReadableError of the file, AbortError of the signal */
export function transfer(task: Task): Promise<void> {
  const by = new Sender(task);
  return task.file.size < multipartFrom ? by.sendWhole() : by.sendParts();
}

interface StoredPart {
  readonly etag: string;
  readonly checksum: string;
  readonly size: number;
}

interface Tries {
  readonly signal: AbortSignal;
  readonly onWait?: (wait: Wait | undefined) => void;
}

/** Repeats a request until the gateway has answered it; where the log-in has ended, after the next one. */
async function persist<T>(send: (tries: number) => Promise<T>, { signal, onWait }: Tries): Promise<T> {
  let failures = 0;
  let hasFreshCredentials = false;
  let silentSince: number | undefined;
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await send(tries);
      onWait?.(undefined);
      return result;
    } catch (cause) {
      if (signal.aborted || !(isTransient(cause) || isForbidden(cause))) throw cause;
      // A gateway that refuses a large body may close the connection before the browser reads the refusal.
      const isIn = await askLogIn().catch(() => undefined);
      signal.throwIfAborted();
      if (isIn === false) {
        onWait?.('login');
        await nextLogIn(signal);
        forgetCredentials();
      } else if (isIn === undefined) {
        silentSince ??= Date.now();
        if (Date.now() - silentSince > unreachableMaxMs) throw cause;
        onWait?.('network');
        await pause(tries, signal);
        continue;
      } else if (isForbidden(cause)) {
        if (hasFreshCredentials || cause.code === 'AccessDenied') throw cause;
        hasFreshCredentials = true;
        forgetCredentials();
      } else {
        failures += 1;
        if (failures >= failuresMax) throw cause;
        onWait?.('network');
        await pause(failures, signal);
      }
      silentSince = undefined;
    }
  }
}

/** Of an ended log-in the storage protocol says that the token has expired, with 400. */
const isForbidden = (cause: unknown): cause is Refused =>
  cause instanceof Refused && (cause.status === 403 || cause.code === 'ExpiredToken');

const transientCodes = new Set(['RequestTimeout', 'SlowDown', 'OperationAborted', 'TooManyRequests']);
const isTransient = (cause: unknown): boolean =>
  cause instanceof Unreachable ||
  (cause instanceof Refused && (cause.status >= 500 || transientCodes.has(cause.code)));

function pause(tries: number, signal: AbortSignal): Promise<void> {
  const ms = Math.min(waitMaxMs, 500 * 2 ** Math.min(tries - 1, 10)) * (0.5 + Math.random() / 2);
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal.addEventListener('abort', abort, { once: true });
  });
}

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));
const toBytes = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** CRC32C in the form of the protocol. It reads again with each try: a file that has changed meanwhile throws. */
async function checksumOf(part: Blob): Promise<string> {
  let crc = 0;
  for (let at = 0; at < part.size; at += readBytes)
    crc = crc32c(new Uint8Array(await part.slice(at, at + readBytes).arrayBuffer()), crc);
  return toBase64(new Uint8Array(new Uint32Array([crc]).buffer).reverse());
}

class Sender {
  readonly #task: Task;
  /** Ends the other requests with the first that fails. */
  readonly #failed = new AbortController();
  readonly #signal: AbortSignal;
  readonly #waits = new Map<object, Wait>();

  constructor(task: Task) {
    this.#task = task;
    this.#signal = AbortSignal.any([task.signal, this.#failed.signal]);
  }

  /** One request of several: the upload waits while one of them does. */
  #persist<T>(send: (tries: number) => Promise<T>): Promise<T> {
    const self = {};
    return persist(send, {
      signal: this.#signal,
      onWait: (wait) => {
        if (wait === undefined) this.#waits.delete(self);
        else this.#waits.set(self, wait);
        this.#task.onWait([...this.#waits.values()].at(-1));
      },
    });
  }

  #send(ask: Omit<StorageAsk, 'bucket' | 'key' | 'signal'>): Promise<StorageReply> {
    const { bucket, key } = this.#task;
    return storage({ ...ask, bucket, key, signal: this.#signal });
  }

  get #condition(): Readonly<Record<string, string>> {
    return this.#task.isOverwriting ? {} : { 'if-none-match': '*' };
  }

  get #type(): string {
    return this.#task.file.type === '' ? 'application/octet-stream' : this.#task.file.type;
  }

  async sendWhole(): Promise<void> {
    const { file, onSent } = this.#task;
    await this.#persist((tries) =>
      requests.run(async () => {
        this.#signal.throwIfAborted();
        const checksum = await checksumOf(file);
        try {
          await this.#send({
            method: 'PUT',
            headers: {
              'content-type': this.#type,
              'x-amz-checksum-crc32c': checksum,
              'x-amz-sdk-checksum-algorithm': 'CRC32C',
              ...this.#condition,
            },
            body: file,
            onProgress: (sent) => onSent(sent),
          });
        } catch (cause) {
          if (!(cause instanceof Refused && cause.status === 412)) throw cause;
          const found = await this.#head();
          // The first try has stored it, and its answer was lost.
          if (tries > 1 && found?.checksum === checksum && found.size === file.size) return;
          throw new ObjectExists(found ?? { size: 0, modified: '' });
        }
      }),
    );
  }

  /** What the key holds; undefined where that is nothing, or where the caller may not read it. */
  async #head() {
    try {
      const reply = await this.#send({ method: 'HEAD', headers: { 'x-amz-checksum-mode': 'ENABLED' } });
      return {
        size: Number(reply.header('content-length') ?? 0),
        modified: reply.header('last-modified') ?? '',
        checksum: reply.header('x-amz-checksum-crc32c'),
      };
    } catch (cause) {
      if (cause instanceof Refused && cause.status < 500) return undefined;
      throw cause;
    }
  }

  async sendParts(): Promise<void> {
    const { session: before } = this.#task;
    if (before === undefined && !this.#task.isOverwriting) {
      const found = await this.#persist(() => this.#head());
      if (found !== undefined) throw new ObjectExists(found);
    }
    const session = before ?? (await this.#open());
    try {
      const stored = before === undefined ? new Map<number, StoredPart>() : await this.#list(session);
      await this.#sendMissing(session, stored);
      await this.#complete(session, stored);
    } catch (cause) {
      // It was aborted elsewhere, or an older gateway has lost a part: the next try begins anew.
      if (cause instanceof Refused && (cause.code === 'NoSuchUpload' || cause.code === 'InvalidPart'))
        await this.#task.onSession(undefined);
      throw cause;
    }
    await this.#task.onSession(undefined);
  }

  async #open(): Promise<Session> {
    const { file } = this.#task;
    const { xml } = await this.#persist(() =>
      this.#send({
        method: 'POST',
        query: { uploads: '' },
        headers: {
          'content-type': this.#type,
          'x-amz-checksum-algorithm': 'CRC32C',
          'x-amz-checksum-type': 'FULL_OBJECT',
        },
      }),
    );
    const uploadId = xml && textIn(xml, 'UploadId');
    if (uploadId === undefined) throw new Error('the reply has no upload id');
    const partBytes = Math.max(partMin, Math.ceil(file.size / partsMax / mib) * mib);
    const session = { uploadId, partBytes };
    await this.#task.onSession(session);
    return session;
  }

  #bytesOf(number: number, { partBytes }: Session): number {
    return Math.min(partBytes, this.#task.file.size - (number - 1) * partBytes);
  }

  /** The parts that the gateway has. */
  async #list(session: Session): Promise<Map<number, StoredPart>> {
    const stored = new Map<number, StoredPart>();
    let marker: string | undefined = '0';
    while (marker !== undefined) {
      const xml = await this.#page(session, marker);
      for (const part of childrenOf(xml, 'Part')) {
        const number = Number(textIn(part, 'PartNumber'));
        const size = Number(textIn(part, 'Size'));
        const checksum = textIn(part, 'ChecksumCRC32C') ?? '';
        if (await this.#isRight(number, { checksum, size, session }))
          stored.set(number, { etag: textIn(part, 'ETag') ?? '', checksum, size });
      }
      marker = textIn(xml, 'IsTruncated') === 'true' ? textIn(xml, 'NextPartNumberMarker') : undefined;
    }
    return stored;
  }

  async #isRight(
    number: number,
    {
      checksum,
      size,
      session,
    }: { readonly checksum: string; readonly size: number; readonly session: Session },
  ): Promise<boolean> {
    if (checksum === '' || size !== this.#bytesOf(number, session)) return false;
    if (!this.#task.isRecalled) return true;
    this.#signal.throwIfAborted();
    return checksum === (await checksumOf(this.#part(number, session)));
  }

  #part(number: number, session: Session): Blob {
    const from = (number - 1) * session.partBytes;
    return this.#task.file.slice(from, from + this.#bytesOf(number, session));
  }

  async #page({ uploadId }: Session, marker: string): Promise<Element> {
    const query = { uploadId, 'part-number-marker': marker };
    const { xml } = await this.#persist(() => this.#send({ method: 'GET', query }));
    if (xml === undefined) throw new Error('the reply lists no parts');
    return xml;
  }

  async #sendMissing(session: Session, stored: Map<number, StoredPart>): Promise<void> {
    const { file, onSent } = this.#task;
    const { uploadId, partBytes } = session;
    const numbers = Array.from({ length: Math.ceil(file.size / partBytes) }, (_, index) => index + 1);
    let storedBytes = [...stored.values()].reduce((sum, { size }) => sum + size, 0);
    const sending = new Map<number, number>();
    const report = () => onSent([...sending.values()].reduce((sum, sent) => sum + sent, storedBytes));
    onSent(storedBytes, true);
    const sendPart = async (number: number) => {
      const size = this.#bytesOf(number, session);
      const part = this.#part(number, session);
      await this.#persist(() =>
        requests
          .run(async () => {
            this.#signal.throwIfAborted();
            const checksum = await checksumOf(part);
            const reply = await this.#send({
              method: 'PUT',
              query: { partNumber: String(number), uploadId },
              headers: { 'x-amz-checksum-crc32c': checksum, 'x-amz-sdk-checksum-algorithm': 'CRC32C' },
              body: part,
              onProgress: (sent) => {
                sending.set(number, Math.min(sent, size));
                report();
              },
            });
            stored.set(number, { etag: reply.header('etag') ?? '', checksum, size });
            storedBytes += size;
          })
          .finally(() => {
            sending.delete(number);
            report();
          }),
      );
    };
    const missing = numbers.filter((number) => !stored.has(number));
    await inParallel(partsAtOnce, missing, (number) =>
      sendPart(number).catch((cause) => {
        this.#failed.abort();
        throw cause;
      }),
    );
  }

  async #complete({ uploadId }: Session, stored: ReadonlyMap<number, StoredPart>): Promise<void> {
    const parts = [...stored].sort(([a], [b]) => a - b);
    const lines = parts.map(
      ([number, { etag, checksum }]) =>
        `<Part><PartNumber>${number}</PartNumber><ETag>${escapeXml(etag)}</ETag><ChecksumCRC32C>${checksum}</ChecksumCRC32C></Part>`,
    );
    const whole = combineCrcs(
      'crc32c',
      parts.map(([, { checksum, size }]) => ({ digest: toBytes(checksum), size })),
    );
    const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${lines.join('')}</CompleteMultipartUpload>`;
    await this.#persist(async (tries) => {
      try {
        const { xml } = await this.#send({
          method: 'POST',
          query: { uploadId },
          headers: {
            'x-amz-checksum-crc32c': toBase64(whole),
            'x-amz-checksum-type': 'FULL_OBJECT',
            ...this.#condition,
          },
          body,
        });
        // The status is sent before the work is done: an error may stand in the body of a 200.
        if (xml?.localName === 'Error') throw refusalIn(xml);
      } catch (cause) {
        if (cause instanceof Refused && cause.status === 412)
          throw new ObjectExists((await this.#head()) ?? { size: 0, modified: '' });
        // An earlier try still runs at the gateway; its result is given to the next one.
        if (tries > 1 && tries < completionsMax && cause instanceof Refused && cause.code === 'NoSuchUpload')
          throw new Unreachable('the completion still runs');
        throw cause;
      }
    });
  }
}

const completionsMax = 20;

const refusalIn = (xml: Element): Refused =>
  new Refused(500, {
    code: textIn(xml, 'Code') ?? '',
    message: textIn(xml, 'Message') ?? '',
    requestId: textIn(xml, 'RequestId') ?? '',
  });

/** Deletes the parts of an upload that does not go on. @throws where the gateway refuses it */
export async function abortUpload(
  { bucket, key, uploadId }: { readonly bucket: string; readonly key: string; readonly uploadId: string },
  signal: AbortSignal,
): Promise<void> {
  try {
    await persist(() => storage({ method: 'DELETE', bucket, key, query: { uploadId }, signal }), { signal });
  } catch (cause) {
    if (!(cause instanceof Refused && cause.status === 404)) throw cause;
  }
}
