/** Converts a fetch `Request` to the gateway's input, and its reply to a `Response`, without runtime APIs. */
import { fail } from '../base/errors.ts';
import { byteString } from '../base/text/utf8.ts';
import { isStream } from './render.ts';
import type { Reply } from './reply.ts';
import { type Incoming, type Wire, WireHeaders } from './wire.ts';

/**
 * What a runtime knows of a request beyond its `Request`: the client's address (`remote`), TLS (`secure`), raw target
 * and headers. `isRewritten: false`: its `request.url` is raw.
 */
export type FetchFacts = Partial<Pick<Wire, 'remote' | 'secure' | 'target' | 'headers' | 'isRewritten'>>;

/**
 * A runtime that knows more than the `Request` (raw target, raw headers, peer, TLS) passes it in `wire`. Otherwise the target is derived
 * from `request.url`, where dot segments and tabs are already rewritten.
 */
export function fromRequest(request: Request, wire: FetchFacts = {}): Incoming {
  return {
    wire: {
      method: request.method,
      target: wire.target ?? parseTarget(request.url),
      isRewritten: wire.isRewritten ?? wire.target === undefined,
      headers: wire.headers ?? new WireHeaders(flatten(request)),
      hasJoinedHeaders: wire.headers === undefined,
      remote: wire.remote ?? '',
      secure: wire.secure ?? request.url.startsWith('https:'),
    },
    body: request.body === null ? undefined : readBody(request.body, request.signal),
    signal: request.signal,
  };
}

/** Not `new URL(…)`, which would normalise again, and costs ten times as much. */
function parseTarget(url: string): string {
  const path = url.indexOf('/', url.indexOf('://') + 3);
  const fragment = url.indexOf('#');
  const target = path < 0 ? '/' : fragment < 0 ? url.slice(path) : url.slice(path, fragment);
  return target.startsWith('/') ? target : `/${target}`;
}

/**
 * workerd decodes a header as UTF-8, where the standard has a character for each byte. A value up to U+00FF is left as
 * it is: it may be either.
 */
const toByteString = (value: string): string => (/[^\0-\xff]/.test(value) ? byteString(value) : value);

/** A Request made by hand has no Host header; its URL names the host all the same. */
function flatten(request: Request): string[] {
  const flat: string[] = [];
  for (const [name, value] of request.headers) flat.push(name, toByteString(value));
  if (!request.headers.has('host')) flat.push('host', parseHost(request.url));
  return flat;
}

function parseHost(url: string): string {
  return /^[^:]+:\/\/([^/?#]*)/.exec(url)?.[1] ?? '';
}

const brokenMessage = 'The body of the request could not be read to its end.';

async function* readBody(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  let finished = false;
  // A request that the application makes itself may be aborted while its body has nothing to read. Ends the read that waits.
  const stop = (): void => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener('abort', stop);
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await reader.read().catch((cause: unknown) => {
        // Deno and workerd break the body of a client that left before they abort the signal, if they do at all.
        throw signal.aborted ? cause : fail('IncompleteBody', { message: brokenMessage, cause });
      });
      signal.throwIfAborted();
      if (done) break;
      yield value;
    }
    finished = true;
  } finally {
    signal.removeEventListener('abort', stop);
    // A reader that stops early does not wait for the client.
    if (!finished) reader.cancel().catch(() => {});
    reader.releaseLock();
  }
}

const bodiless = (status: number): boolean => status === 204 || status === 205 || status === 304;

/** @param method of the request: the reply to a HEAD keeps its Content-Length and loses its body */
export function toResponse(reply: Reply, method?: string): Response {
  // By default workerd would encode the body by its Content-Encoding, and stored bytes are encoded already. Other runtimes ignore `encodeBody`.
  const init = {
    status: reply.status,
    headers: reply.headers as [string, string][],
    encodeBody: 'manual',
  } as const;
  const { body } = reply;
  if (body === undefined || method === 'HEAD' || bodiless(reply.status)) {
    if (isStream(body))
      body[Symbol.asyncIterator]()
        .return?.()
        ?.catch(() => {});
    return new Response(null, init);
  }
  return new Response(isStream(body) ? toStream(body) : (body as BodyInit), init);
}

/**
 * Pulls one array at a time and copies it: a byte stream detaches the buffer that it is given, which belongs to a pool.
 */
function toStream(body: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      let next = await iterator.next();
      // A pull that neither enqueues nor closes would not be repeated.
      while (next.done !== true && next.value.byteLength === 0) next = await iterator.next();
      if (next.done === true) {
        controller.close();
        controller.byobRequest?.respond(0);
        return;
      }
      controller.enqueue(new Uint8Array(next.value));
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}
