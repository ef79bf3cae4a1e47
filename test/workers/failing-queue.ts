/**
 * The gateway over a queue whose calls fail while they carry a certain text, and a consumer that passes on what it
 * gets. Bundled for workerd.
 */
import { type QueueBinding, queueSink } from '../../src/backends/sinks/fetch-sinks.ts';
import type { Environment } from '../../src/config.ts';
import gateway, { type CloudflareBindings, SluiceMetadata as Metadata } from '../../src/runtime/workerd.ts';

interface Env extends CloudflareBindings {
  readonly EVENTS: QueueBinding;
  /** Where the consumer posts each message. */
  readonly CONSUMED: string;
}

/** The queue takes no call that carries this text; all of them fail while it is empty. Shared by the objects of an isolate. */
let refused: string | undefined;
/** The messages of each call that was tried. */
const calls: number[] = [];

const failing = (queue: QueueBinding): QueueBinding => ({
  sendBatch(messages) {
    calls.push(messages.length);
    return refused !== undefined && JSON.stringify(messages).includes(refused)
      ? Promise.reject(new Error('Queue sendBatch failed: Internal Server Error'))
      : queue.sendBatch(messages);
  },
});

const withFailing = (env: Env): Env => ({ ...env, EVENTS: failing(env.EVENTS) });

export class SluiceMetadata extends Metadata {
  constructor(ctx: unknown, env: Env) {
    super(ctx, withFailing(env));
  }
}

interface Execution {
  waitUntil(promise: Promise<unknown>): void;
}

interface Batch {
  readonly messages: readonly { readonly body: unknown; ack(): void; retry(): void }[];
}

const message = (id: string, bytes: number) => ({
  id,
  subject: id,
  owner: '',
  body: JSON.stringify({ id, padding: 'x'.repeat(bytes) }),
  contentType: 'application/json',
});

export default {
  async fetch(request: Request, env: Env, execution: Execution): Promise<Response> {
    const { searchParams } = new URL(request.url);
    if (searchParams.has('refuse-events')) {
      refused = searchParams.get('refuse-events') ?? '';
      if (refused === 'none') refused = undefined;
      return Response.json(calls.splice(0));
    }
    const sizes = searchParams.get('deliver-sizes');
    if (sizes !== null) {
      const messages = sizes.split(',').map((bytes, index) => message(`sized-${index}`, Number(bytes)));
      calls.length = 0;
      const sink = queueSink(failing(env.EVENTS), { timeoutMs: 5_000 });
      const delivery = await sink.deliver(messages, new AbortController().signal);
      return Response.json({ ...delivery, calls: calls.splice(0) });
    }
    return gateway.fetch(request, withFailing(env) as object as Environment, execution);
  },

  async queue({ messages }: Batch, env: Env): Promise<void> {
    for (const each of messages) {
      const { ok } = await fetch(env.CONSUMED, { method: 'POST', body: JSON.stringify(each.body) });
      if (ok) each.ack();
      else each.retry();
    }
  },
};
