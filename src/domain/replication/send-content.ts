/** What the two ways to a peer share: requests about a key, refusals, and the content of a version, whole or in its parts. */

import { gather, inParallel } from '../../base/concurrency.ts';
import { toBase64 } from '../../base/text/base64.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import { everyTask, putTask, putTasks, type Task, type TaskKind } from '../../metadata/background/tasks.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import {
  type PeerAccess,
  type PeerReply,
  type PeerRequests,
  type PeerSending,
  PeerSilent,
} from '../../ports/peer-requests.ts';
import type { Destination } from '../configurations/replication-destination.ts';
import type { ObjectKey } from '../content/extent-keys.ts';
import { contentSize } from '../content/segments.ts';
import { partsFrom, readObject } from '../objects/read-object.ts';
import type { Pace } from '../rebalance/pace.ts';
import { type Bandwidth, smallBodyMax } from './bandwidth.ts';

export type ShipmentCtx = Pick<
  Context,
  'metadata' | 'bytes' | 'hasher' | 'cipher' | 'clock' | 'telemetry'
> & {
  readonly peers: PeerRequests;
};

export interface Shipment {
  readonly access: PeerAccess;
  /** Whether an operator has given the peer another endpoint than that of `access`. */
  hasMoved(): Promise<boolean>;
  /** The id of the peer. */
  readonly peer: string;
  /** The bucket at the peer. */
  readonly to: string;
  /** The account that must own the bucket: a gateway refuses each request where another one does. Undefined: any may. */
  readonly bucketOwner: string | undefined;
  readonly row: ObjectRow;
  /** Of the source bucket. */
  readonly account: string;
  /** For encrypted contents. */
  readonly objectKey: ObjectKey | undefined;
  readonly signal: AbortSignal;
  /** Keeps the bandwidth of the peer, where it has one. */
  readonly bandwidth: Bandwidth | undefined;
}

/** The peer answered, and refused. */
export class PeerRefused extends Error {
  readonly status: number;
  readonly code: string;
  /** What the peer says about it; '' where it says nothing. */
  readonly said: string;
  constructor(
    status: number,
    { code, said }: { readonly code: string; readonly said: string },
    what: string,
  ) {
    super(`${what} was answered by ${status}${code === '' ? '' : ` ${code}`}`);
    this.status = status;
    this.code = code;
    this.said = said;
  }
}

/** Something answered that is not the peer, for example a proxy: its success says nothing about a version. */
export class UnexpectedAnswer extends Error {
  constructor(status: number, what: string) {
    super(
      `${what} was answered by ${status}, but not as an S3 service does: see what answers at the peer's endpoint`,
    );
  }
}

/** An error is read up to here. */
const errorMax = 4096;

const errorText = ({ body }: PeerReply): string => decodeUtf8(body.subarray(0, errorMax));

/** '' where there is none, as in the page of a proxy. */
export const codeIn = (reply: PeerReply): string =>
  /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(errorText(reply))?.[1] ?? '';

/** @param what names the request in the message @throws PeerRefused; UnexpectedAnswer for a refusal without the code of an S3 service */
export function checkReply(reply: PeerReply, what: string): PeerReply {
  const { status } = reply;
  const code = codeIn(reply);
  const [, said = ''] = /<Message>([^<\p{Cc}]{1,300})/u.exec(errorText(reply)) ?? [];
  if (code === '' && status >= 300 && status < 500) throw new UnexpectedAnswer(status, what);
  // A completion may send the head of its answer before it fails.
  if (status >= 300) throw new PeerRefused(status, { code, said }, what);
  if (code !== '') throw new PeerRefused(500, { code, said }, what);
  return reply;
}

/** Refuses a success without the sign that the peer itself has answered. @throws PeerRefused, UnexpectedAnswer */
export function checkSign(reply: PeerReply, what: string, hasSign: (reply: PeerReply) => boolean): PeerReply {
  checkReply(reply, what);
  if (!hasSign(reply)) throw new UnexpectedAnswer(reply.status, what);
  return reply;
}

export const hasEtag = ({ headers }: PeerReply): boolean => (headers['etag'] ?? '') !== '';

export const isEmpty = ({ body }: PeerReply): boolean => body.length === 0;

const hasElement =
  (name: string) =>
  ({ body }: PeerReply): boolean =>
    decodeUtf8(body).includes(`<${name}`);

export async function send(
  { peers }: Pick<ShipmentCtx, 'peers'>,
  { access, to, bucketOwner, row, bandwidth, signal }: Omit<Shipment, 'objectKey' | 'peer' | 'hasMoved'>,
  request: Omit<PeerSending, 'bucket' | 'key'>,
): Promise<PeerReply> {
  const headers = { ...request.headers, ...ownedBy(bucketOwner) };
  const about = { ...request, headers, bucket: to, key: row.key };
  const body = await gatherSmall(request.body);
  if (body === undefined) return peers.send(access, about, signal);
  if (bandwidth === undefined) return peers.send(access, { ...about, body }, signal);
  const { pace } = bandwidth;
  if ('pieces' in body) {
    const streamed = { ...body, pieces: paced(body.pieces, pace, signal) };
    const request = { ...about, body: streamed };
    return bandwidth.run(body.length, () => peers.send(access, request, signal), signal);
  }
  await bandwidth.run(body.length, () => pace(body.length, signal), signal);
  return peers.send(access, { ...about, body }, signal);
}

export const ownedBy = (bucketOwner: string | undefined): Readonly<Record<string, string>> =>
  bucketOwner === undefined ? {} : { '*-expected-bucket-owner': bucketOwner };

/** A small body as one piece, whose digest is signed too. */
const gatherSmall = async (body: PeerSending['body']): Promise<PeerSending['body']> =>
  body === undefined || !('pieces' in body) || body.length > smallBodyMax
    ? body
    : gather(body.pieces, { size: body.length });

/** Small enough that a body flows, and does not stop for seconds. */
const pacedBytes = 16 * 1024;

async function* paced(
  pieces: AsyncIterable<Uint8Array>,
  pace: Pace,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces)
    for (let start = 0; start < piece.length; start += pacedBytes) {
      const slice = piece.subarray(start, start + pacedBytes);
      await pace(slice.length, signal);
      yield slice;
    }
}

export async function* readContent(
  ctx: ShipmentCtx,
  { row, objectKey, signal, account }: Shipment,
  { start, size }: { readonly start: number; readonly size: number },
): AsyncGenerator<Uint8Array> {
  const slice = { start, end: start + size - 1 };
  if (size > 0) yield* readObject(ctx, row, slice, { objectKey, signal, account });
}

interface UploadBegin extends Pick<PeerSending, 'query' | 'headers' | 'body'> {
  /** Send the MD5 of each part, for which its content is read twice. */
  readonly withDigests?: boolean;
}

/** Sends the parts of a version, a part that fails several times. An upload that fails is aborted, so that it does not stay at the peer. */
export async function sendUpload(
  ctx: ShipmentCtx,
  shipment: Shipment,
  { withDigests = false, ...begin }: UploadBegin,
): Promise<void> {
  const { row } = shipment;
  const begun = await send(ctx, shipment, { ...begin, method: 'POST' });
  checkSign(begun, 'CreateMultipartUpload', hasElement('UploadId'));
  const [, uploadId = ''] = /<UploadId>([^<]{1,1024})<\/UploadId>/.exec(decodeUtf8(begun.body)) ?? [];
  const ofUpload = ['uploadId', uploadId] as const;
  const forget = await rememberUpload(ctx, {
    peer: shipment.peer,
    bucket: shipment.to,
    key: row.key,
    uploadId,
  });
  try {
    const parts: string[] = [];
    let start = 0;
    for await (const { number, extent } of partsFrom(ctx, row)) {
      if (await shipment.hasMoved()) throw new Error('the peer has another endpoint now');
      const size = contentSize(extent, row.encryption);
      const content = () => readContent(ctx, shipment, { start, size });
      const headers: Readonly<Record<string, string>> = withDigests
        ? { 'content-md5': await hashPieces(ctx, content()) }
        : {};
      const query = [['partNumber', String(number)], ofUpload] as const;
      const reply = await retryPart(ctx, shipment, async () => {
        const body = { length: size, pieces: content() };
        return checkSign(
          await send(ctx, shipment, { method: 'PUT', query, headers, body }),
          'UploadPart',
          hasEtag,
        );
      });
      const { etag = '' } = reply.headers;
      parts.push(`<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`);
      start += size;
    }
    const list = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
    const body = new TextEncoder().encode(list);
    const completed = await send(ctx, shipment, { method: 'POST', query: [ofUpload], body });
    checkSign(completed, 'CompleteMultipartUpload', hasElement('CompleteMultipartUploadResult'));
    await forget();
  } catch (cause) {
    const aborted = await send(ctx, shipment, { method: 'DELETE', query: [ofUpload] }).catch(() => undefined);
    if (aborted !== undefined && isAborted(aborted)) await forget();
    throw cause;
  }
}

/** Attempts of a part, so that one failure among thousands of parts does not send all of them again. */
const partAttempts = 3;
const partPauseMs = 1_000;

async function retryPart(
  { clock }: Pick<ShipmentCtx, 'clock'>,
  { signal }: Pick<Shipment, 'signal'>,
  sendPart: () => Promise<PeerReply>,
): Promise<PeerReply> {
  for (let attempt = 1; ; attempt += 1)
    try {
      return await sendPart();
    } catch (cause) {
      if (attempt === partAttempts || !mayPass(cause)) throw cause;
      await clock.sleep(partPauseMs * attempt, signal);
    }
}

/** Whether a further attempt may succeed within seconds. */
const mayPass = (cause: unknown): boolean =>
  cause instanceof PeerSilent ||
  cause instanceof UnexpectedAnswer ||
  (cause instanceof PeerRefused &&
    (cause.status >= 500 || ['BadDigest', 'IncompleteBody', 'RequestTimeout'].includes(cause.code)));

const goneCodes: ReadonlySet<string> = new Set(['NoSuchUpload', 'NoSuchKey', 'NoSuchBucket']);

const isAborted = (reply: PeerReply): boolean =>
  (reply.status < 300 && isEmpty(reply)) || goneCodes.has(codeIn(reply));

/** @returns their MD5, as `content-md5` has it */
export async function hashPieces(
  { hasher }: Pick<ShipmentCtx, 'hasher'>,
  pieces: AsyncIterable<Uint8Array>,
): Promise<string> {
  const md5 = hasher.create('md5');
  for await (const piece of pieces) md5.update(piece);
  return toBase64(md5.digest());
}

// Multipart uploads of this site that are open at a peer. Each is stored before its first part, so that the replicator
// which follows a killed one aborts it: parts of an open upload take room at the peer for ever.

interface OpenUpload {
  readonly peer: string;
  /** The bucket at the peer. */
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: string;
}
const uploads: TaskKind<OpenUpload> = { kind: 'replication-uploads' };

/** A peer that is not reached for so long has probably ended the upload by its own rules. */
const retentionMs = 7 * 24 * 60 * 60 * 1000;
/** Uploads that are aborted at a time. */
const abortsMax = 8;

/** Stores an upload. @returns a function that forgets it, once it is completed or aborted */
async function rememberUpload(
  { metadata, hasher }: Pick<Context, 'metadata' | 'hasher'>,
  upload: OpenUpload,
): Promise<() => Promise<void>> {
  const name = hasher.sha256Hex(`${upload.peer}/${upload.bucket}/${upload.key}?${upload.uploadId}`);
  const expiresAt = (await metadata.now()) + retentionMs;
  const outcome = await putTask(metadata, uploads, { name, state: upload, expect: 'absent', expiresAt });
  return async () => {
    if (outcome.applied)
      await putTasks(metadata, uploads, { changes: [{ remove: { name }, expect: outcome.revision }] });
  };
}

type LeftUploadsCtx = Pick<Context, 'metadata'> & { readonly peers: PeerRequests };

/** The uploads that former replicators left, and those that are under way. */
export async function listLeftUploads({
  metadata,
}: Pick<LeftUploadsCtx, 'metadata'>): Promise<readonly Task<OpenUpload>[]> {
  const left: Task<OpenUpload>[] = [];
  for await (const task of everyTask(metadata, uploads)) left.push(task);
  return left;
}

/** Aborts them. One whose peer does not say that it is gone stays for the next replicator; a peer that hangs is waited for. */
export async function abortUploads(
  ctx: LeftUploadsCtx,
  left: readonly Task<OpenUpload>[],
  {
    open,
    signal,
  }: {
    readonly open: (destination: Destination) => Promise<{ readonly access: PeerAccess }>;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const silent = new Set<string>();
  await inParallel(abortsMax, left, async ({ name, state, revision }) => {
    const { peer, bucket, key, uploadId } = state;
    if (silent.has(peer)) return;
    try {
      const { access } = await open({ peer, bucket });
      const query = [['uploadId', uploadId]] as const;
      const aborted = await ctx.peers.send(access, { method: 'DELETE', bucket, key, query }, signal);
      if (!isAborted(aborted)) return;
    } catch {
      signal.throwIfAborted();
      silent.add(peer);
      return;
    }
    await putTasks(ctx.metadata, uploads, { changes: [{ remove: { name }, expect: revision }] });
  });
}
