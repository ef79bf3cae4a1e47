/** Listeners on node:http and node:https: each socket is a `Connection`, whose requests go to `gateway.handle`. */

import { readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import * as http from 'node:http';
import type { Server } from 'node:https';
import * as https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext, TLSSocket } from 'node:tls';
import type { ListenAddress } from '../../config/values/network.ts';
import type { Config } from '../../config.ts';
import type { Gateway } from '../../gateway.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { formatEndpoint } from '../compose/configuration.ts';
import { Connection, type ConnectionOptions } from './node-connection.ts';
import { refuseSocket } from './node-reply.ts';

/** Request line and headers together. */
const headBytesMax = 32 * 1024;
const tlsIntervalMs = 5000;

export interface ServeOptions {
  readonly gateway: Pick<Gateway, 'handle'>;
  readonly config: Pick<
    Config,
    | 'SVC_LISTEN'
    | 'SVC_ADMIN_LISTEN'
    | 'SVC_TLS_CERT_FILE'
    | 'SVC_TLS_KEY_FILE'
    | 'SVC_IDLE_TIMEOUT'
    | 'SVC_HEADER_TIMEOUT'
    | 'SVC_SHUTDOWN_TIMEOUT'
  >;
  readonly telemetry?: Telemetry;
  /** How often the TLS files are checked for changes. */
  readonly tlsIntervalMs?: number;
}

export interface Serving {
  /** The endpoint to paste, with the port that was taken. */
  readonly url: string;
  readonly adminUrl: string | undefined;
  /** Stops accepting, finishes the requests in flight, cuts what takes longer than SVC_SHUTDOWN_TIMEOUT. */
  close(): Promise<void>;
}

interface Listener {
  readonly url: string;
  close(): Promise<void>;
}

/** Resolves when every listener accepts connections. */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { SVC_LISTEN, SVC_ADMIN_LISTEN } = options.config;
  if (SVC_ADMIN_LISTEN === undefined) {
    const both = await listen(SVC_LISTEN, undefined, options);
    return { url: both.url, adminUrl: undefined, close: both.close };
  }
  const storage = await listen(SVC_LISTEN, 'storage', options);
  const admin = await listen(SVC_ADMIN_LISTEN, 'admin', options).catch(async (error: unknown) => {
    await storage.close();
    throw error;
  });
  return {
    url: storage.url,
    adminUrl: admin.url,
    close: async () => {
      await Promise.all([storage.close(), admin.close()]);
    },
  };
}

async function listen(
  address: ListenAddress,
  listener: ConnectionOptions['listener'],
  options: ServeOptions,
): Promise<Listener> {
  const { gateway, config, telemetry = silentTelemetry } = options;
  const tls = readTlsFiles(config);
  const server = createServer(config, tls);
  let isClosing = false;
  connect(server, {
    gateway,
    telemetry,
    listener,
    secure: tls !== undefined,
    idleTimeoutMs: config.SVC_IDLE_TIMEOUT,
    isClosing: () => isClosing,
  });
  await new Promise<void>((resolve, reject) => {
    // Names the address that failed, for the error message.
    server.once('error', (error) => reject(Object.assign(error, { listener })));
    server.listen(address, () => resolve());
  });
  const stopReloading =
    tls !== undefined && server instanceof https.Server
      ? reloadOnChange(server, { files: tls, telemetry, intervalMs: options.tlsIntervalMs ?? tlsIntervalMs })
      : () => {};
  const { port } = server.address() as AddressInfo;
  return {
    url: formatEndpoint({ host: address.host, port }, tls !== undefined),
    close: () => {
      isClosing = true;
      stopReloading();
      return closeServer(server, config.SVC_SHUTDOWN_TIMEOUT);
    },
  };
}

function readTlsFiles(config: ServeOptions['config']): TlsFiles | undefined {
  const { SVC_TLS_CERT_FILE: certFile, SVC_TLS_KEY_FILE: keyFile } = config;
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
}

function createServer(config: ServeOptions['config'], tls: TlsFiles | undefined): http.Server | https.Server {
  const options: http.ServerOptions = {
    noDelay: true,
    keepAliveTimeout: config.SVC_IDLE_TIMEOUT,
    headersTimeout: config.SVC_HEADER_TIMEOUT,
    // Node's own limit is on the whole request, however busy: a large upload over a slow line is not a fault.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.min(5000, Math.max(100, config.SVC_HEADER_TIMEOUT / 4)),
    maxHeaderSize: headBytesMax,
    // Node's own refusal keeps the connection open for pipelined requests; this server closes it.
    requireHostHeader: false,
  };
  const server =
    tls === undefined
      ? http.createServer(options)
      : https.createServer({ ...options, ...readKeyPair(tls), handshakeTimeout: config.SVC_HEADER_TIMEOUT });
  // Headers past Node's count would silently be missing from what was signed; their size is bounded anyway.
  server.maxHeadersCount = 0;
  server.timeout = config.SVC_IDLE_TIMEOUT;
  return server;
}

/** Connects a server's events to connections; the first request of a socket creates its connection. */
function connect(server: http.Server, options: ConnectionOptions): void {
  const connections = new WeakMap<Duplex, Connection>();
  const connectionOf = (socket: Socket): Connection => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection = new Connection(socket, options);
    connections.set(socket, connection);
    socket.on('close', () => connection.lose());
    return connection;
  };
  server.on('request', (request, response) => {
    connectionOf(request.socket).take({ request, response, awaitsContinue: false });
  });
  server.on('checkContinue', (request, response) => {
    connectionOf(request.socket).take({ request, response, awaitsContinue: true });
  });
  // Node answers any other expectation with 417 and no body; RFC 9110 lets a server ignore unknown ones.
  server.on('checkExpectation', (request, response) => {
    connectionOf(request.socket).take({ request, response, awaitsContinue: false });
  });
  server.on('clientError', (error, socket) => {
    const connection = connections.get(socket);
    if (connection === undefined) refuseSocket(socket, error);
    else connection.refuse(error);
  });
  server.on('timeout', (socket) => {
    const connection = connections.get(socket);
    if (connection === undefined) socket.destroy();
    else connection.timeOut();
  });
}

/** Closes idle connections immediately and busy ones after their reply; the rest is cut after the timeout. */
async function closeServer(server: http.Server, timeoutMs: number): Promise<void> {
  const cut = setTimeout(() => server.closeAllConnections(), timeoutMs);
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  clearTimeout(cut);
}

// TLS from files, read again when they change: certificates are renewed under a running server.

interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

interface KeyPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Throws when the files do not belong together, so that a bad pair never replaces a good one. */
function readKeyPair({ certFile, keyFile }: TlsFiles): KeyPair {
  const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
  createSecureContext({ cert: pair.cert, key: pair.key });
  return pair;
}

/**
 * Polls every few seconds, because a watch on the file would miss the replaced symbolic links of a mounted secret. Existing connections
 * keep their certificate. Returns a function that ends the polling.
 */
function reloadOnChange(
  server: Server,
  { files, telemetry, intervalMs }: { files: TlsFiles; telemetry: Telemetry; intervalMs: number },
): () => void {
  let seen = readStamp(files);
  const timer = setInterval(() => {
    const now = readStamp(files);
    if (now === seen) return;
    seen = now;
    try {
      const { cert, key } = readKeyPair(files);
      server.setSecureContext({ cert, key });
      telemetry.log('INFO', 'the TLS certificate was reloaded', { file: files.certFile });
    } catch (error) {
      // Often only one of the two files is new at this time: the change of the other is seen next.
      telemetry.log('ERROR', 'the changed TLS files are invalid; the old certificate stays in use', {
        error,
      });
    }
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

function readStamp({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const stat = statSync(file, { throwIfNoEntry: false });
      return stat === undefined ? '' : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
    })
    .join('|');
}

// The gateway as a handler of a node:http server, and of frameworks on it: Express, Fastify, Koa, Next.js.

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
