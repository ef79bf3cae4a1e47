/** The pipeline (design §1): one request in, one reply out. */
import type { Context } from './context.ts';
import type { Reply } from './protocol/reply.ts';
import type { Incoming } from './protocol/wire.ts';

export interface GatewayOptions {
  /** The path under which the gateway is mounted, for example `/s3`; signatures cover it, addresses do not. */
  readonly basePath?: string;
}

export interface Gateway {
  /** For runtimes with a socket of their own: no Request or Response object is made. */
  handle(incoming: Incoming): Promise<Reply>;
  /** For every fetch-based framework. */
  fetch(request: Request): Promise<Response>;
}

export declare function createGateway(context: Context, options?: GatewayOptions): Gateway;
