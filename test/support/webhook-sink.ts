/** A webhook's receiver on loopback, whose answers a test chooses. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
  readonly url: string;
}

export type Answer = (reply: ServerResponse, request: Received) => void;

export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answer =>
  (reply) =>
    void reply.writeHead(code, headers).end('an answer');

export interface WebhookSink extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Every request, answered or not. */
  readonly received: Received[];
  /** The answer from now on. */
  answer: Answer;
}

export async function openWebhookSink(port = 0): Promise<WebhookSink> {
  const received: Received[] = [];
  const server = createServer((request: IncomingMessage, reply: ServerResponse) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => (body += text));
    request.on('end', () => {
      const all = { headers: request.headers as Received['headers'], body, url: request.url ?? '' };
      received.push(all);
      sink.answer(reply, all);
    });
    request.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const bound = (server.address() as AddressInfo).port;
  const sink: WebhookSink = {
    url: `http://127.0.0.1:${bound}/hook?from=sluice`,
    port: bound,
    received,
    answer: status(204),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return sink;
}
