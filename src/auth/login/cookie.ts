/** The cookies of a log-in, and where they are accepted: the operator API and the console, never the storage protocol. */
import { toHex } from '../../base/text/hex.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import type { Wire } from '../../protocol/request/wire.ts';

/** Browsers accept the prefix `__Host-` only over TLS, and then only from the host itself: no sibling domain can set the cookie. */
const cookieName = (secure: boolean): string => (secure ? '__Host-sluice-login' : 'sluice-login');

const token = /^[0-9a-f]{64}$/;
/** A browser sends few cookies; what is longer was not sent by one. */
const cookieHeaderMax = 8_192;

/** The token of the request's cookie; undefined where it has none, or two. */
export function tokenOf({ headers, secure }: Pick<Wire, 'headers' | 'secure'>): string | undefined {
  const given = headers.get('cookie');
  if (given === undefined || given.length > cookieHeaderMax) return undefined;
  const start = `${cookieName(secure)}=`;
  const found = given
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(start));
  const [only] = found;
  if (only === undefined || found.length > 1) return undefined;
  const value = only.slice(start.length);
  return token.test(value) ? value : undefined;
}

export const setCookie = (
  value: string,
  { secure, maxAgeS }: { readonly secure: boolean; readonly maxAgeS: number },
): string =>
  `${cookieName(secure)}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}${secure ? '; Secure' : ''}`;

export const clearCookie = (secure: boolean): string => setCookie('', { secure, maxAgeS: 0 });

/** What requests that change something send in `X-CSRF-Token`. It follows from the token, which scripts cannot read. */
export const csrfTokenOf = ({ hmacSha256 }: Pick<Hasher, 'hmacSha256'>, value: string): string =>
  toHex(hmacSha256(new TextEncoder().encode(value), 'csrf'));
