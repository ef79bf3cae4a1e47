/** The sinks of a runtime whose only clients are `fetch` and bindings, such as Cloudflare Workers: webhooks and queues. */
import type { Delivery, EventSink, EventSinks, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { explainMissing, type SinkOptions } from './sink-options.ts';
import { type WebhookClient, webhookSink } from './webhook-sink.ts';

const fileFields = ['caFile', 'certFile', 'keyFile'] as const;

/** What the runtime passes to a Worker under the names of its bindings. */
export type Bindings = Readonly<Record<string, unknown>>;

/** @returns why this runtime cannot deliver to the target; undefined where it can */
export function explainUnsupported(target: SinkTarget, bindings: Bindings): string | undefined {
  const { id, type, binding = '' } = target;
  if (type === 'queue')
    return isQueueBinding(bindings[binding])
      ? undefined
      : `the target ${id} needs a queue under the binding ${binding}: add [[queues.producers]] with binding = "${binding}" to wrangler.toml`;
  if (type !== 'webhook')
    return `the target ${id} is of type ${type}, and this runtime has webhook and queue only`;
  const file = fileFields.find((field) => target[field] !== undefined);
  return file && `the target ${id} has ${file}, and this runtime has no files`;
}

const isAddress = (host: string): boolean => host.includes(':') || /^\d+(?:\.\d+){3}$/.test(host);

/** Checks only an address that the URL contains: the runtime resolves names itself, and does not say to which address. */
const fetchClient = ({ mayReach }: Pick<SinkOptions, 'mayReach'>): WebhookClient => ({
  async post({ url, headers, body, signal }) {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (isAddress(host) && !mayReach(host))
      throw new Error(`${host} is an address of a private network: SVC_EGRESS_ALLOW does not contain it`);
    const reply = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
    return {
      status: reply.status,
      location: reply.headers.get('location') ?? undefined,
      body: reply.body ?? noBody,
    };
  },
  endedAfterConnect: (cause) => /connection (?:lost|closed|reset)/i.test((cause as Error).message),
  close: async () => {},
});

const noBody: AsyncIterable<Uint8Array> = {
  async *[Symbol.asyncIterator]() {},
};

interface FetchSinkOptions extends SinkOptions {
  readonly bindings: Bindings;
}

export function fetchSinks(targets: readonly SinkTarget[], options: FetchSinkOptions): EventSinks {
  const client = fetchClient(options);
  const open = (target: SinkTarget): EventSink | string => {
    const fault = explainUnsupported(target, options.bindings);
    if (fault !== undefined) return fault;
    const queue = options.bindings[target.binding ?? ''];
    return isQueueBinding(queue) ? queueSink(queue, options) : webhookSink(target, options, client);
  };
  const sinks = new Map(targets.map((target) => [target.id, open(target)]));
  return {
    open: async (id) => sinks.get(id) ?? explainMissing(id),
    close: async () => {},
  };
}

// Messages to a Cloudflare Queue, by a producer binding: https://developers.cloudflare.com/queues/configuration/javascript-apis/

interface SentMessage {
  readonly body: unknown;
  readonly contentType: 'json';
}

/** The part of a producer binding that is used. */
export interface QueueBinding {
  sendBatch(messages: readonly SentMessage[]): Promise<unknown>;
}

const isQueueBinding = (binding: unknown): binding is QueueBinding =>
  typeof (binding as Partial<QueueBinding> | undefined)?.sendBatch === 'function';

/** Limits of Cloudflare: https://developers.cloudflare.com/queues/platform/limits/ */
const messagesMax = 100;
const batchBytesMax = 256_000;
const messageBytesMax = 128_000;
/** What Cloudflare adds to a message, and counts. */
const overheadBytes = 100;

const encoder = new TextEncoder();
const messageBytes = ({ body }: SinkMessage): number => encoder.encode(body).length + overheadBytes;

/** The longest prefix that one call takes; empty where the first message is too long for any. */
function takeBatch(messages: readonly SinkMessage[]): readonly SinkMessage[] {
  let bytes = 0;
  const end = messages.findIndex((message, index) => {
    const size = messageBytes(message);
    bytes += size;
    return index >= messagesMax || size > messageBytesMax || bytes > batchBytesMax;
  });
  return end < 0 ? messages : messages.slice(0, end);
}

export function queueSink(queue: QueueBinding, { timeoutMs }: Pick<SinkOptions, 'timeoutMs'>): EventSink {
  /** @returns why the queue may not have the messages; undefined where it has them all */
  async function send(messages: readonly SinkMessage[], signal: AbortSignal): Promise<string | undefined> {
    const ended = new AbortController();
    const waited = Promise.withResolvers<never>();
    const timer = setTimeout(() => waited.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    signal.addEventListener('abort', () => waited.reject(signal.reason), {
      once: true,
      signal: ended.signal,
    });
    try {
      signal.throwIfAborted();
      const batch = messages.map(({ body }) => ({ body: JSON.parse(body), contentType: 'json' as const }));
      await Promise.race([queue.sendBatch(batch), waited.promise]);
      return undefined;
    } catch (cause) {
      signal.throwIfAborted();
      return `the queue did not take the message: ${(cause as Error).message || String(cause)}`;
    } finally {
      clearTimeout(timer);
      ended.abort();
    }
  }

  return {
    async deliver(messages, signal): Promise<Delivery> {
      let delivered = 0;
      while (delivered < messages.length) {
        const batch = takeBatch(messages.slice(delivered));
        if (batch.length === 0) {
          const error = `the message is longer than the ${messageBytesMax} bytes that a queue takes`;
          return { delivered, failure: { kind: 'refused', error } };
        }
        try {
          const error = await send(batch, signal);
          // A batch is refused as a whole, so any of its messages may be the cause.
          if (error !== undefined) return { delivered, failure: { kind: 'lost', error } };
        } catch (cause) {
          if (delivered === 0) throw cause;
          return { delivered };
        }
        delivered += batch.length;
      }
      return { delivered };
    },
    close: async () => {},
  };
}
