/** Webhooks over connections of undici, with certificates from files. */
import { readFile } from 'node:fs/promises';
import type { EventSink, SinkTarget } from '../../ports/event-sink.ts';
import { endedAfterConnect, guardedAgent } from '../egress.ts';
import { sharedSink, sinkTurnsMax } from './shared-sink.ts';
import type { SinkOptions } from './sink-options.ts';
import { webhookSink } from './webhook-sink.ts';

const readText = (path: string | undefined): Promise<string> | undefined =>
  path === undefined ? undefined : readFile(path, 'utf8');

export async function openWebhook(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const [ca, cert, key] = await Promise.all(
    [target.caFile, target.certFile, target.keyFile].map((path) => readText(path)),
  );
  const { mayReach, timeoutMs, clock } = options;
  const agent = guardedAgent({ mayReach, timeoutMs, connections: sinkTurnsMax, ca, cert, key });
  const sink = webhookSink(target, options, {
    async post({ url: { origin, pathname, search }, ...request }) {
      const reply = await agent.request({ ...request, origin, path: pathname + search, method: 'POST' });
      const { location } = reply.headers;
      return {
        status: reply.statusCode,
        location: location === undefined ? undefined : String(location),
        body: reply.body,
      };
    },
    endedAfterConnect,
    close: () => agent.destroy(),
  });
  return sharedSink(sink, { clock });
}
