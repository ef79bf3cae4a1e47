/**
 * The bytes of requests and replies: counts them for invoices and metrics, and paces the bodies that clients send.
 */

import type { Awaitable } from '../base/awaitable.ts';
import { fail } from '../base/errors.ts';
import { type SharedBudget, SharedMemory, sharedBudget } from '../base/shared-budget.ts';
import type { Context } from '../context.ts';
import { type TrafficAmount, TrafficCounter, type TrafficKey } from '../domain/usage/traffic-counter.ts';
import { noLabels } from '../ports/telemetry.ts';
import { isOperation } from '../protocol/operations/operations.ts';
import { isStream } from '../protocol/render.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Incoming } from '../protocol/wire.ts';
import { findMemoryHolder } from '../request/body.ts';
import { utf8Length } from '../request/parameters.ts';
import type { RequestContext } from '../request/request.ts';

type Class = 'requestsA' | 'requestsB' | 'requestsFree';

/** Requests that the gateway refused to a stranger, or could not do, are not billed. */
const isUncounted = (status: number): boolean => status === 401 || status === 403 || status >= 500;

export const countReceived = ({ body }: Incoming): number =>
  body instanceof PacedBody ? body.totalBytes : 0;

/** Counts a request and its bytes: those of its body now, those of the reply as they are read. */
export function countTraffic(ctx: Context, request: RequestContext, reply: Reply): Reply {
  const { operation, incoming, bucket } = request;
  const { method } = incoming.wire;
  const key = findPaid(ctx, request, reply.status);
  const count = (amount: TrafficAmount): void => {
    if (amount.egressBytes !== undefined) countSent(ctx, bucket, amount.egressBytes);
    if (key !== undefined) ctx.caches.of(TrafficCounter).count(ctx, key, amount);
  };
  const amount: TrafficAmount = {
    [classify(operation, method)]: 1,
    ingressBytes: countReceived(incoming),
  };
  const { body } = reply;
  if (method === 'HEAD' || !isStream(body)) {
    count({ ...amount, egressBytes: method === 'HEAD' ? 0 : measure(body) });
    return reply;
  }
  count(amount);
  return { ...reply, body: countedBody(body, (egressBytes) => count({ egressBytes })) };
}

function countSent({ telemetry }: Context, bucket: RequestContext['bucket'], bytes: number): void {
  telemetry.count('svc_http_sent_bytes_total', noLabels, bytes);
  if (bucket !== undefined)
    telemetry.count('svc_bucket_sent_bytes_total', { bucket: bucket.name, account: bucket.owner }, bytes);
}

/** Undefined for what no invoice contains. */
function findPaid(ctx: Context, request: RequestContext, status: number): TrafficKey | undefined {
  const { operation, area } = request;
  if (ctx.config.SVC_USAGE_TRAFFIC_INTERVAL === 0 || area !== undefined) return undefined;
  if (!isOperation(operation) || isUncounted(status) || isRefusedStranger(request)) return undefined;
  return findKey(request);
}

/** A stranger must not be able to put requests on the bill of a bucket, whatever the status of their refusal. */
const isRefusedStranger = ({ bucket, identity, isPermitted }: RequestContext): boolean =>
  bucket !== undefined && isPermitted !== true && identity?.owner !== bucket.owner;

function findKey({ bucket, identity, requesterPays }: RequestContext): TrafficKey | undefined {
  const requester = identity?.owner ?? '';
  if (bucket !== undefined)
    return {
      bucketId: bucket.id,
      bucket: bucket.name,
      requester,
      payer: requesterPays === true ? requester : bucket.owner,
    };
  return requester === '' ? undefined : { bucketId: '', bucket: '', requester, payer: requester };
}

/** As the price lists of public services: writes and listings, reads, and what is free of charge. */
function classify(operation: string, method: string): Class {
  if (/^(?:Delete|Abort)/.test(operation)) return 'requestsFree';
  const isRead = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
  return isRead && !operation.startsWith('List') ? 'requestsB' : 'requestsA';
}

const measure = (body: Reply['body']): number =>
  typeof body === 'string' ? utf8Length(body) : body instanceof Uint8Array ? body.length : 0;

// Counts the bytes of a reply that is streamed.

type Over = (bytes: number) => Awaitable<void>;
type Step = IteratorResult<Uint8Array>;

/**
 * The same body; calls `over` once with the number of bytes that were read, at its end or when the reader stops. All that wait for the
 * end of a body share one layer, and are called in turn.
 */
export function countedBody(body: AsyncIterable<Uint8Array>, over: Over): CountedBody {
  const counted = body instanceof CountedBody ? body : new CountedBody(body);
  counted.overs.push(over);
  return counted;
}

/** A class without async functions, because most replies with content have one. */
class CountedBody implements AsyncIterableIterator<Uint8Array> {
  readonly overs: Over[] = [];
  readonly #iterator: AsyncIterator<Uint8Array>;
  #first: Promise<Step> | undefined;
  #bytes = 0;
  #isOver = false;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#iterator = body[Symbol.asyncIterator]();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Reads the first piece before the reply has a status, so that the failure of that read is the status that is recorded. */
  async begin(): Promise<this> {
    this.#first = this.#iterator.next();
    await this.#first.catch(this.#broken);
    return this;
  }

  next(): Promise<Step> {
    const step = this.#first ?? this.#iterator.next();
    this.#first = undefined;
    return step.then(this.#pass, this.#broken);
  }

  async return(): Promise<Step> {
    try {
      await this.#iterator.return?.();
    } finally {
      await this.#end();
    }
    return { done: true, value: undefined };
  }

  readonly #pass = (step: Step): Awaitable<Step> => {
    if (step.done !== true) {
      this.#bytes += step.value.length;
      return step;
    }
    const ending = this.#end();
    return ending === undefined ? step : ending.then(() => step);
  };

  readonly #broken = async (cause: unknown): Promise<never> => {
    await this.#end();
    throw cause;
  };

  #end(): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    return this.#tell(0);
  }

  #tell(first: number): Promise<void> | undefined {
    for (let at = first; at < this.overs.length; at += 1) {
      const telling = this.overs[at]?.(this.#bytes);
      if (telling instanceof Promise) return telling.then(() => this.#tell(at + 1));
    }
    return undefined;
  }
}

// Replies that are built whole, such as listings. A client that does not read its reply keeps it in memory, so those of all requests of a
// process together are limited, and shared among accounts.

/** Smaller replies are not counted. */
const countedReplyMin = 64 * 1024;
const memoryPart = 1 / 8;
const encoder = new TextEncoder();

class UnsentReplies {
  #memory: SharedMemory | undefined;

  memory({ config }: Pick<Context, 'config'>): SharedMemory {
    this.#memory ??= new SharedMemory(config.SVC_MEMORY_MAX * memoryPart);
    return this.#memory;
  }
}

const tooMuchUnsent = () =>
  fail('SlowDown', 'Too many large replies wait for their clients to read them. Read them, and retry.');

/**
 * Asked before a change whose reply may be large: once it is made, its reply cannot be refused. Such a reply is about
 * as long as the body of its request.
 * @throws SlowDown
 */
export function assertUnsentFits(ctx: Context, request: RequestContext): void {
  const memory = ctx.caches.of(UnsentReplies).memory(ctx);
  const bytes = Math.max(countedReplyMin, request.bufferedBytes);
  if (!memory.hasSpace(bytes, findMemoryHolder(request))) throw tooMuchUnsent();
}

/**
 * The same reply, which holds memory until it was read or its client has disconnected.
 * @throws SlowDown for a read that does not fit; whatever the first read of a streamed content throws
 */
export function limitUnsent(ctx: Context, request: RequestContext, reply: Reply): Awaitable<Reply> {
  const { body } = reply;
  const { method } = request.incoming.wire;
  if (method === 'HEAD' || body === undefined) return reply;
  if (isStream(body)) return method === 'GET' ? limitDownload(ctx, request, { reply, body }) : reply;
  if (body.length < countedReplyMin) return reply;
  // The process has the files of the console once, for all requests.
  if (request.area === 'console') return reply;
  const bytes = typeof body === 'string' ? encoder.encode(body) : body;
  const memory = ctx.caches.of(UnsentReplies).memory(ctx);
  const holder = findMemoryHolder(request);
  if (!memory.take(bytes.length, holder)) {
    if (method === 'GET') throw tooMuchUnsent();
    // The change is made, so its reply is sent in any case.
    memory.add(bytes.length, holder);
  }
  const hasLength = reply.headers.some(([name]) => name.toLowerCase() === 'content-length');
  return {
    ...reply,
    headers: hasLength ? reply.headers : [...reply.headers, ['Content-Length', String(bytes.length)]],
    body: countedBody(inOnePiece(bytes), () => memory.give(bytes.length, holder)),
  };
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

// Contents that are streamed to and from storage. A client may be slow, and each takes memory meanwhile, so their number is limited, and
// shared among accounts. An upload may be as slow as `SVC_BODY_RATE_MIN`.

/** The most that an upload has in its socket, in the listener and in the store. */
const streamedBytesMax = 512 * 1024;
/** The most that a download has in the store and on its way to the socket. */
const downloadBytesMax = 256 * 1024;
/** Smaller bodies are not counted. */
const countedBodyMin = 16 * 1024;

/** The part that all uploads together, or all downloads together, may hold: the rest stays for the other ones. Accounts share it, too. */
const directionPart = 7 / 8;
/** How many times as much as is free of that an account may hold. It gets three quarters of the whole where it is alone, as of any budget. */
const directionShareMax = 6;

class StreamedContents {
  #memory: SharedMemory | undefined;
  readonly #parts: { upload?: SharedBudget; download?: SharedBudget } = {};

  /** @returns a function that releases the memory; undefined where it does not fit */
  reserve(
    { config }: Pick<Context, 'config'>,
    request: RequestContext,
    { bytes, direction }: { readonly bytes: number; readonly direction: 'upload' | 'download' },
  ): (() => void) | undefined {
    const bytesMax = config.SVC_MEMORY_MAX;
    this.#memory ??= new SharedMemory(bytesMax);
    this.#parts[direction] ??= sharedBudget(bytesMax * directionPart, directionShareMax);
    const memory = this.#memory;
    const part = this.#parts[direction];
    const holder = findMemoryHolder(request);
    const { account } = holder;
    if (!part.hasSpace(bytes, account) || !memory.take(bytes, holder)) return undefined;
    part.add(bytes, account);
    return () => {
      memory.give(bytes, holder);
      part.give(bytes, account);
    };
  }
}

/**
 * Reserves the memory of a body that is streamed to storage.
 * @returns a function that releases it; undefined for a small body
 * @throws SlowDown
 */
export function reserveStreamed(ctx: Context, request: RequestContext): (() => void) | undefined {
  const bytes = Math.min(request.payload?.length ?? streamedBytesMax, streamedBytesMax);
  if (bytes < countedBodyMin) return undefined;
  const release = ctx.caches.of(StreamedContents).reserve(ctx, request, { bytes, direction: 'upload' });
  if (release === undefined)
    throw fail('SlowDown', 'Too many uploads are under way. Let some of them end, and retry.');
  return release;
}

/** The same reply, begun, which holds its part of the memory until it was read or its client has disconnected. @throws SlowDown */
async function limitDownload(
  ctx: Context,
  request: RequestContext,
  { reply, body }: { readonly reply: Reply; readonly body: AsyncIterable<Uint8Array> },
): Promise<Reply> {
  const length = reply.headers.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  const bytes = Math.min(length === undefined ? downloadBytesMax : Number(length), downloadBytesMax);
  if (bytes < countedReplyMin) return reply;
  const release = ctx.caches.of(StreamedContents).reserve(ctx, request, { bytes, direction: 'download' });
  if (release !== undefined) return { ...reply, body: await countedBody(body, release).begin() };
  body[Symbol.asyncIterator]()
    .return?.()
    .catch(() => {});
  throw fail('SlowDown', 'Too many downloads are under way. Let some of them end, and retry.');
}

// How slowly a client may send a body. A body that is read whole has a deadline. One that is streamed to storage has a minimum rate,
// measured only over the time in which the gateway waits for the client.

type Ctx = Pick<Context, 'clock' | 'config'>;

/** The window in which the rate is measured, long enough for a pause of a mobile client. */
const windowMs = 30_000;

/** Single use, as the body is. It has a deadline until `stream` is called. */
export class PacedBody implements AsyncIterableIterator<Uint8Array> {
  readonly #ctx: Ctx;
  readonly #source: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #isStreamed = false;
  /** Ends the wait for the deadline. */
  #deadline: AbortController | undefined;
  #isLate = false;
  #miss: ((error: Error) => void) | undefined;
  #waitedMs = 0;
  /** Of the present window. */
  #receivedBytes = 0;
  /** Everything that the client has sent so far. */
  totalBytes = 0;
  /** How long the gateway has waited for it. */
  clientMs = 0;

  constructor(ctx: Ctx, source: AsyncIterable<Uint8Array>) {
    this.#ctx = ctx;
    this.#source = source;
  }

  /** Replaces the deadline by the minimum rate. */
  stream(): void {
    this.#isStreamed = true;
    this.#deadline?.abort();
  }

  /** For a body that a refusal leaves unread, such as the file of a form: its timer would hold the body, and keep the process alive. */
  endDeadline(): void {
    this.#deadline?.abort();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    this.#iterator ??= this.#source[Symbol.asyncIterator]();
    return this.#isStreamed ? this.#nextInRate(this.#iterator) : this.#nextInTime(this.#iterator);
  }

  return(): Promise<Step> {
    this.#deadline?.abort();
    return this.#iterator?.return?.() ?? Promise.resolve({ done: true, value: undefined });
  }

  #nextInRate(iterator: AsyncIterator<Uint8Array>): Promise<Step> {
    const { clock, config } = this.#ctx;
    const askedAt = clock.elapsed();
    return iterator.next().then((step) => {
      const waitedMs = clock.elapsed() - askedAt;
      this.#waitedMs += waitedMs;
      this.clientMs += waitedMs;
      if (step.done === true) return step;
      this.#receivedBytes += step.value.length;
      this.totalBytes += step.value.length;
      if (this.#waitedMs < windowMs) return step;
      const isTooSlow = this.#receivedBytes < (config.SVC_BODY_RATE_MIN * this.#waitedMs) / 1000;
      this.#waitedMs = 0;
      this.#receivedBytes = 0;
      if (isTooSlow) throw fail('RequestTimeout', 'The body arrived too slowly.');
      return step;
    });
  }

  async #nextInTime(iterator: AsyncIterator<Uint8Array>): Promise<Step> {
    this.#startDeadline();
    if (this.#isLate) throw tooLate();
    const { clock } = this.#ctx;
    const askedAt = clock.elapsed();
    const missed = new Promise<never>((_, reject) => {
      this.#miss = reject;
    });
    try {
      const step = await Promise.race([iterator.next(), missed]);
      if (step.done === true) this.#deadline?.abort();
      else this.totalBytes += step.value.length;
      return step;
    } catch (cause) {
      this.#deadline?.abort();
      throw cause;
    } finally {
      this.clientMs += clock.elapsed() - askedAt;
      this.#miss = undefined;
    }
  }

  #startDeadline(): void {
    if (this.#deadline !== undefined) return;
    const { clock, config } = this.#ctx;
    const deadline = new AbortController();
    this.#deadline = deadline;
    void clock.sleep(config.SVC_BODY_TIMEOUT, deadline.signal).then(() => {
      if (deadline.signal.aborted) return;
      this.#isLate = true;
      this.#miss?.(tooLate());
    });
  }
}

const tooLate = () => fail('RequestTimeout', 'The body was not complete within the time limit.');
