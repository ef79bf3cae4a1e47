/** Sends messages to a Cloudflare Queue by a producer binding: https://developers.cloudflare.com/queues/configuration/javascript-apis/ */
import type { Delivery, EventSink, SinkMessage } from '../../ports/event-sink.ts';
import type { SinkOptions } from './sink-options.ts';

interface SentMessage {
  readonly body: unknown;
  readonly contentType: 'json';
}

/** The part of a producer binding that is used. */
export interface QueueBinding {
  sendBatch(messages: readonly SentMessage[]): Promise<unknown>;
}

export const isQueueBinding = (binding: unknown): binding is QueueBinding =>
  typeof (binding as Partial<QueueBinding> | undefined)?.sendBatch === 'function';

/** Limits of Cloudflare: https://developers.cloudflare.com/queues/platform/limits/ */
const messagesMax = 100;
const batchBytesMax = 256_000;
const messageBytesMax = 128_000;
/** What Cloudflare adds to a message, and counts. */
const overheadBytes = 100;

const encoder = new TextEncoder();
const sizeOf = ({ body }: SinkMessage): number => encoder.encode(body).length + overheadBytes;

/** The longest prefix that one call takes; empty where the first message is too long for any. */
function takeBatch(messages: readonly SinkMessage[]): readonly SinkMessage[] {
  let bytes = 0;
  const end = messages.findIndex((message, index) => {
    const size = sizeOf(message);
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
