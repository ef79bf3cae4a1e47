/**
 * A client of the operator API for every runtime with `fetch`. Its types come from the table of operations, so a wrong
 * name, path parameter, query, body or field of a reply does not compile.
 */
import { portableHasher } from './backends/crypto/portable.ts';
import { toHex } from './base/text/hex.ts';
import type { Hasher } from './ports/cryptography.ts';
import {
  type AdminBody,
  type AdminOperationName,
  type AdminQuery,
  type AdminReply,
  type adminOperations,
  describeAdminOperation,
} from './protocol/admin/operations.ts';
import type { Plain } from './protocol/formats/json.ts';
import { signer } from './signing/sign-request.ts';
import { encode } from './signing/signing-key.ts';

type Names<Path> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | Names<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

export interface AdminAsk<N extends AdminOperationName> {
  readonly path?: Readonly<Record<Names<(typeof adminOperations)[N]['on']>, string>>;
  readonly query?: Plain<AdminQuery<N>>;
  readonly body?: Plain<AdminBody<N>>;
  /** The ETag of the state that a change replaces. */
  readonly ifMatch?: string;
  /** The change applies only while nothing is set. */
  readonly ifNoneMatch?: '*';
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
}

export interface AdminAnswer<T> {
  readonly status: number;
  /** Undefined where the reply is not JSON. */
  readonly json: T;
  readonly text: string;
  readonly etag: string | undefined;
}

export interface AdminClientOptions {
  /** Such as `https://gateway.example.com:9000`, or `https://app.example.com/s3` for a gateway with the `basePath` `/s3`. */
  readonly endpoint: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region?: string;
  readonly hasher?: Hasher;
  readonly fetch?: typeof fetch;
}

/** The gateway has refused the request. */
export class AdminRefused extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, body: unknown) {
    // The cast: the fields are read one by one, and may be missing where a proxy has answered.
    const { code, message, request_id, details } = (body ?? {}) as Readonly<Record<string, unknown>>;
    super(typeof message === 'string' ? message : `HTTP ${status}`);
    this.status = status;
    this.code = typeof code === 'string' ? code : '';
    this.requestId = typeof request_id === 'string' ? request_id : '';
    this.details = typeof details === 'object' && details !== null ? { ...details } : {};
  }
}

export interface AdminClient {
  /** @throws AdminRefused, and what `fetch` throws where the gateway cannot be reached */
  call<N extends AdminOperationName>(name: N, ask?: AdminAsk<N>): Promise<AdminAnswer<Plain<AdminReply<N>>>>;
  /** For exports and archives, which may be larger than the memory. @throws AdminRefused; the stream fails where the reply breaks off */
  stream<N extends AdminOperationName>(name: N, ask?: AdminAsk<N>): Promise<ReadableStream<Uint8Array>>;
}

const utf8 = new TextEncoder();

export function openAdminClient(options: AdminClientOptions): AdminClient {
  const { accessKey, secretKey, region = 'us-east-1', hasher = portableHasher() } = options;
  const send = options.fetch ?? fetch;
  const { origin, host, pathname } = new URL(options.endpoint);
  const basePath = pathname.replace(/\/$/, '');
  const sign = signer({ hasher, clock: { now: Date.now }, accessKey, secretKey, region });
  /** @throws AdminRefused */
  const request = async <N extends AdminOperationName>(name: N, ask: AdminAsk<N>): Promise<Response> => {
    const { method, path } = describeAdminOperation(name);
    const input: Readonly<Record<string, string | undefined>> = ask.path ?? {};
    const content = ask.body === undefined ? '' : JSON.stringify(ask.body);
    const { target, headers } = sign({
      method,
      path:
        basePath +
        path.replace(/:(\w+)/g, (_, parameter: string) => encode(requireName(parameter, input[parameter]))),
      query: Object.entries(ask.query ?? {}).flatMap(([key, value]) =>
        value === undefined ? [] : [[key, String(value)] as const],
      ),
      headers: {
        host,
        ...(content === '' ? {} : { 'content-type': 'application/json' }),
        ...(ask.ifMatch === undefined ? {} : { 'if-match': ask.ifMatch }),
        ...(ask.ifNoneMatch === undefined ? {} : { 'if-none-match': ask.ifNoneMatch }),
        ...(ask.idempotencyKey === undefined ? {} : { 'idempotency-key': ask.idempotencyKey }),
      },
      payloadHash: toHex(hasher.once('sha256', utf8.encode(content))),
    });
    const { host: _, ...sent } = headers;
    const response = await send(origin + target, {
      method,
      headers: sent,
      redirect: 'error',
      ...(content === '' ? {} : { body: content }),
      ...(ask.signal === undefined ? {} : { signal: ask.signal }),
    });
    if (!response.ok) throw new AdminRefused(response.status, readReply(await response.text()));
    return response;
  };
  return {
    async call(name, ask = {}) {
      const response = await request(name, ask);
      const text = await response.text();
      const json = response.headers.get('content-type') === 'application/json' ? readReply(text) : undefined;
      return { status: response.status, json, text, etag: response.headers.get('etag') ?? undefined };
    },
    async stream(name, ask = {}) {
      const { body } = await request(name, ask);
      return body ?? new ReadableStream({ start: (controller) => controller.close() });
    },
  };
}

/** Without this check, an empty name would address the list instead of its entry. */
function requireName(parameter: string, value: string | undefined): string {
  if (value === undefined || value === '' || value === '.' || value === '..')
    throw new RangeError(`${parameter} is missing, or no name`);
  return value;
}

function readReply(text: string) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
