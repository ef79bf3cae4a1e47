/** The client of the operator API: the cookie of the log-in says who asks, and the CSRF token goes with every change. */

import type { AdminAsk } from '../../src/admin-client.ts';
import type { AdminOperationName, AdminReply } from '../../src/protocol/admin/operations.ts';
import type { Plain } from '../../src/protocol/formats/json.ts';
import { basePath } from './base-path.ts';
import { operations } from './operations.ts';

export type { AdminOperationName } from '../../src/protocol/admin/operations.ts';

export type Ask<N extends AdminOperationName> = AdminAsk<N>;

export type Answer<N extends AdminOperationName> = Plain<AdminReply<N>>;

/** A request that the gateway has refused. `code` is '' where a proxy answered. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, refusal: Partial<Pick<Refused, 'code' | 'message' | 'requestId' | 'details'>>) {
    super(refusal.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = refusal.code ?? '';
    this.requestId = refusal.requestId ?? '';
    this.details = refusal.details ?? {};
  }
}

/** Whether the gateway answered that there is no such thing. */
export const isMissing = (error: unknown): boolean => error instanceof Refused && error.status === 404;

/** For `catch`: undefined where there is no such thing. @throws any other error */
export function orMissing(cause: unknown): undefined {
  if (isMissing(cause)) return undefined;
  throw cause;
}

/** No answer came: the network, the gateway or a proxy is down. */
export class Unreachable extends Error {}

/** Set by the session. A page that reloads gets it again with GetSession. */
let csrfToken: string | undefined;
export const setCsrfToken = (token: string | undefined): void => {
  csrfToken = token;
};
export const hasCsrfToken = (): boolean => csrfToken !== undefined;

/** Called where a request was refused, because its log-in may have ended. */
let onRefused: () => void = () => {};
export const whenRefused = (listener: () => void): void => {
  onRefused = listener;
};

/** For clients of other protocols: the session asks whether the log-in still holds. */
export const reportRefusal = (): void => onRefused();

/** The address of a request, also for links that download. */
export function addressOf<N extends AdminOperationName>(name: N, ask: Ask<N> = {}): string {
  const [, path = ''] = (operations[name] ?? '').split(' ');
  const parameters: Readonly<Record<string, string | undefined>> = ask.path ?? {};
  const filled = path.replace(/:(\w+)/g, (_, parameter: string) => {
    const value = parameters[parameter];
    if (value === undefined || value === '' || value === '.' || value === '..')
      throw new RangeError(`${parameter} is missing, or no name`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(ask.query ?? {}))
    if (value !== undefined && value !== '') query.set(key, String(value));
  const text = query.toString();
  return `${basePath}/admin/v1${filled}${text === '' ? '' : `?${text}`}`;
}

/** @throws Unreachable */
export async function send<N extends AdminOperationName>(name: N, ask: Ask<N>): Promise<Response> {
  const [method = 'GET'] = (operations[name] ?? '').split(' ');
  const headers: Record<string, string> = { accept: 'application/json' };
  if (method !== 'GET' && csrfToken !== undefined) headers['x-csrf-token'] = csrfToken;
  if (ask.body !== undefined) headers['content-type'] = 'application/json';
  if (ask.ifMatch !== undefined) headers['if-match'] = ask.ifMatch;
  if (ask.ifNoneMatch !== undefined) headers['if-none-match'] = ask.ifNoneMatch;
  if (ask.idempotencyKey !== undefined) headers['idempotency-key'] = ask.idempotencyKey;
  try {
    return await fetch(addressOf(name, ask), {
      method,
      headers,
      credentials: 'same-origin',
      redirect: 'error',
      ...(ask.body === undefined ? {} : { body: JSON.stringify(ask.body) }),
      ...(ask.signal === undefined ? {} : { signal: ask.signal }),
    });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new Unreachable('no answer', { cause });
  }
}

/** @throws Refused, Unreachable */
export async function request<N extends AdminOperationName>(
  name: N,
  ask: Ask<N> = {},
): Promise<{ readonly json: Answer<N>; readonly text: string; readonly etag: string | undefined }> {
  const response = await send(name, ask);
  const text = await response.text();
  const json = parse(text);
  if (!response.ok) {
    if (response.status === 403 && name !== 'LogIn') onRefused();
    throw new Refused(response.status, readRefusal(json));
  }
  return { json: json as Answer<N>, text, etag: response.headers.get('etag') ?? undefined };
}

/** The decoded reply. @throws Refused, Unreachable */
export const call = async <N extends AdminOperationName>(name: N, ask: Ask<N> = {}): Promise<Answer<N>> =>
  (await request(name, ask)).json;

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function readRefusal(body: unknown) {
  const { code, message, request_id, details } = (body ?? {}) as Readonly<Record<string, unknown>>;
  return {
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof message === 'string' ? { message } : {}),
    ...(typeof request_id === 'string' ? { requestId: request_id } : {}),
    ...(typeof details === 'object' && details !== null ? { details: { ...details } } : {}),
  };
}
