/**
 * Authenticates a request of a browser by the cookie of its log-in. A request that changes something must also carry the CSRF token, and
 * no request may come from a page of another origin.
 */
import { areEqual } from '../../base/text/hex.ts';
import { fail } from '../../errors/refusal.ts';
import type { Incoming, Wire } from '../../protocol/request/wire.ts';
import type { Authenticated } from '../identity.ts';
import { anonymousPayload } from '../payload/payload.ts';
import { csrfTokenOf, tokenOf } from './cookie.ts';
import { findLoggedIn, type LoggedIn, type LoginContext } from './logins.ts';

/** Undefined where the request has no cookie of a log-in that still holds. @throws AccessDenied for a forged request */
export async function authenticateLogin(
  ctx: LoginContext,
  incoming: Incoming,
  wire: Wire,
): Promise<Authenticated | undefined> {
  const token = tokenOf(wire);
  if (token === undefined) return undefined;
  const found = await findLoggedIn(ctx, token);
  if (found === undefined) return undefined;
  assertOwnOrigin(wire);
  if (wire.method !== 'GET' && wire.method !== 'HEAD') assertCsrfToken(ctx, wire, found);
  const renew = async () => {
    const still = await findLoggedIn(ctx, token);
    if (still === undefined) throw fail('AccessDenied', 'The log-in has ended.');
    return still.identity;
  };
  const payload = anonymousPayload(ctx.hasher, incoming);
  return { identity: found.identity, renew, dialect: undefined, payload };
}

/** Browsers send this header; other clients need not. Pages of sibling hosts, such as those of buckets, are other origins. */
function assertOwnOrigin({ headers }: Wire): void {
  const site = headers.get('sec-fetch-site');
  if (site !== undefined && site !== 'same-origin' && site !== 'none')
    throw fail('AccessDenied', 'Requests with the cookie of a log-in must come from a page of this gateway.');
}

function assertCsrfToken({ hasher }: LoginContext, { headers }: Wire, { token }: LoggedIn): void {
  const encoder = new TextEncoder();
  const given = encoder.encode(headers.get('x-csrf-token') ?? '');
  if (areEqual(given, encoder.encode(csrfTokenOf(hasher, token)))) return;
  throw fail(
    'AccessDenied',
    'Requests with the cookie of a log-in must send the csrfToken of GET /admin/v1/session in X-CSRF-Token.',
  );
}
