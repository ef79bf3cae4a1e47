/** Writes a reply to a node:http response; a body that breaks off never looks complete. */
import type { ServerResponse } from 'node:http';
import type { Reply } from '../protocol/reply.ts';

/** Name, value, name, value: the form that node:http writes without another look. */
interface Head {
  readonly status: number;
  readonly flat: string[];
  /** The value of Content-Length. */
  readonly length: number | undefined;
}

export interface WriteOptions {
  readonly response: ServerResponse;
  /** Whether this is the last reply of its connection. */
  readonly close: boolean;
  /** Whether the client went away; looked at between two arrays. */
  readonly isLost: () => boolean;
}

function headOf({ status, headers }: Reply, close: boolean): Head {
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
export function writeReply(reply: Reply, options: WriteOptions): Promise<void> | undefined {
  const { response, close } = options;
  const { body } = reply;
  const head = headOf(reply, close);
  if (response.req.method === 'HEAD' || reply.status === 204 || reply.status === 304) {
    response.writeHead(head.status, head.flat).end();
    return isStream(body) ? leave(body[Symbol.asyncIterator]()) : undefined;
  }
  if (isStream(body)) return writeStream(body[Symbol.asyncIterator](), head, options);
  if (head.length === undefined) head.flat.push('Content-Length', String(lengthOf(body)));
  response.writeHead(head.status, head.flat).end(body);
  return undefined;
}

function lengthOf(body: Uint8Array | string | undefined): number {
  if (body === undefined) return 0;
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
}

/** Gives a stream back that nobody reads any further. */
export async function leave(iterator: AsyncIterator<Uint8Array>): Promise<void> {
  await iterator.return?.();
}

/**
 * An array is valid until the next but one is asked for, so two may be on their way to the kernel: before
 * a further one is asked for, the older of them must have left. Before what may be the end is asked for,
 * both must have, because a stream that ends may give its buffers to the next.
 */
async function writeStream(
  iterator: AsyncIterator<Uint8Array>,
  head: Head,
  options: WriteOptions,
): Promise<void> {
  const { response, isLost } = options;
  let sentBytes = 0;
  let older: Promise<void> | undefined;
  let newer: Promise<void> | undefined;
  try {
    // The head waits for the first array: they leave together, and a stream that fails at once is still a clean error.
    let next = await iterator.next();
    response.writeHead(head.status, head.flat);
    for (; next.done !== true; next = await iterator.next()) {
      if (isLost()) return await leave(iterator);
      sentBytes += next.value.byteLength;
      if (head.length !== undefined && sentBytes > head.length) throw new LengthFault(head.length, sentBytes);
      if (next.value.byteLength > 0) {
        older = newer;
        newer = flushed(response, next.value);
      }
      await older;
      if (sentBytes === head.length) await newer;
    }
  } catch (error) {
    await leave(iterator).catch(() => {});
    throw error;
  }
  if (head.length !== undefined && sentBytes < head.length) throw new LengthFault(head.length, sentBytes);
  response.end();
}

/** The callback also comes when the socket is gone. */
const flushed = (response: ServerResponse, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve) => {
    response.write(bytes, () => resolve());
  });

/** A bug of the handler: written out as it stands it would shift the next reply of the connection. */
class LengthFault extends Error {
  constructor(announced: number, sent: number) {
    super(`the reply announced ${announced} bytes and has ${sent < announced ? 'only' : 'at least'} ${sent}`);
  }
}
