/** How this service gets its token: from a file, or for the identity of an application role or a Kubernetes service account. */
import { readFile } from 'node:fs/promises';
import { KeyFailure, type KeyFailureReason } from '../../ports/key-provider.ts';
import type { Cause } from '../../ports/trace.ts';
import { type KeyReply, type KeyRequests, readObject } from './key-requests.ts';

export interface Lease {
  readonly token: string;
  /** Infinity for a token without an end. */
  readonly lifeMs: number;
  readonly isRenewable: boolean;
}

export interface TransitAuth {
  /** @throws KeyFailure `unavailable`, also where the login is refused: that is the operator's to mend; or `throttled` */
  login(calls: TransitCalls): Promise<Lease>;
}

export interface TransitCalls {
  ask(
    method: 'GET' | 'POST',
    path: string,
    request: { readonly token?: string; readonly body?: object; readonly cause?: Cause | undefined },
  ): Promise<KeyReply>;
  /** The token that an answer of a login or renewal contains. */
  leaseIn(text: string): Lease | undefined;
}

export function transitCalls(
  requests: KeyRequests,
  { origin, namespace }: { readonly origin: string; readonly namespace?: string | undefined },
): TransitCalls {
  return {
    ask: (method, path, { token, body, cause }) =>
      requests.ask({
        method,
        origin,
        path: `/v1/${path}`,
        headers: {
          'x-vault-request': 'true',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { 'x-vault-token': token }),
          ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
          ...(cause === undefined ? {} : { traceparent: cause.traceparent }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    leaseIn(text) {
      const auth = readObject(text)?.['auth'] as Record<string, unknown> | undefined;
      const { client_token: token, lease_duration: seconds, renewable } = auth ?? {};
      if (typeof token !== 'string' || typeof seconds !== 'number') return undefined;
      return { token, lifeMs: toLife(seconds), isRenewable: renewable === true };
    },
  };
}

/** 0 is a token without an end. */
const toLife = (seconds: number): number => (seconds > 0 ? seconds * 1000 : Number.POSITIVE_INFINITY);

/** The file is read at each login, because an agent or the platform may replace it. */
async function readSecret(path: string, setting: string): Promise<string> {
  try {
    const text = (await readFile(path, 'utf8')).trim();
    if (/^[\x21-\x7e]{1,16384}$/.test(text)) return text;
  } catch (cause) {
    throw new KeyFailure('unavailable', `${setting}=${path} cannot be read`, { cause });
  }
  throw new KeyFailure('unavailable', `${setting}=${path} does not hold one line of printable ASCII`);
}

/** A token in a file; something else may replace the file. */
export const tokenAuth = (file: string): TransitAuth => ({
  async login(calls) {
    const token = await readSecret(file, 'SVC_TRANSIT_TOKEN_FILE');
    const { status, text } = await calls.ask('GET', 'auth/token/lookup-self', { token });
    const data = readObject(text)?.['data'] as Record<string, unknown> | undefined;
    if (status !== 200 || typeof data?.['ttl'] !== 'number')
      throw refused('the token of SVC_TRANSIT_TOKEN_FILE', status);
    return { token, lifeMs: toLife(data['ttl']), isRenewable: data['renewable'] === true };
  },
});

interface LoginOptions {
  /** Where the auth method is mounted. */
  readonly mount: string;
  /** The setting and the path of the file with the secret. */
  readonly secret: readonly [setting: string, file: string];
  body(secret: string): object;
}

const loginAuth = ({ mount, secret: [setting, file], body }: LoginOptions): TransitAuth => ({
  async login(calls) {
    const secret = await readSecret(file, setting);
    const { status, text } = await calls.ask('POST', `auth/${mount}/login`, { body: body(secret) });
    const lease = status === 200 ? calls.leaseIn(text) : undefined;
    if (lease === undefined) throw refused(`the login at auth/${mount}`, status);
    return lease;
  },
});

export const appRoleAuth = (options: {
  readonly mount: string;
  readonly roleId: string;
  readonly secretIdFile: string;
}): TransitAuth =>
  loginAuth({
    mount: options.mount,
    secret: ['SVC_TRANSIT_SECRET_ID_FILE', options.secretIdFile],
    body: (secret) => ({ role_id: options.roleId, secret_id: secret }),
  });

export const kubernetesAuth = (options: {
  readonly mount: string;
  readonly role: string;
  readonly jwtFile: string;
}): TransitAuth =>
  loginAuth({
    mount: options.mount,
    secret: ['SVC_TRANSIT_JWT_FILE', options.jwtFile],
    body: (jwt) => ({ role: options.role, jwt }),
  });

/** Answers of servers are not repeated: they may contain what was sent. */
const refused = (what: string, status: number): KeyFailure =>
  new KeyFailure(loginFailure(status), `${what} was answered with ${status}, and without a token`);

/** 429: a rate limit of the server, or of the namespace. */
export const loginFailure = (status: number): KeyFailureReason =>
  status === 429 ? 'throttled' : 'unavailable';
