/** Counts the requests and bytes of accounts and buckets, for invoices; and the bytes of replies, for metrics. */

import type { Awaitable } from '../base/awaitable.ts';
import type { Context } from '../context.ts';
import { type TrafficAmount, TrafficCounter, type TrafficKey } from '../domain/usage/traffic-counter.ts';
import { isOperation } from '../protocol/operations/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Incoming } from '../protocol/wire.ts';
import { utf8Length } from '../request/parameters.ts';
import type { RequestContext } from '../request/request.ts';
import { PacedBody } from './body-pace.ts';

type Class = 'requestsA' | 'requestsB' | 'requestsFree';

/** Requests that the gateway refused to a stranger, or could not do, are not billed. */
const isUncounted = (status: number): boolean => status === 401 || status === 403 || status >= 500;

export const receivedBytesOf = ({ body }: Incoming): number =>
  body instanceof PacedBody ? body.totalBytes : 0;

/** Counts a request and its bytes: those of its body now, those of the reply as they are read. */
export function countTraffic(ctx: Context, request: RequestContext, reply: Reply): Reply {
  const { operation, incoming } = request;
  const bucket = request.bucket?.name;
  const key = findPaid(ctx, request, reply.status);
  const count = (amount: TrafficAmount): void => {
    if (amount.egressBytes !== undefined) ctx.telemetry.bytesSent(amount.egressBytes, bucket);
    if (key !== undefined) ctx.caches.of(TrafficCounter).count(ctx, key, amount);
  };
  const amount: TrafficAmount = {
    [classify(operation, incoming.wire.method)]: 1,
    ingressBytes: receivedBytesOf(incoming),
  };
  const { body } = reply;
  const isStreamed = typeof body === 'object' && Symbol.asyncIterator in body;
  if (!isStreamed || incoming.wire.method === 'HEAD') {
    const egressBytes = incoming.wire.method === 'HEAD' || isStreamed ? 0 : measure(body);
    count({ ...amount, egressBytes });
    return reply;
  }
  count(amount);
  return { ...reply, body: countedBody(body, (egressBytes) => count({ egressBytes })) };
}

/** Undefined for what no invoice contains. */
function findPaid(ctx: Context, request: RequestContext, status: number): TrafficKey | undefined {
  const { operation, area } = request;
  if (ctx.config.SVC_USAGE_TRAFFIC_INTERVAL === 0 || area !== undefined) return undefined;
  return isOperation(operation) && !isUncounted(status) ? findKey(request) : undefined;
}

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

const measure = (body: string | Uint8Array | undefined): number =>
  typeof body === 'string' ? utf8Length(body) : (body?.length ?? 0);

// Counts the bytes of a reply that is streamed.

type Over = (bytes: number) => Awaitable<void>;
type Step = IteratorResult<Uint8Array>;

/**
 * The same body; calls `over` once with the number of bytes that were read, at its end or when the reader stops. All that wait for the
 * end of a body share one layer, and are called in turn.
 */
export function countedBody(body: AsyncIterable<Uint8Array>, over: Over): AsyncIterable<Uint8Array> {
  const counted = body instanceof CountedBody ? body : new CountedBody(body);
  counted.overs.push(over);
  return counted;
}

/** A class without async functions, because most replies with content have one. */
class CountedBody implements AsyncIterableIterator<Uint8Array> {
  readonly overs: Over[] = [];
  readonly #body: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #bytes = 0;
  #isOver = false;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
    return this.#iterator.next().then(this.#pass, this.#broken);
  }

  async return(): Promise<Step> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
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
