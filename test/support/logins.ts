/** Log-ins of the console's pages, and the temporary credentials that such pages sign with. */
import { type Act, openActions } from './actions.ts';
import { type GatewayWorld, operator } from './gateway.ts';
import type { Client } from './gateway-client.ts';

const json = { 'content-type': 'application/json' };

interface Pair {
  readonly accessKey: string;
  readonly secretKey: string;
}

interface SignedPage {
  readonly found: { readonly accessKey: string; readonly expiresAt: string; readonly region: string };
  readonly client: Client;
  readonly act: Act;
}

export interface LoggedIn {
  readonly session: { readonly csrfToken: string };
  send(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly json: unknown }>;
  /** A client that signs with new temporary credentials. */
  signed(): Promise<SignedPage>;
}

/** @throws Error where the log-in is refused */
export async function logIn(world: GatewayWorld, { accessKey, secretKey }: Pair): Promise<LoggedIn> {
  const reply = await world.anonymous.post('/admin/v1/session', {
    headers: json,
    body: JSON.stringify({ accessKey, secretKey }),
  });
  if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
  const cookie = (reply.header('set-cookie') ?? '').split(';')[0] ?? '';
  const session = JSON.parse(reply.text) as LoggedIn['session'];
  const send: LoggedIn['send'] = async (method, path, body) => {
    const answer = await world.anonymous.send(method, `/admin/v1${path}`, {
      headers: { cookie, 'x-csrf-token': session.csrfToken, ...json },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, json: answer.text === '' ? undefined : JSON.parse(answer.text) };
  };
  const signed = async (): Promise<SignedPage> => {
    const { status, json: reply } = await send('POST', '/session/credentials');
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(reply)}`);
    const found = reply as SignedPage['found'] & Pair & { readonly sessionToken: string };
    const credential = { ...operator, accessKey: found.accessKey, secretKey: found.secretKey };
    const options = { credential, token: found.sessionToken };
    return { found, client: world.as(options), act: openActions(world, options) };
  };
  return { session, send, signed };
}
