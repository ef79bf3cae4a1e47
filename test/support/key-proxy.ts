/** A proxy in front of a key provider that counts requests and can fail in many ways. It is no gateway's own code, so it uses node:http. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type KeyFault =
  | 'hang'
  | 'garbage'
  | 'cut'
  | 'long'
  | { readonly status: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> };

export interface KeyProxy extends AsyncDisposable {
  readonly url: string;
  /** Requests by `METHOD path`, or by the operation of a target header. */
  readonly seen: readonly string[];
  /** The `traceparent` of each of them; '' for none. */
  readonly causes: readonly string[];
  /** The token of each of them; '' for none. */
  readonly tokens: readonly string[];
  /** Requests whose name contains the text. */
  count(text: string): number;
  /** What requests whose name contains `on` get; undefined passes them on. */
  fault: KeyFault | undefined;
  on: string;
  /** Called before a request is passed on. */
  before?: ((name: string) => Promise<void>) | undefined;
}

type Handle = (asked: IncomingMessage, answer: ServerResponse, body: Buffer) => void;

/** Passes requests to a port of this machine, or to a handler. */
export async function openKeyProxy(target: number | Handle, port = 0): Promise<KeyProxy> {
  const seen: string[] = [];
  const causes: string[] = [];
  const tokens: string[] = [];
  const pass: Handle =
    typeof target === 'function'
      ? target
      : (asked, answer, body) => {
          const { method, url, headers } = asked;
          const onward = request({ host: '127.0.0.1', port: target, method, path: url, headers }, (reply) => {
            answer.writeHead(reply.statusCode ?? 502, reply.headers);
            reply.pipe(answer);
          });
          onward.on('error', () => answer.destroy());
          onward.end(body);
        };
  const server = createServer(async (asked, answer) => {
    const pieces: Buffer[] = [];
    for await (const piece of asked) pieces.push(piece as Buffer);
    const name = String(asked.headers['x-amz-target'] ?? `${asked.method} ${asked.url}`);
    seen.push(name);
    causes.push(String(asked.headers['traceparent'] ?? ''));
    tokens.push(String(asked.headers['x-vault-token'] ?? ''));
    await proxy.before?.(name);
    const { fault } = proxy;
    if (fault === undefined || !name.includes(proxy.on)) return pass(asked, answer, Buffer.concat(pieces));
    fail(fault, answer);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const proxy: KeyProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    causes,
    tokens,
    count: (text) => seen.filter((name) => name.includes(text)).length,
    fault: undefined,
    on: '',
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

function fail(fault: KeyFault, answer: ServerResponse): void {
  if (fault === 'hang') return;
  if (fault === 'garbage') return void answer.end('<html>not this</html>');
  if (fault === 'cut') {
    answer.writeHead(200, { 'content-length': '100' });
    answer.write('{"data":');
    return void setImmediate(() => answer.destroy());
  }
  if (fault === 'long') return void answer.end('x'.repeat(1_000_000));
  answer.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
  answer.end(fault.body ?? '');
}
