/** Signed requests to one upstream over kept connections; the one import of undici. */
import type { Readable } from 'node:stream';
import undici from 'undici/index.js';
import { SharedSemaphore } from '../../../base/mutex.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Hasher } from '../../../ports/cryptography.ts';
import { DataUnavailable } from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';
import type { CallUse } from '../../../ports/trace.ts';
import { unsignedPayload } from '../../../protocol/dialect.ts';
import { type Signer, signer } from '../../../signing/sign-request.ts';
import { encode } from '../../../signing/signing-key.ts';
import { answerLimits, error, isPassing, readAnswer, UpstreamError } from './answers.ts';
import type { UploadBody } from './upload-body.ts';

// By its file name, because Bun replaces the bare name by a module of its own.

export interface UpstreamRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Absent: the bucket itself. */
  readonly key?: string;
  readonly query?: readonly (readonly [string, string])[] | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | UploadBody | undefined;
  /** The SHA-256 that the upstream must find the body to have; without it the body is not signed. */
  readonly sha256?: string;
  readonly signal?: AbortSignal | undefined;
  /** The timeout of the answer; the setting's unless given. */
  readonly timeoutMs?: number;
}

export interface UpstreamReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
}

/** The bucket's address: its host, and the path before a key. */
export function resolveAddress({
  endpoint,
  bucket,
  style,
}: Pick<Upstream, 'endpoint' | 'bucket' | 'style'>): {
  readonly origin: string;
  readonly host: string;
  readonly base: string;
} {
  const url = new URL(endpoint);
  if (style === 'virtual-host') url.hostname = `${bucket}.${url.hostname}`;
  return { origin: url.origin, host: url.host, base: style === 'path' ? `/${encode(bucket)}` : '' };
}

/**
 * Reads that run at a time; others wait, those of the accounts in rotation. One account alone gets 1,024 of these
 * turns. Further ones are for all other requests: a copy writes while it reads, and would else wait for turns that only
 * copies hold.
 */
const turnsMax = 1_365;
const emptySha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** What the clients of one upstream share. */
interface Shared {
  readonly upstream: Upstream;
  readonly pool: undici.Pool;
  readonly reads: SharedSemaphore;
  readonly others: SharedSemaphore;
  readonly sign: Signer;
  readonly host: string;
  readonly base: string;
}

export function openUpstreamClient(
  upstream: Upstream,
  ports: { readonly hasher: Hasher; readonly clock: Pick<Clock, 'now'> },
): UpstreamClient {
  const { ca, insecure, timeoutMs, accessKey, secretKey, region } = upstream;
  const { origin, host, base } = resolveAddress(upstream);
  const sign = signer({ ...ports, accessKey, secretKey, region });
  const pool = new undici.Pool(origin, {
    connections: 2 * turnsMax,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { timeout: timeoutMs, rejectUnauthorized: !insecure, ...(ca === undefined ? {} : { ca }) },
  });
  const turns = { reads: new SharedSemaphore(turnsMax), others: new SharedSemaphore(turnsMax) };
  return new UpstreamClient({ upstream, pool, ...turns, sign, host, base });
}

export class UpstreamClient {
  readonly #shared: Shared;
  readonly #use: CallUse;

  constructor(shared: Shared, use: CallUse = {}) {
    this.#shared = shared;
    this.#use = use;
  }

  /** The same connections; its requests take turns of the account, and name the span. */
  usedFor(use: CallUse): UpstreamClient {
    return new UpstreamClient(this.#shared, use);
  }

  /** @throws UpstreamError for any answer but a success, and for none; an error of the body's source is thrown unchanged */
  async send(request: UpstreamRequest): Promise<UpstreamReply> {
    const { signal } = request;
    const { reads, others } = this.#shared;
    const endTurn = await (request.method === 'GET' ? reads : others).begin(this.#use.account ?? '', signal);
    try {
      const reply = await this.#dispatch(request);
      reply.body.once('close', endTurn);
      if (reply.status < 300) return reply;
      throw await refused({ ...request, id: this.#shared.upstream.id }, reply);
    } catch (cause) {
      endTurn();
      const { body } = request;
      // A body that was not read yet can be sent again.
      if (body !== undefined && 'stop' in body && body.isBegun) {
        await body.stop();
        if (body.failure !== undefined) throw body.failure.cause;
      }
      signal?.throwIfAborted();
      throw cause instanceof UpstreamError ? cause : this.#silent(cause);
    }
  }

  /** The whole of a short answer. */
  async ask(
    request: UpstreamRequest,
  ): Promise<{ readonly headers: UpstreamReply['headers']; readonly bytes: Uint8Array }> {
    const { headers, body } = await this.send(request);
    try {
      return { headers, bytes: await whole(body) };
    } catch (cause) {
      request.signal?.throwIfAborted();
      throw this.#silent(cause);
    }
  }

  async close(): Promise<void> {
    await this.#shared.pool.destroy();
  }

  async #dispatch({ method, key, query = [], headers = {}, ...rest }: UpstreamRequest) {
    const { body, sha256 = unsignedPayload, signal, timeoutMs } = rest;
    const { base, host, sign, pool } = this.#shared;
    const path = key === undefined ? base || '/' : `${base}/${key.split('/').map(encode).join('/')}`;
    const signed = sign({
      method,
      path,
      query,
      headers: { ...headers, host },
      payloadHash: body === undefined ? emptySha256 : sha256,
    });
    const length = body === undefined ? undefined : 'size' in body ? body.size : body.length;
    // Not signed: proxies replace it.
    const { traceparent } = this.#use.cause ?? {};
    const sent = traceparent === undefined ? signed.headers : { ...signed.headers, traceparent };
    const reply = await pool.request({
      method,
      path: signed.target,
      headers: length === undefined ? sent : { ...sent, 'content-length': String(length) },
      // The cast: undici takes any iterable of arrays, which its types do not say.
      body: (body ?? null) as Uint8Array | null,
      signal: signal ?? null,
      ...(timeoutMs === undefined ? {} : { headersTimeout: timeoutMs, bodyTimeout: timeoutMs }),
    });
    // A reader that leaves a body early destroys it and handles no more errors.
    reply.body.on('error', () => {});
    // The cast: repeated headers arrive as arrays, and none of those is read.
    return { status: reply.statusCode, headers: reply.headers as Record<string, string>, body: reply.body };
  }

  #silent(cause: unknown): UpstreamError {
    const { id, endpoint } = this.#shared.upstream;
    const why = cause instanceof Error ? cause.message : String(cause);
    return new UpstreamError(`upstream ${id} at ${endpoint} did not answer: ${why}`, { cause });
  }
}

async function whole(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body) {
    size += piece.length;
    if (size > answerLimits.maxBytes)
      throw new Error(`an answer of more than ${answerLimits.maxBytes} bytes`);
    pieces.push(piece);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

const retryAfterMaxMs = 30_000;

async function refused(
  { id, method, key }: Pick<UpstreamRequest, 'method' | 'key'> & Pick<Upstream, 'id'>,
  { status, headers, body }: UpstreamReply,
): Promise<UpstreamError> {
  const code = codeIn(await whole(body).catch(() => new Uint8Array(0)));
  const seconds = Number(headers['retry-after']);
  const what = `${method} ${key ?? 'of its bucket'}`;
  const answer = `${status}${code === '' ? '' : ` ${code}`}`;
  return new UpstreamError(`upstream ${id} answered ${answer} to ${what}`, {
    status,
    code,
    retryAfterMs: seconds > 0 ? Math.min(seconds * 1000, retryAfterMaxMs) : undefined,
  });
}

/** The code of an error body; '' where there is none, as for HEAD. */
export function codeIn(body: Uint8Array): string {
  if (body.length === 0) return '';
  try {
    return readAnswer(error, 'Error', body).Code;
  } catch {
    return '';
  }
}

// Retries of failed upstream requests, for as long as a client waits.

export interface RetryContext {
  readonly clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly random: Random;
}

const attemptsMax = 4;
const pauseFirstMs = 100;
const pauseMaxMs = 2_000;
/** After so long there is no further attempt: clients retry too. */
const patienceMs = 10_000;

/** One series of attempts; `progress` starts it again. */
export class Attempts {
  readonly #ctx: RetryContext;
  readonly #signal: AbortSignal | undefined;
  #failed = 0;
  #since: number;

  constructor(ctx: RetryContext, signal?: AbortSignal) {
    this.#ctx = ctx;
    this.#signal = signal;
    this.#since = ctx.clock.elapsed();
  }

  progress(): void {
    this.#failed = 0;
    this.#since = this.#ctx.clock.elapsed();
  }

  /** Returns after a pause when it is worth another attempt, and throws otherwise: `DataUnavailable` for an outage. */
  async failed(cause: unknown, { isRepeatable }: { readonly isRepeatable: boolean }): Promise<void> {
    this.#signal?.throwIfAborted();
    if (!(cause instanceof UpstreamError) || !isPassing(cause)) throw cause;
    this.#failed += 1;
    const pause = this.#pauseMs(cause);
    const { clock } = this.#ctx;
    const isLate = clock.elapsed() - this.#since + pause > patienceMs;
    if (!isRepeatable || isLate || this.#failed >= attemptsMax)
      throw new DataUnavailable(cause.message, { cause });
    await clock.sleep(pause, this.#signal);
    this.#signal?.throwIfAborted();
  }

  /** Doubling, spread over its second half, and never before the upstream's `Retry-After`. */
  #pauseMs({ retryAfterMs = 0 }: UpstreamError): number {
    const longest = Math.min(pauseFirstMs * 2 ** (this.#failed - 1), pauseMaxMs);
    const share = (this.#ctx.random.bytes(1)[0] ?? 0) / 255;
    return Math.max(retryAfterMs, longest * (0.5 + share / 2));
  }
}

export async function retrying<T>(
  ctx: RetryContext,
  {
    signal,
    isRepeatable = () => true,
  }: { readonly signal?: AbortSignal | undefined; isRepeatable?(): boolean },
  attempt: () => Promise<T>,
): Promise<T> {
  const attempts = new Attempts(ctx, signal);
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      await attempts.failed(cause, { isRepeatable: isRepeatable() });
    }
  }
}

/** The settings of one upstream: an endpoint of the public API, and a bucket. */
export interface Upstream {
  /** The cluster that it is. */
  readonly id: string;
  /** `http` or `https`, without a path. */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** A prefix of the names of all objects, so that the bucket can be shared. */
  readonly prefix: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** The bucket's place in a URL. */
  readonly style: 'path' | 'virtual-host';
  /** PEM; the certificates that the runtime trusts when absent. */
  readonly ca?: string | undefined;
  /** No certificate is checked: any server that answers counts as the upstream. */
  readonly insecure: boolean;
  /** How long the upstream may be silent. */
  readonly timeoutMs: number;
}
