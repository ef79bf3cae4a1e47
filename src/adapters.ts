/** Adapters that pass on the client's address where the runtime knows it; `toNodeHandler` of `sluice/node` is the one for node:http. */
import type { OpenGateway } from './gateway-opener.ts';

type Fetching = Pick<OpenGateway, 'fetch'>;

/** A forgotten `await` would show at the first request only. @throws TypeError */
export function assertGateway(handler: string, gateway: unknown, method: 'fetch' | 'handle' = 'fetch'): void {
  // The cast: whether it has the method is what is asked.
  if (typeof (gateway as Partial<OpenGateway> | null | undefined)?.[method] === 'function') return;
  throw new TypeError(`${handler} needs an open gateway: pass on the result of await openGateway({ … })`);
}

/** `Deno.serve(denoHandler(gateway))` */
export const denoHandler = (
  gateway: Fetching,
): ((request: Request, info: { readonly remoteAddr: object }) => Promise<Response>) => {
  assertGateway('denoHandler', gateway);
  return (request, info) => {
    const { hostname } = info.remoteAddr as { readonly hostname?: string };
    // The URL of its requests is raw.
    const isRewritten = false;
    return gateway.fetch(
      request,
      hostname === undefined ? { isRewritten } : { isRewritten, remote: hostname },
    );
  };
};

/** The part of Bun's server that the handler calls. */
export interface BunServer {
  requestIP(request: Request): { readonly address: string } | null;
  timeout?(request: Request, seconds: number): void;
}

/** The longest time for which Bun lets a connection be silent. Its default, 10 s, would end long copies and downloads that pause. */
const bunIdleSeconds = 255;

/**
 * `Bun.serve({ maxRequestBodySize: Number.MAX_SAFE_INTEGER, fetch: bunHandler(gateway) })`. Without the option Bun refuses bodies above
 * 128 MiB with a 413 of its own. Requests to the gateway have a time limit of their own in place of `idleTimeout`.
 */
export const bunHandler = (
  gateway: Fetching,
): ((request: Request, server: BunServer) => Promise<Response>) => {
  assertGateway('bunHandler', gateway);
  return async (request, server) => {
    const address = server.requestIP(request)?.address;
    // A request without a body, such as a copy, waits for nothing from its client, so no silence of it ends the request.
    server.timeout?.(request, request.body === null ? 0 : bunIdleSeconds);
    const response = await gateway.fetch(request, address === undefined ? {} : { remote: address });
    server.timeout?.(request, bunIdleSeconds);
    return response;
  };
};

/** `export default { fetch: workerHandler(gateway) }`; the address is that of `cf-connecting-ip`, which Cloudflare sets. */
export const workerHandler = (gateway: Fetching): ((request: Request) => Promise<Response>) => {
  assertGateway('workerHandler', gateway);
  return async (request) => {
    const address = request.headers.get('cf-connecting-ip');
    return withLength(await gateway.fetch(request, address === null ? {} : { remote: address }));
  };
};

declare const FixedLengthStream: {
  new (length: number): TransformStream<Uint8Array, Uint8Array>;
};

/** workerd drops the Content-Length of a stream, unless the stream itself has a length. */
export function withLength(response: Response): Response {
  const length = response.headers.get('content-length');
  if (length === null || response.body === null || typeof FixedLengthStream === 'undefined') return response;
  const { readable, writable } = new FixedLengthStream(Number(length));
  // An error on one side ends the other too; the runtime reports it.
  response.body.pipeTo(writable).catch(() => {});
  return new Response(readable, response);
}

/** The part of Hono's context that the handler reads. */
export interface HonoContext {
  readonly req: { readonly raw: Request };
}

/** `app.all('/s3/*', honoHandler(gateway, getConnInfo))`, with the `getConnInfo` of Hono's adapter for the runtime. */
export const honoHandler = <C extends HonoContext>(
  gateway: Fetching,
  getConnInfo?: (context: C) => { readonly remote: { readonly address?: string | undefined } },
): ((context: C) => Promise<Response>) => {
  assertGateway('honoHandler', gateway);
  return (context) => {
    const address = getConnInfo?.(context).remote.address;
    return gateway.fetch(context.req.raw, address === undefined ? {} : { remote: address });
  };
};
