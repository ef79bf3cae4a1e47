/** Listeners on node:net and node:tls: each socket is a `Connection`, whose requests go to `gateway.handle`. */

import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import * as net from 'node:net';
import {
  createSecureContext,
  createServer as createTlsServer,
  TLSSocket,
  Server as TlsServer,
} from 'node:tls';
import { assertGateway } from '../../adapters.ts';
import { fail } from '../../base/errors.ts';
import type { ListenAddress } from '../../config/network.ts';
import type { Config } from '../../config.ts';
import type { Gateway } from '../../gateway.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { isStream } from '../../protocol/render.ts';
import { findRequestId, type Reply } from '../../protocol/reply.ts';
import { type Incoming, WireHeaders } from '../../protocol/wire.ts';
import { formatEndpoint } from '../compose/configuration.ts';
import { StartRefusal } from '../start-refusal.ts';
import { HttpFault } from './http-head.ts';
import { HttpSocket } from './http-socket.ts';
import { Connection, type ConnectionOptions } from './node-connection.ts';
import { findFault, type ListenerResponse, originForm, refusal, refuseSocket } from './node-exchange.ts';

const tlsIntervalMs = 5000;
/** For what a request that was cut still does, such as giving up its bytes. Shorter than `killAfterMs`: the stores are closed after it. */
const lastWorkMs = 3_000;

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
  /** Called when a connection has ended. */
  readonly onDisconnect?: () => void;
}

export interface Serving {
  /** The endpoint to paste, with the port that was taken. */
  readonly url: string;
  readonly adminUrl: string | undefined;
  countConnections(): number;
  /** Ends this share of the open connections, each with its next reply. */
  shed(share: number): void;
  /**
   * Stops accepting, finishes the requests in flight, cuts what takes longer than SVC_SHUTDOWN_TIMEOUT, and then waits a few seconds for the
   * work of what was cut.
   */
  close(): Promise<void>;
}

interface Listener {
  readonly url: string;
  countConnections(): number;
  shed(share: number): void;
  close(): Promise<void>;
}

/** Resolves when every listener accepts connections. */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { SVC_LISTEN, SVC_ADMIN_LISTEN } = options.config;
  if (SVC_ADMIN_LISTEN === undefined) {
    const both = await listen(SVC_LISTEN, undefined, options);
    return { ...both, adminUrl: undefined };
  }
  const storage = await listen(SVC_LISTEN, 'storage', options);
  const admin = await listen(SVC_ADMIN_LISTEN, 'admin', options).catch(async (error: unknown) => {
    await storage.close();
    throw error;
  });
  return {
    url: storage.url,
    adminUrl: admin.url,
    countConnections: () => storage.countConnections() + admin.countConnections(),
    shed: (share) => {
      storage.shed(share);
      admin.shed(share);
    },
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
  const { gateway, config, telemetry = silentTelemetry, onDisconnect } = options;
  const tls = readTlsFiles(config);
  const server = createServer(config, tls);
  // Once for both listeners, which have the same certificate.
  if (tls !== undefined && listener !== 'admin')
    warnOfCertificate(readFileSync(tls.certFile), { files: tls, telemetry });
  let isClosing = false;
  const ending = new Set<Promise<void>>();
  const handshakes = trackHandshakes(server);
  const sockets = connect(server, config, {
    gateway,
    telemetry,
    listener,
    secure: tls !== undefined,
    idleTimeoutMs: config.SVC_IDLE_TIMEOUT,
    isClosing: () => isClosing,
    ending,
    onDisconnect,
  });
  await new Promise<void>((resolve, reject) => {
    // Names the address that failed, for the error message.
    server.once('error', (error) => reject(Object.assign(error, { listener })));
    server.listen(address, () => resolve());
  });
  const stopReloading =
    tls !== undefined && server instanceof TlsServer
      ? reloadOnChange(server, { files: tls, telemetry, intervalMs: options.tlsIntervalMs ?? tlsIntervalMs })
      : () => {};
  const stopLimiting = limitHeads(sockets, config.SVC_HEADER_TIMEOUT);
  const { port } = server.address() as net.AddressInfo;
  return {
    url: formatEndpoint({ host: address.host, port }, tls !== undefined),
    countConnections: () => sockets.size,
    shed: (share) => shed([...sockets.values()], share),
    close: async () => {
      isClosing = true;
      stopReloading();
      const cut = (): void => {
        for (const { socket } of sockets.keys()) socket.destroy();
        for (const socket of handshakes) socket.destroy();
      };
      await closeServer(server, sockets, { timeoutMs: config.SVC_SHUTDOWN_TIMEOUT, cut });
      stopLimiting();
      // Sockets tell that they are closed a little later than the server does.
      const served = [...sockets.values()].flatMap(({ serving }) => serving ?? []);
      const late = await countUnsettled([...ending, ...served], lastWorkMs);
      if (late > 0) telemetry.log('WARN', 'requests that were cut have not ended', { requests: late });
    },
  };
}

function readTlsFiles(config: ServeOptions['config']): TlsFiles | undefined {
  const { SVC_TLS_CERT_FILE: certFile, SVC_TLS_KEY_FILE: keyFile } = config;
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
}

function createServer(config: ServeOptions['config'], tls: TlsFiles | undefined): net.Server {
  // Half-open, because a connection whose last request is torn is still answered.
  const options = { noDelay: true, allowHalfOpen: true };
  if (tls === undefined) return net.createServer(options);
  return createTlsServer({
    ...options,
    ...readKeyPair(tls),
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: config.SVC_HEADER_TIMEOUT,
  });
}

/** Makes a connection of each socket. @returns the open ones */
function connect(
  server: net.Server,
  config: ServeOptions['config'],
  options: ConnectionOptions & {
    /** Gets the requests that outlive their socket, as long as they do. */
    readonly ending: Set<Promise<void>>;
    readonly onDisconnect: (() => void) | undefined;
  },
): Sockets {
  const sockets: Sockets = new Map();
  const keepAliveLine = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(config.SVC_IDLE_TIMEOUT / 1000)}\r\n`;
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: net.Socket) => {
    const connection = new Connection(socket, options);
    const http = new HttpSocket(socket, {
      take: (exchange) => connection.take(exchange),
      refuse: (fault) => connection.refuse(fault),
      keepAliveLine,
    });
    sockets.set(http, connection);
    socket.setTimeout(config.SVC_IDLE_TIMEOUT);
    socket.on('timeout', () => connection.timeOut());
    // The socket closes by itself after an error.
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(http);
      connection.lose();
      const { serving } = connection;
      if (serving !== undefined) {
        options.ending.add(serving);
        void serving.finally(() => options.ending.delete(serving));
      }
      options.onDisconnect?.();
    });
  });
  server.on('tlsClientError', (error, socket) => refuseSocket(socket, error));
  return sockets;
}

type Sockets = Map<HttpSocket, Connection>;

/** Evenly among them, because neighbours in the list may be of one client. */
function shed(connections: readonly Connection[], share: number): void {
  for (const [index, connection] of connections.entries())
    if (Math.floor((index + 1) * share) > Math.floor(index * share)) connection.retire();
}

/** The connections below TLS, which is all there is of a client that does not end its handshake. */
function trackHandshakes(server: net.Server): ReadonlySet<net.Socket> {
  const open = new Set<net.Socket>();
  if (server instanceof TlsServer)
    server.on('connection', (socket: net.Socket) => {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    });
  return open;
}

/** Refuses heads that do not arrive in time. Node's own limit on the whole request would cut a large upload over a slow line. */
function limitHeads(sockets: Sockets, timeoutMs: number): () => void {
  const late = (): void => {
    const startedMax = performance.now() - timeoutMs;
    for (const socket of sockets.keys()) {
      if (socket.headStartedAt === 0 || socket.headStartedAt > startedMax) continue;
      socket.fail(new HttpFault('ERR_HTTP_REQUEST_TIMEOUT', 'the head did not arrive in time'));
    }
  };
  const timer = setInterval(late, Math.min(5000, Math.max(100, timeoutMs / 4)));
  timer.unref();
  return () => clearInterval(timer);
}

/** Closes idle connections immediately and busy ones after their reply; the rest is cut after the timeout. */
async function closeServer(
  server: net.Server,
  sockets: Sockets,
  { timeoutMs, cut }: { readonly timeoutMs: number; readonly cut: () => void },
): Promise<void> {
  const timer = setTimeout(cut, timeoutMs);
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  for (const each of sockets.keys()) if (each.isIdle) each.socket.destroySoon();
  await closed;
  clearTimeout(timer);
}

/** Waits for promises, for so long at most. @returns how many have not settled */
async function countUnsettled(promises: readonly Promise<void>[], ms: number): Promise<number> {
  const left = new Set(promises);
  const settled = promises.map((each) => each.finally(() => left.delete(each)));
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([Promise.allSettled(settled), late]);
  clearTimeout(timer);
  return left.size;
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

/** Compares the files with each other, so that a bad pair never replaces a good one. @throws StartRefusal */
function readKeyPair({ certFile, keyFile }: TlsFiles): KeyPair {
  try {
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
    createSecureContext({ cert: pair.cert, key: pair.key });
    return pair;
  } catch (cause) {
    // The cast: OpenSSL adds its reason, such as `no start line` where a file is not PEM.
    const { reason, message } = cause as Error & { readonly reason?: string };
    throw new StartRefusal(
      `SVC_TLS_CERT_FILE=${certFile} and SVC_TLS_KEY_FILE=${keyFile} must be a certificate and its private key as PEM: ${reason ?? message}`,
      2,
      { cause },
    );
  }
}

/**
 * Polls every few seconds, because a watch on the file would miss the replaced symbolic links of a mounted secret. Existing connections
 * keep their certificate. Returns a function that ends the polling.
 */
function reloadOnChange(
  server: TlsServer,
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
      warnOfCertificate(cert, { files, telemetry });
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

/** A certificate out of its time is served all the same, because clients may not verify it; most refuse it. */
function warnOfCertificate(
  cert: Buffer,
  { files, telemetry }: { readonly files: TlsFiles; readonly telemetry: Telemetry },
): void {
  const { validFrom, validTo } = new X509Certificate(cert);
  const [from, to, now] = [Date.parse(validFrom), Date.parse(validTo), Date.now()];
  const why = now > to ? 'has expired' : now < from ? 'is not valid yet' : undefined;
  if (why === undefined) return;
  const times = { notBefore: new Date(from).toISOString(), notAfter: new Date(to).toISOString() };
  telemetry.log('WARN', `the TLS certificate ${why}: clients refuse it`, { file: files.certFile, ...times });
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
  /** After this time without a byte, a client that does not read or send is disconnected. Default 60,000; 0: never. */
  readonly idleTimeoutMs?: number;
}

/**
 * Returns a promise for frameworks that wait for their handlers, such as h3: it resolves when the reply has left, or its client. The type
 * does not say so, because it never rejects and other callers need not handle it.
 */
export type NodeHandler = (
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
) => void;

const isHttp2 = (
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
): response is Http2ServerResponse => request.httpVersionMajor === 2 && 'stream' in response;

/**
 * Mount it before parsers of bodies, because the gateway verifies the body as it was sent. The path is the one that the client sent
 * (`originalUrl` of Express): name the mount point in `basePath` of `openGateway`.
 */
export function toNodeHandler(
  gateway: Pick<Gateway, 'handle'>,
  { telemetry = silentTelemetry, idleTimeoutMs = 60_000, ...others }: NodeHandlerOptions = {},
): NodeHandler {
  assertGateway('toNodeHandler', gateway, 'handle');
  for (const name of Object.keys(others))
    throw new TypeError(`toNodeHandler: ${name} is no option; telemetry and idleTimeoutMs are`);
  if (!Number.isFinite(idleTimeoutMs) || idleTimeoutMs < 0)
    throw new RangeError(
      `toNodeHandler: idleTimeoutMs is ${idleTimeoutMs}; it must be 0 or more milliseconds`,
    );
  const connections = new WeakMap<net.Socket, Connection>();
  const connect = (socket: net.Socket): Connection => {
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
  const take: NodeHandler = (request, response) => {
    if (isHttp2(request, response)) {
      void answerStream(response, { gateway, telemetry, idleTimeoutMs });
      return;
    }
    const { originalUrl } = request as { readonly originalUrl?: string };
    if (originalUrl !== undefined) request.url = originalUrl;
    if (isBodyRead(request)) return refuseReadBody(response, telemetry);
    const connection = connect(request.socket);
    response.setTimeout(idleTimeoutMs, () => connection.timeOut());
    connection.take({
      request,
      response: isPatched(response) ? new PatchedResponse(response) : response,
      awaitsContinue: awaitsContinue(request, response),
    });
  };
  return (request, response) =>
    new Promise<void>((resolve) => {
      if (response.destroyed) resolve();
      else response.once('finish', resolve).once('close', resolve);
      take(request, response);
    });
}

/** Whether middleware of the application, such as compression, has put methods of its own in front of those that write. */
const isPatched = (response: ServerResponse): boolean =>
  Object.hasOwn(response, 'write') || Object.hasOwn(response, 'end');

/** Middleware may drop the callback of a write, and read the bytes later, when the array is used again. */
class PatchedResponse implements ListenerResponse {
  readonly #response: ServerResponse;
  readonly #unwritten: (() => void)[] = [];

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  get req(): IncomingMessage {
    return this.#response.req;
  }
  get shouldKeepAlive(): boolean {
    return this.#response.shouldKeepAlive;
  }
  get headersSent(): boolean {
    return this.#response.headersSent;
  }
  get writableEnded(): boolean {
    return this.#response.writableEnded;
  }
  writeContinue(): void {
    this.#response.writeContinue();
  }
  writeHead(status: number, flat: string[]): this {
    this.#response.writeHead(status, flat);
    return this;
  }
  write(bytes: Uint8Array, onWritten: () => void): void {
    this.#unwritten.push(onWritten);
    if (this.#response.write(Buffer.from(bytes)) === false) this.#response.once('drain', this.#release);
    else this.#release();
  }
  end(bytes?: Uint8Array | string, onWritten?: () => void): void {
    if (onWritten !== undefined) this.#unwritten.push(onWritten);
    // After it there is no `drain` any more.
    this.#response.once('finish', this.#release);
    this.#response.end(typeof bytes === 'object' ? Buffer.from(bytes) : bytes);
  }

  readonly #release = (): void => {
    for (const onWritten of this.#unwritten.splice(0)) onWritten();
  };
}

/** Whether the client waits for `100 Continue`: Node sends it ahead of `request`, and leaves it to a listener of `checkContinue`. */
function awaitsContinue(
  { httpVersion, headers }: Pick<IncomingMessage, 'httpVersion' | 'headers'>,
  response: ServerResponse,
): boolean {
  // The cast: only this private field of Node, Bun and Deno says whether it was sent.
  const { _sent100: isSent } = response as { readonly _sent100?: boolean };
  return (
    isSent === false && httpVersion === '1.1' && /(?:^|\W)100-continue(?:$|\W)/i.test(headers.expect ?? '')
  );
}

const isBodyRead = ({
  headers,
  readableDidRead,
  readableEnded,
}: Pick<IncomingMessage, 'headers' | 'readableDidRead' | 'readableEnded'>): boolean =>
  (readableDidRead || readableEnded) &&
  (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0);

const readBefore =
  'The application has read the body before the gateway: mount the gateway before parsers of bodies.';

/** The gateway would wait for bytes that do not come again. */
function refuseReadBody(response: ServerResponse, telemetry: Telemetry): void {
  telemetry.log('ERROR', readBefore);
  const { status, headers, body } = refusal('InternalError', readBefore);
  response.writeHead(status, headers.flat()).end(body);
}

// A request of node:http2. It has a stream of its own, so the requests of a connection run at the same time, and Node frames their bodies.

const http2Codes = { internalError: 2, cancel: 8 } as const;

async function answerStream(
  response: Http2ServerResponse,
  { gateway, telemetry, idleTimeoutMs }: Pick<ConnectionOptions, 'gateway' | 'telemetry' | 'idleTimeoutMs'>,
): Promise<void> {
  const left = new AbortController();
  response.once('close', () => left.abort(new Error('the client closed the stream')));
  const incoming = fromStream(response, left.signal);
  const fault = findFault(response.req, incoming.wire.headers);
  const reply =
    fault === undefined
      ? await gateway.handle(incoming).catch((error: unknown) => {
          telemetry.log('ERROR', 'the gateway threw', { error });
          return refusal('InternalError');
        })
      : refusal('BadRequest', fault);
  // The gateway itself may take its time before.
  response.setTimeout(idleTimeoutMs, () => response.stream.close(http2Codes.cancel));
  try {
    await writeToStream(reply, response);
    // The rest of a body that nothing reads would take the flow-control window of the connection.
    if (!response.req.complete) response.stream.close();
  } catch (error) {
    if (left.signal.aborted) return;
    telemetry.log('ERROR', 'a reply was cut off', { request_id: findRequestId(reply), error });
    response.stream.close(http2Codes.internalError);
  }
}

function fromStream(response: Http2ServerResponse, signal: AbortSignal): Incoming {
  const { req: request, stream } = response;
  const { method, url, authority, rawHeaders } = request;
  const flat = rawHeaders.flatMap((name, at) =>
    at % 2 === 1 || name.startsWith(':') ? [] : [name, rawHeaders[at + 1] as string],
  );
  // Two that differ are refused, as two Host headers are.
  if (authority !== undefined && request.headers.host !== authority) flat.push('host', authority);
  const { socket } = request;
  return {
    wire: {
      method,
      target: originForm(url),
      headers: new WireHeaders(flat),
      remote: socket.remoteAddress ?? '',
      secure: stream.session?.encrypted === true,
    },
    body: stream.endAfterHeaders ? undefined : readStream(response, signal),
    signal,
  };
}

async function* readStream(
  { req: request, stream }: Http2ServerResponse,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  // A listener of `checkContinue` has not sent it.
  const isContinued = stream.sentInfoHeaders?.some((sent) => sent[':status'] === 100);
  if (request.headers.expect === '100-continue' && !isContinued) stream.additionalHeaders({ ':status': 100 });
  try {
    yield* request.iterator({ destroyOnReturn: false });
  } catch (cause) {
    throw signal.aborted ? cause : fail('IncompleteBody', { cause });
  }
}

/** Copies each array of a stream, because it is used again before the client has read it. */
async function writeToStream({ status, headers, body }: Reply, response: Http2ServerResponse): Promise<void> {
  for (const [name, value] of headers) response.appendHeader(name, value);
  response.writeHead(status);
  const hasBody = response.req.method !== 'HEAD' && status !== 204 && status !== 304;
  if (isStream(body)) {
    if (hasBody)
      for await (const piece of body) {
        if (response.destroyed) return;
        if (!response.write(new Uint8Array(piece))) await waitForClient(response);
      }
    else await body[Symbol.asyncIterator]().return?.();
    response.end();
  } else if (hasBody && body !== undefined) response.end(body);
  else response.end();
  await new Promise<void>((resolve) => {
    if (response.writableFinished || response.destroyed) return resolve();
    response.once('finish', resolve).once('close', resolve);
  });
}

/** Until it has read, or has left. */
async function waitForClient(response: Http2ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  response.once('drain', resolve).once('close', resolve);
  await promise;
  response.off('drain', resolve).off('close', resolve);
}
