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

/** `Bun.serve({ fetch: bunHandler(gateway) })` */
export const bunHandler = (
  gateway: Fetching,
): ((
  request: Request,
  server: { requestIP(request: Request): { readonly address: string } | null },
) => Promise<Response>) => {
  assertGateway('bunHandler', gateway);
  return (request, server) => {
    const address = server.requestIP(request)?.address;
    return gateway.fetch(request, address === undefined ? {} : { remote: address });
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
