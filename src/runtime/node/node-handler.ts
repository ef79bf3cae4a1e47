/** The gateway as a handler of a node:http server, and of frameworks on it: Express, Fastify, Koa, Next.js. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Gateway } from '../../gateway.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { Connection } from './node-connection.ts';

export interface NodeHandlerOptions {
  readonly telemetry?: Telemetry;
  /** After this time without a byte, a client that does not read or send is disconnected. Default 60,000. */
  readonly idleTimeoutMs?: number;
}

export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Mount it before parsers of bodies, because the gateway verifies the body as it was sent. The path is the one that the client sent
 * (`originalUrl` of Express): name the mount point in `basePath` of `openGateway`.
 */
export function toNodeHandler(
  gateway: Pick<Gateway, 'handle'>,
  { telemetry = silentTelemetry, idleTimeoutMs = 60_000 }: NodeHandlerOptions = {},
): NodeHandler {
  const connections = new WeakMap<Socket, Connection>();
  const connect = (socket: Socket): Connection => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const secure = socket instanceof TLSSocket;
    const connection = new Connection(socket, {
      gateway,
      telemetry,
      listener: undefined,
      secure,
      idleTimeoutMs,
      isClosing: () => false,
    });
    connections.set(socket, connection);
    socket.once('close', () => connection.lose());
    return connection;
  };
  return (request, response) => {
    const { originalUrl } = request as { readonly originalUrl?: string };
    if (originalUrl !== undefined) request.url = originalUrl;
    connect(request.socket).take({ request, response, awaitsContinue: false });
  };
}
