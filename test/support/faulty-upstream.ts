/** A proxy before an upstream that injects faults of networks and services into chosen requests. */
import {
  request as ask,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export type Fault =
  /** The connection ends: before the upstream gets the request, or after the upstream has carried it out. */
  | { readonly reset: 'before' | 'after' }
  /** The request is never answered. */
  | { readonly stall: true }
  /** The request is never answered and its body is not read. */
  | { readonly deaf: true }
  | {
      readonly status: number;
      readonly code?: string;
      /** Instead of an error of the service. */
      readonly page?: string;
      readonly headers?: Record<string, string>;
      /** Runs before the answer is sent. */
      readonly before?: () => Promise<void>;
    }
  /** The upstream carries the request out, and its answer is replaced by this one. */
  | { readonly replaced: { readonly status: number; readonly code: string } }
  /** The upstream gets the request with these headers instead of the sent ones. */
  | { readonly asked: (asked: Asked) => Readonly<Record<string, string>> }
  /** The upstream's own answer, whose body ends after so many bytes. */
  | { readonly truncate: number }
  /** The upstream's own answer with other headers. */
  | { readonly headers: Record<string, string> };

export interface Asked {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
}

export interface FaultyUpstream extends AsyncDisposable {
  readonly url: string;
  /** The requests since the last call. */
  seen(): readonly Asked[];
  /** Makes the next `times` matching requests fail, and clears the record of earlier requests. */
  fail(matches: (asked: Asked) => boolean, fault: Fault | ((asked: Asked) => Fault), times?: number): void;
  repair(): void;
  /** Refuses connections until `comeBack`. */
  leave(): Promise<void>;
  comeBack(): Promise<void>;
}

export async function startFaultyUpstream(upstreamUrl: string): Promise<FaultyUpstream> {
  const { port } = new URL(upstreamUrl);
  let rule: { matches(asked: Asked): boolean; faultOf(asked: Asked): Fault; left: number } | undefined;
  let seen: Asked[] = [];
  const server = createServer((incoming, reply) => {
    const asked = { method: incoming.method ?? '', target: incoming.url ?? '', headers: incoming.headers };
    seen.push(asked);
    let fault: Fault | undefined;
    if (rule !== undefined && rule.left > 0 && rule.matches(asked)) {
      rule.left -= 1;
      fault = rule.faultOf(asked);
    }
    incoming.on('error', () => {});
    reply.on('error', () => {});
    handle(incoming, reply, { port: Number(port), fault, asked });
  });
  const listen = (at: number): Promise<void> =>
    new Promise((resolve) => server.listen(at, '127.0.0.1', resolve));
  const leave = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  await listen(0);
  const { port: own } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${own}`,
    leave,
    async comeBack() {
      if (!server.listening) await listen(own);
    },
    seen() {
      const all = seen;
      seen = [];
      return all;
    },
    fail(matches, fault, times = Number.POSITIVE_INFINITY) {
      rule = { matches, faultOf: typeof fault === 'function' ? fault : () => fault, left: times };
    },
    repair() {
      rule = undefined;
    },
    [Symbol.asyncDispose]: leave,
  };
}

function handle(
  incoming: IncomingMessage,
  reply: ServerResponse,
  {
    port,
    fault = { headers: {} },
    asked,
  }: { readonly port: number; readonly fault: Fault | undefined; readonly asked: Asked },
): void {
  if ('reset' in fault && fault.reset === 'before') return void incoming.socket.destroy();
  if ('deaf' in fault) return;
  if ('stall' in fault) return void incoming.resume();
  if ('status' in fault) {
    incoming.resume();
    const { status, code = '', page = '', headers = {}, before } = fault;
    // Answer after the whole body was read, as the service does.
    const answer = async (): Promise<void> => {
      await before?.();
      reply.writeHead(status, { 'content-type': 'application/xml', ...headers });
      const text = code === '' ? page : `<Error><Code>${code}</Code></Error>`;
      reply.end(incoming.method === 'HEAD' ? '' : text);
    };
    return void incoming.on('end', () => void answer().catch(() => incoming.socket.destroy()));
  }
  const { method, url } = incoming;
  const headers = 'asked' in fault ? fault.asked(asked) : incoming.headers;
  const forwarded = ask({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
    if ('replaced' in fault) {
      const { status, code } = fault.replaced;
      return void answer.resume().on('end', () => {
        reply.writeHead(status, { 'content-type': 'application/xml' });
        reply.end(`<Error><Code>${code}</Code></Error>`);
      });
    }
    if ('reset' in fault) return void answer.resume().on('end', () => incoming.socket.destroy());
    reply.writeHead(answer.statusCode ?? 0, {
      ...answer.headers,
      ...('headers' in fault ? fault.headers : {}),
    });
    if (!('truncate' in fault)) return void answer.pipe(reply);
    let left = fault.truncate;
    answer.on('data', (piece: Buffer) => {
      reply.write(piece.subarray(0, left));
      left = Math.max(0, left - piece.length);
    });
    answer.on('end', () => setImmediate(() => incoming.socket.destroy()));
  });
  forwarded.on('error', () => incoming.socket.destroy());
  incoming.on('close', () => {
    if (!incoming.complete) forwarded.destroy();
  });
  incoming.pipe(forwarded);
}
