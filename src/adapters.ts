/** Adapters that pass on the client's address where the runtime knows it; `toNodeHandler` of `sluice/node` is the one for node:http. */
import type { OpenGateway } from './open-gateway.ts';

type Fetching = Pick<OpenGateway, 'fetch'>;

/** `Deno.serve(denoHandler(gateway))` */
export const denoHandler =
  (gateway: Fetching) =>
  (request: Request, info: { readonly remoteAddr: object }): Promise<Response> => {
    const { hostname } = info.remoteAddr as { readonly hostname?: string };
    return gateway.fetch(request, hostname === undefined ? {} : { remote: hostname });
  };

/** `Bun.serve({ fetch: bunHandler(gateway) })` */
export const bunHandler =
  (gateway: Fetching) =>
  (
    request: Request,
    server: { requestIP(request: Request): { readonly address: string } | null },
  ): Promise<Response> => {
    const address = server.requestIP(request)?.address;
    return gateway.fetch(request, address === undefined ? {} : { remote: address });
  };

/** `export default { fetch: workerHandler(gateway) }`; the address is that of `cf-connecting-ip`, which Cloudflare sets. */
export const workerHandler =
  (gateway: Fetching) =>
  (request: Request): Promise<Response> => {
    const address = request.headers.get('cf-connecting-ip');
    return gateway.fetch(request, address === null ? {} : { remote: address });
  };

/** The part of Hono's context that the handler reads. */
export interface HonoContext {
  readonly req: { readonly raw: Request };
}

/** `app.all('/s3/*', honoHandler(gateway, getConnInfo))`, with the `getConnInfo` of Hono's adapter for the runtime. */
export const honoHandler =
  <C extends HonoContext>(
    gateway: Fetching,
    getConnInfo?: (context: C) => { readonly remote: { readonly address?: string | undefined } },
  ) =>
  (context: C): Promise<Response> => {
    const address = getConnInfo?.(context).remote.address;
    return gateway.fetch(context.req.raw, address === undefined ? {} : { remote: address });
  };
