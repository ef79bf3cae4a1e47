/** The sinks of a runtime whose only clients are `fetch` and bindings, such as Cloudflare Workers: webhooks and queues. */
import type { EventSink, EventSinks, SinkTarget } from '../../ports/event-sink.ts';
import { isQueueBinding, queueSink } from './queue-sink.ts';
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
