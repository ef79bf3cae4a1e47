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
    const response = await opened.fetch(request, collectFacts(exchange));
    if (!exchange.response.headersSent)
      for (const name of framing) {
        const value = response.headers.get(name);
        if (value !== null) exchange.response.setHeader(name, value);
      }
    return response;
  };
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
