/** The gateway on Node: sockets go straight to `gateway.handle`, no Request or Response object is made. */
// First, because other modules stop an old runtime with a stack trace.
import '../base/assert-runtime.ts';
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import { assertGateway } from '../adapters.ts';
import type { Awaitable } from '../base/awaitable.ts';
import type { FetchFacts } from '../protocol/fetch.ts';
import { WireHeaders } from '../protocol/wire.ts';
import { originForm } from './node/node-exchange.ts';

export { type Composed, type ComposeOptions, compose } from './compose/compose.ts';
export {
  type NodeHandler,
  type NodeHandlerOptions,
  type ServeOptions,
  type Serving,
  serve,
  toNodeHandler,
} from './node/node-server.ts';

/** What `openGateway` returns, or one of its mounts. */
interface Opened {
  fetch(request: Request, facts?: FetchFacts): Promise<Response>;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** As it was sent: frameworks change `request.url`. */
  readonly target: string;
}

/** Next.js keeps these for itself, although objects have an encoding of their own, and clients of HEAD need the length. */
const framing = ['content-length', 'content-encoding'] as const;

let exchanges: AsyncLocalStorage<Exchange> | undefined;

/** Observes the servers of this process, once. */
function observe(): AsyncLocalStorage<Exchange> {
  const storage = new AsyncLocalStorage<Exchange>();
  subscribe('http.server.request.start', (message) => {
    const { request, response } = message as Omit<Exchange, 'target'>;
    // The request's handler, and all that it starts, has this context.
    storage.enterWith({ request, response, target: originForm(request.url ?? '/') });
  });
  return storage;
}

/**
 * `export const GET = routeHandler(openStorage)`. A function opens the gateway at the first request, because builds
 * load routes too. Call `routeHandler` where the application starts: requests that began before have no facts, so that
 * policies treat their address as unknown.
 */
export function routeHandler(
  gateway: Opened | (() => Awaitable<Opened>),
): (request: Request) => Promise<Response> {
  if (typeof gateway !== 'function') assertGateway('routeHandler', gateway);
  exchanges ??= observe();
  const storage = exchanges;
  return async (request) => {
    const opened = typeof gateway === 'function' ? await gateway() : gateway;
    const exchange = storage.getStore();
    if (exchange === undefined || !isSame(request, exchange)) return opened.fetch(request);
    const { method, url, headers, signal } = request;
    const body = request.body === null ? undefined : new DroppedBody(request.body);
    // The cast: of a `Request` the gateway reads this much. Those of some frameworks are none of Node's, which cannot copy them.
    const read = { method, url, headers, signal, body: body?.stream ?? null } as Request;
    const response = await opened.fetch(read, collectFacts(exchange));
    if (body?.isRead === false) void body.drop();
    frame(exchange.response, response.headers);
    return response;
  };
}

/** Sets what the framework keeps for itself once it writes the head, unless its middleware has encoded the body again. */
function frame(response: ServerResponse, headers: Headers): void {
  const writeHead: (...head: never[]) => ServerResponse = response.writeHead;
  response.writeHead = (...head: never[]) => {
    const encoding = findEncoding(head.at(-1)) ?? response.getHeader('content-encoding');
    const isOurs = encoding === undefined || encoding === headers.get('content-encoding');
    if (isOurs && !response.headersSent)
      for (const name of framing) {
        const value = headers.get(name);
        if (value !== null) response.setHeader(name, value);
      }
    return writeHead.apply(response, head);
  };
}

/** @param head the headers that are passed to `writeHead`: a list or an object */
function findEncoding(head: unknown): unknown {
  if (typeof head !== 'object' || head === null) return undefined;
  const flat = (Array.isArray(head) ? head : Object.entries(head)).flat();
  const at = flat.findIndex((each) => String(each).toLowerCase() === 'content-encoding');
  return at < 0 ? undefined : flat[at + 1];
}

/** How much of a body is read and dropped after the gateway has left it. */
const droppedBytesMax = 16 * 1024 * 1024;

/**
 * A body whose rest is dropped when the gateway leaves it: Node begins no further request of the connection before it was read, and some
 * frameworks close the connection, with a reply that is under way, when their stream is cancelled.
 */
class DroppedBody {
  readonly stream: ReadableStream<Uint8Array>;
  isRead = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(body: ReadableStream<Uint8Array>) {
    const reader = body.getReader();
    this.#reader = reader;
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      this.isRead = true;
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    };
    this.stream = new ReadableStream({ pull, cancel: () => void this.drop() }, { highWaterMark: 0 });
  }

  async drop(): Promise<void> {
    try {
      for (let left = droppedBytesMax; left > 0; ) {
        const { done, value } = await this.#reader.read();
        if (done) return;
        left -= value.byteLength;
      }
      await this.#reader.cancel();
    } catch {
      // The client has left.
    }
  }
}

/** An application may also make requests of its own while it handles one of a client. */
function isSame({ method, url }: Request, { request, target }: Exchange): boolean {
  if (method !== request.method) return false;
  const made = new URL(url);
  const sent = URL.parse(target, made.origin);
  return sent?.pathname === made.pathname && sent.search === made.search;
}

const collectFacts = ({ request: { rawHeaders, socket }, target }: Exchange): FetchFacts => ({
  target,
  headers: new WireHeaders(rawHeaders),
  remote: socket.remoteAddress ?? '',
  secure: socket instanceof TLSSocket,
});
