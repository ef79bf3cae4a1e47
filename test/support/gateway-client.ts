/** A client of the gateway in a test: signs every request in either dialect, sends it, reads the whole reply. */
import { XMLParser } from 'fast-xml-parser';
import type { Gateway } from '../../src/gateway.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Credential } from '../../src/ports/credentials.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { WireHeaders } from '../../src/protocol/wire.ts';
import { type PresignSpec, type RequestSpec, type SignedRequest, signer, toRequest } from './sign.ts';

export interface ClientOptions {
  readonly credential?: Credential;
  readonly dialect?: 'amz' | 'store';
  readonly host?: string;
  readonly anonymous?: boolean;
  /** The service in the credential scope. Default: s3. */
  readonly service?: 's3' | 'iam' | 'sts';
  /** The session token of temporary credentials. */
  readonly token?: string;
  /** Sends through `gateway.fetch` instead of `gateway.handle`. */
  readonly fetch?: boolean;
}

/** `path` may carry a query, as in `/b/k?uploads`; both are sent unchanged, so encode them where needed. */
export interface Ask extends Omit<RequestSpec, 'method' | 'path'> {
  readonly signal?: AbortSignal;
  /** The client's address. */
  readonly remote?: string;
  /** The bytes that arrive instead of the signed body. */
  readonly arriving?: (body: Uint8Array) => AsyncIterable<Uint8Array>;
}

export interface Answer {
  readonly status: number;
  /** A header; `*-` stands for the client's own prefix. */
  header(name: string): string | undefined;
  readonly headers: readonly (readonly [string, string])[];
  readonly bytes: Uint8Array;
  readonly text: string;
  /** The error code of an XML reply, '' when there is none. */
  readonly code: string;
  /** The texts of all elements of a name, in order. */
  all(element: string): string[];
  one(element: string): string | undefined;
}

type Send = (path: string, ask?: Ask) => Promise<Answer>;
export interface Client {
  readonly get: Send;
  readonly head: Send;
  readonly put: Send;
  readonly post: Send;
  readonly delete: Send;
  send(method: string, path: string, ask?: Ask): Promise<Answer>;
  presigned(method: string, path: string, spec?: PresignSpec): Promise<Answer>;
  /** By a version 2 query; the token of temporary credentials is a query name like others. */
  presignedV2(method: string, path: string, spec?: PresignSpec): Promise<Answer>;
  /** Sends a request that was signed (or forged) elsewhere. */
  sendRaw(request: SignedRequest, ask?: Ask): Promise<Answer>;
}

export function openClient(gateway: Gateway, clock: Clock, options: ClientOptions): Client {
  const { credential, dialect = 'amz', host = 'localhost' } = options;
  const sign = signer({
    accessKey: credential?.accessKey ?? '',
    secretKey: credential?.secretKey ?? '',
    dialect,
    host,
    now: clock.now,
    ...(options.service === undefined ? {} : { service: options.service }),
  });
  const prefix = dialect === 'amz' ? 'x-amz-' : 'x-store-';
  const sendRaw = async (request: SignedRequest, ask: Ask = {}): Promise<Answer> => {
    if (options.fetch) return fromResponse(await gateway.fetch(toRequest(request)), prefix);
    return fromReply(await gateway.handle(incoming(request, ask)), prefix);
  };
  const specOf = (method: string, path: string, ask: Ask): RequestSpec => {
    const at = path.indexOf('?');
    const inline = at < 0 ? [] : [...new URLSearchParams(path.slice(at + 1))];
    const more =
      ask.query === undefined ? [] : Array.isArray(ask.query) ? ask.query : Object.entries(ask.query);
    const query = [...inline, ...more];
    return { ...ask, method, path: at < 0 ? path : path.slice(0, at), query };
  };
  const { token } = options;
  const pairs = (given: Ask['headers'] = []): readonly (readonly [string, string])[] =>
    Array.isArray(given) ? given : Object.entries(given);
  const send = async (method: string, path: string, given: Ask = {}): Promise<Answer> => {
    const ask: Ask =
      token === undefined
        ? given
        : { ...given, headers: [...pairs(given.headers), ['*-security-token', token]] };
    const spec = specOf(method, path, ask);
    return sendRaw(options.anonymous ? sign.anonymous(spec) : sign.request(spec), ask);
  };
  return {
    send,
    sendRaw,
    get: (path, ask) => send('GET', path, ask),
    head: (path, ask) => send('HEAD', path, ask),
    put: (path, ask) => send('PUT', path, ask),
    post: (path, ask) => send('POST', path, ask),
    delete: (path, ask) => send('DELETE', path, ask),
    presignedV2: (method, path, spec = {}) =>
      sendRaw(sign.presignV2({ ...spec, ...specOf(method, path, spec as Ask) })),
    presigned: (method, path, spec = {}) => {
      const signing: readonly (readonly [string, string])[] =
        token === undefined ? [] : [[`${dialect === 'amz' ? 'X-Amz-' : 'X-Store-'}Security-Token`, token]];
      const query = [...pairs(spec.query), ...signing];
      return sendRaw(sign.presign({ ...spec, ...specOf(method, path, { ...spec, query } as Ask) }));
    },
  };
}

function incoming(request: SignedRequest, { signal, arriving, remote = '127.0.0.1' }: Ask) {
  const { body } = request;
  const headers = new WireHeaders(request.headers.flat());
  const whole = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  };
  return {
    wire: { method: request.method, target: request.target, headers, remote, secure: false },
    body: body === undefined ? undefined : (arriving ?? whole)(body),
    signal: signal ?? new AbortController().signal,
  };
}

async function fromReply(reply: Reply, prefix: string): Promise<Answer> {
  const { body } = reply;
  const pieces: Uint8Array[] = [];
  if (typeof body === 'string') pieces.push(Buffer.from(body));
  else if (body instanceof Uint8Array) pieces.push(body);
  else if (body !== undefined) for await (const piece of body) pieces.push(new Uint8Array(piece));
  return answerOf(reply.status, reply.headers, Buffer.concat(pieces), prefix);
}

const fromResponse = async (response: Response, prefix: string): Promise<Answer> =>
  answerOf(response.status, [...response.headers], new Uint8Array(await response.arrayBuffer()), prefix);

const parser = new XMLParser({
  preserveOrder: true,
  parseTagValue: false,
  trimValues: false,
  ignoreAttributes: true,
  htmlEntities: true,
});
type Raw = Readonly<Record<string, unknown>>;

function answerOf(status: number, headers: Answer['headers'], bytes: Uint8Array, prefix: string): Answer {
  const text = Buffer.from(bytes).toString('utf8');
  const all = (element: string): string[] =>
    text.startsWith('<?xml') ? findAll(parser.parse(text) as Raw[], element) : [];
  return {
    status,
    headers,
    bytes,
    text,
    header: (name) => {
      const wanted = name.replace(/^\*-/, prefix).toLowerCase();
      return headers.find(([known]) => known.toLowerCase() === wanted)?.[1];
    },
    get code() {
      return all('Code')[0] ?? '';
    },
    all,
    one: (element) => all(element)[0],
  };
}

function findAll(nodes: readonly Raw[], element: string): string[] {
  return nodes.flatMap((node) =>
    Object.entries(node).flatMap(([name, inside]) => {
      if (!Array.isArray(inside)) return [];
      return [...(name === element ? [textOf(inside as Raw[])] : []), ...findAll(inside as Raw[], element)];
    }),
  );
}

const textOf = (nodes: readonly Raw[]): string =>
  nodes
    .map((node) =>
      '#text' in node
        ? String(node['#text'])
        : Object.values(node)
            .map((inside) => (Array.isArray(inside) ? textOf(inside as Raw[]) : ''))
            .join(''),
    )
    .join('');
