/** Writes a reply to the response of the listener; a body that fails midway never looks complete. */
import type { Duplex } from 'node:stream';
import { type ErrorCode, fail } from '../../base/errors.ts';
import { drawRequestId } from '../../domain/common/ids.ts';
import { systemRandom } from '../../ports/random.ts';
import { renderHeaders, renderRefusal } from '../../protocol/render.ts';
import type { Reply } from '../../protocol/reply.ts';
import { http } from './http.ts';
import type { ListenerResponse } from './http-exchange.ts';

/** Name, value, name, value: the form that node:http writes without another look. */
interface Head {
  readonly status: number;
  readonly flat: string[];
  /** The value of Content-Length. */
  readonly length: number | undefined;
}

interface WriteOptions {
  readonly response: ListenerResponse;
  /** Whether this is the last reply of its connection. */
  readonly close: boolean;
  /** The client, which may disconnect. */
  readonly client: Client;
}

export interface Client {
  readonly isLost: boolean;
  /** Whether a reply is waiting for the client. */
  isBehind: boolean;
  /** Called when the client disconnects; the last one that was set. */
  onLost: (() => void) | undefined;
}

function buildHead({ status, headers }: Reply, close: boolean): Head {
  const flat: string[] = [];
  let length: number | undefined;
  for (const [name, value] of headers) {
    flat.push(name, value);
    if (name.length === 14 && name.toLowerCase() === 'content-length') length = Number(value);
  }
  if (close) flat.push('Connection', 'close');
  return { status, flat, length };
}

const isStream = (body: Reply['body']): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && Symbol.asyncIterator in body;

/** Resolves when the response took everything. Rejects when a stream broke: the socket is then the caller's to end. */
export async function writeReply(reply: Reply, options: WriteOptions): Promise<void> {
  const { response, close } = options;
  const { body } = reply;
  const head = buildHead(reply, close);
  if (response.req.method === 'HEAD' || reply.status === 204 || reply.status === 304) {
    response.writeHead(head.status, head.flat).end();
    if (isStream(body)) await leave(body[Symbol.asyncIterator]());
    return;
  }
  if (isStream(body)) return writeStream(body[Symbol.asyncIterator](), head, options);
  const length = countBytes(body);
  if (head.length === undefined) head.flat.push('Content-Length', String(length));
  else if (head.length !== length) throw new LengthFault(head.length, length);
  response.writeHead(head.status, head.flat).end(body);
}

function countBytes(body: Uint8Array | string | undefined): number {
  if (body === undefined) return 0;
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
}

/** Ends a stream that is read no further. */
async function leave(iterator: AsyncIterator<Uint8Array>): Promise<void> {
  await iterator.return?.();
}

/**
 * An array is valid until the array after the next is requested. So one array may be on its way to the kernel when the next is
 * requested, and none when that may be the end: a stream that ends may release its buffers.
 */
async function writeStream(
  iterator: AsyncIterator<Uint8Array>,
  head: Head,
  { response, client }: WriteOptions,
): Promise<void> {
  const pipe = new Pipe(response, client);
  let sentBytes = 0;
  try {
    // The head waits for the first array: both are sent together, and a stream that fails immediately becomes an error reply.
    let next = await iterator.next();
    if (!client.isLost) response.writeHead(head.status, head.flat);
    for (; next.done !== true; next = await iterator.next()) {
      if (client.isLost) return await leave(iterator);
      sentBytes += next.value.byteLength;
      if (head.length !== undefined && sentBytes > head.length) throw new LengthFault(head.length, sentBytes);
      if (sentBytes === head.length) pipe.end(next.value);
      else if (next.value.byteLength > 0) pipe.write(next.value);
      await pipe.holdsAtMost(sentBytes === head.length ? 0 : 1);
    }
  } catch (error) {
    await leave(iterator).catch(() => {});
    throw error;
  }
  if (head.length !== undefined && sentBytes < head.length) throw new LengthFault(head.length, sentBytes);
  if (!response.writableEnded) response.end();
}

/** Counts the arrays that are not yet in the kernel. */
class Pipe {
  readonly #response: ListenerResponse;
  readonly #client: Client;
  #buffered = 0;
  #wake: (() => void) | undefined;

  constructor(response: ListenerResponse, client: Client) {
    this.#response = response;
    this.#client = client;
    // A write that the end of its socket finds under way may never call back.
    client.onLost = () => this.#wake?.();
  }

  write(bytes: Uint8Array): void {
    this.#buffered += 1;
    this.#response.write(bytes, this.#onWritten);
  }

  /** Together with the last bytes, which spares a small reply a second write. */
  end(bytes: Uint8Array): void {
    if (this.#response.writableEnded) return;
    this.#buffered += 1;
    this.#response.end(bytes, this.#onWritten);
  }

  readonly #onWritten = (): void => {
    this.#buffered -= 1;
    this.#wake?.();
  };

  async holdsAtMost(count: number): Promise<void> {
    while (this.#buffered > count && !this.#client.isLost) {
      this.#client.isBehind = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#client.isBehind = false;
  }
}

/** A bug of the handler: sending the body as it is would shift the next reply of the connection. */
class LengthFault extends Error {
  constructor(announced: number, sent: number) {
    super(`the reply announced ${announced} bytes and has ${sent < announced ? 'only' : 'at least'} ${sent}`);
  }
}

// Replies of the Node listener itself, to what never becomes a request: an error like any other, then the end.

const random = systemRandom();

/** An invalid request has no dialect, so the reply has the request id under both names. */
export function refusal(code: ErrorCode, message?: string): Reply {
  const requestId = drawRequestId(random);
  const refused = message === undefined ? fail(code) : fail(code, message);
  const reply = renderRefusal(refused, { requestId, resource: '', isHead: false, format: 'xml' });
  return { ...reply, headers: renderHeaders([['*-request-id', requestId], ...reply.headers], undefined) };
}

/** Long enough for a client that is still sending to see the reply before the reset. */
const lingerMs = 500;

/** Writes to the socket directly, because what arrived is no request. */
export function refuseSocket(socket: Duplex, error: Error & { readonly code?: string }): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const { status, headers, body } = buildRefusal(error);
  const length = ['Content-Length', String(Buffer.byteLength(body as string))];
  const lines = [...headers, ['Connection', 'close'], length].map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'));
  setTimeout(() => socket.destroy(), lingerMs);
}

/** node's `code` of a clientError → the refusal that the client gets. */
function buildRefusal(error: { readonly code?: string }): Reply {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return refusal('RequestHeaderSectionTooLarge');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refusal('RequestTimeout', 'The headers of the request did not arrive in time.');
    default:
      return refusal('BadRequest');
  }
}
