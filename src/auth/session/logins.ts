/**
 * Log-ins of browsers: the access key and its secret once, then a cookie. A log-in ends by a log-out, a revocation, its age or idle
 * time, and with the access key: each request looks the key up again, as for signatures.
 */
import { BoundedCache, type Caches } from '../../base/bounded-cache.ts';
import { fail, type Refusal } from '../../base/errors.ts';
import { areEqual, equalsHex, toHex } from '../../base/text/hex.ts';
import { toNetwork } from '../../base/text/ip-address.ts';
import { type Recorder, recorded } from '../../domain/common/recorder.ts';
import { commitLogin, findLogin, type LoginRow, loginsMax, scanLogins } from '../../metadata/logins.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Credential, Credentials } from '../../ports/credentials.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import type { MetadataStore, Stored } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import type { Incoming, Wire } from '../../protocol/wire.ts';
import type { Authenticated, Identity } from '../identity.ts';
import { anonymousPayload } from '../payload.ts';
import { recordedArn } from '../principal.ts';
import { identityOf } from './credentials.ts';

interface LoginContext {
  readonly caches: Caches;
  readonly clock: Pick<Clock, 'now' | 'sleep'>;
  readonly config: { readonly SVC_LOGIN_TTL: number; readonly SVC_LOGIN_IDLE: number };
  readonly credentials: Credentials;
  readonly hasher: Hasher;
  readonly metadata: MetadataStore;
  readonly random: Random;
}

/** Of one access key; a further one ends the oldest. */
const loginsOfKeyMax = 20;
/** `seenAt` is written at most this often. */
const seenEveryMs = 60_000;
const sourceMax = 64;
const agentMax = 200;

interface LoginAsked {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly source: string;
  readonly agent: string;
}

export interface LoggedIn {
  /** The value of the cookie. */
  readonly token: string;
  readonly login: LoginRow;
  readonly identity: NonNullable<Identity>;
}

/** @throws AccessDenied for a wrong pair; TooManyRequests; LimitExceeded */
export async function logIn(
  ctx: LoginContext,
  asked: LoginAsked,
  record: Recorder | undefined,
): Promise<LoggedIn> {
  const { accessKey, source, agent } = asked;
  const { caches, clock, config, hasher, metadata, random } = ctx;
  const throttle = caches.of(LoginThrottle);
  throttle.admit(clock.now(), asked);
  const waitMs = throttle.delayMs(clock.now(), asked);
  if (waitMs > 0) await clock.sleep(waitMs);
  const now = clock.now();
  const known = await ctx.credentials.find(accessKey, undefined, metadata);
  // An access key that does not exist may be a secret that was typed in the wrong field.
  record?.about(`login:${known === undefined ? 'unknown' : accessKey}`);
  const credential = hasSecret(ctx, known, asked) ? known : undefined;
  // Again: of many tries that began together, those beyond the limit do not learn whether their secret was right.
  throttle.admit(now, asked);
  if (credential === undefined) {
    throttle.failed(now, asked);
    throw fail('AccessDenied', 'The access key or the secret key is wrong.');
  }
  const identity = identityOf(credential);
  if (identity === undefined) throw fail('AccessDenied');
  await makeSpace(ctx, { accessKey, account: identity.owner });
  const token = toHex(random.bytes(32));
  const expiresAt = now + config.SVC_LOGIN_TTL;
  const login: LoginRow = {
    slot: 0,
    id: hasher.sha256Hex(token),
    accessKey,
    account: identity.owner,
    principal: recordedArn(identity),
    proof: computeProof(ctx, token, credential),
    createdAt: now,
    seenAt: now,
    expiresAt,
    source: source.slice(0, sourceMax),
    agent: agent.slice(0, agentMax),
  };
  record?.by?.({ principal: recordedArn(identity), accessKey, account: identity.owner });
  await commitLogin(metadata, { put: login, expect: 'absent', expiresAt }, await recorded(record));
  record?.applied();
  return { token, login, identity };
}

/**
 * Ends the oldest log-ins of an access key that has `loginsOfKeyMax`. If there are `loginsMax` in all, ends the oldest
 * of the account with the most, so that one account cannot lock out the others.
 * @throws LimitExceeded where no account has two
 */
async function makeSpace(
  ctx: LoginContext,
  { accessKey, account }: Pick<LoginRow, 'accessKey' | 'account'>,
): Promise<void> {
  const all = await scanLogins(ctx.metadata, { limit: loginsMax });
  const live = all
    .filter(({ row }) => isLive(ctx, row))
    .map(({ row }) => row)
    .sort((a, b) => a.createdAt - b.createdAt);
  const own = live.filter((row) => row.accessKey === accessKey);
  const surplus = new Set(own.slice(0, Math.max(0, own.length + 1 - loginsOfKeyMax)));
  const left = live.filter((row) => !surplus.has(row));
  if (left.length >= loginsMax) {
    const oldest = oldestOfLargest(left, account);
    if (oldest === undefined)
      throw fail('LimitExceeded', `There are ${loginsMax} log-ins already; revoke some of them.`);
    surplus.add(oldest);
  }
  for (const { row } of all)
    if (!isLive(ctx, row) || surplus.has(row)) await removeLogin(ctx, row.id, undefined);
}

/** @param logins the oldest first @returns undefined where each account has one; of accounts that have as many, `account` comes first */
function oldestOfLargest(logins: readonly LoginRow[], account: string): LoginRow | undefined {
  const byAccount = Map.groupBy(logins, (login) => login.account);
  let most = byAccount.get(account) ?? [];
  for (const each of byAccount.values()) if (each.length > most.length) most = each;
  return most.length < 2 ? undefined : most[0];
}

const isLive = (
  { clock, config }: Pick<LoginContext, 'clock' | 'config'>,
  { expiresAt, seenAt }: LoginRow,
): boolean => clock.now() < expiresAt && clock.now() - seenAt < config.SVC_LOGIN_IDLE;

/** Takes the same time whether the key exists or not. */
function hasSecret(
  { hasher }: LoginContext,
  known: Credential | undefined,
  { secretKey }: LoginAsked,
): boolean {
  const digest = (text: string) => hasher.once('sha256', new TextEncoder().encode(text));
  const isSame = areEqual(digest(secretKey), digest(known?.secretKey ?? ''));
  return isSame && secretKey !== '';
}

const computeProof = (
  { hasher }: Pick<LoginContext, 'hasher'>,
  token: string,
  { secretKey }: Credential,
): string => toHex(hasher.hmacSha256(new TextEncoder().encode(token), secretKey));

/** The login of a cookie and its caller; undefined where it has ended. */
export async function findLoggedIn(ctx: LoginContext, token: string): Promise<LoggedIn | undefined> {
  const found = await findLogin(ctx.metadata, ctx.hasher.sha256Hex(token));
  if (found === undefined) return undefined;
  const login = found.row;
  if (!isLive(ctx, login)) return undefined;
  const credential = await ctx.credentials.find(login.accessKey, undefined, ctx.metadata);
  if (credential === undefined) return undefined;
  const proof = ctx.hasher.hmacSha256(new TextEncoder().encode(token), credential.secretKey);
  if (!equalsHex(proof, login.proof)) return undefined;
  await touch(ctx, found, ctx.clock.now());
  const identity = identityOf(credential);
  return identity && { token, login, identity };
}

/** A refused commit means that another request has just written the time, or that the log-in has ended; the next request finds out. */
async function touch(
  { metadata }: LoginContext,
  { row, revision }: Stored<LoginRow>,
  now: number,
): Promise<void> {
  if (now - row.seenAt < seenEveryMs) return;
  await commitLogin(
    metadata,
    { put: { ...row, seenAt: now }, expect: revision, expiresAt: row.expiresAt },
    [],
  );
}

interface Ending {
  readonly record?: Recorder | undefined;
  /** Why the caller may not end a log-in; undefined where it may. */
  readonly denialOf?: (login: LoginRow) => Promise<Refusal | undefined>;
}

/** Ends one log-in. @throws NotFound */
export async function endLogin(
  ctx: Pick<LoginContext, 'metadata'>,
  id: string,
  { record, denialOf }: Ending,
): Promise<void> {
  const login = denialOf === undefined ? undefined : (await findLogin(ctx.metadata, id))?.row;
  const denial = login && (await denialOf?.(login));
  if (denial !== undefined) throw denial;
  if (!(await removeLogin(ctx, id, record))) throw noLogin(id);
}

export const noLogin = (id: string): Refusal => fail('NotFound', `There is no log-in ${id}.`);

/** @returns false where the log-in has ended already */
async function removeLogin(
  { metadata }: Pick<LoginContext, 'metadata'>,
  id: string,
  record: Recorder | undefined,
): Promise<boolean> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findLogin(metadata, id);
    if (found === undefined) return false;
    const change = { remove: { id }, expect: found.revision };
    const outcome = await commitLogin(metadata, change, await recorded(record));
    if (!outcome.applied) continue;
    record?.applied();
    return true;
  }
  throw fail('OperationAborted');
}

/** Ends all log-ins, optionally of one access key; those that end meanwhile are not counted. @returns how many */
export async function endLogins(
  ctx: Pick<LoginContext, 'metadata' | 'clock' | 'config'>,
  which: { readonly accessKey?: string | undefined },
  { record, denialOf }: Ending,
): Promise<number> {
  let ended = 0;
  for (let round = 0; round < attemptsMax; round += 1) {
    const found: LoginRow[] = [];
    for (const login of await listLogins(ctx, which))
      if ((await denialOf?.(login)) === undefined) found.push(login);
    if (found.length === 0) return ended;
    for (const { id } of found) if (await removeLogin(ctx, id, record)) ended += 1;
  }
  return ended;
}
/** Attempts to commit against concurrent requests of the same log-in, which write its time at most once a minute. */
const attemptsMax = 8;

/** The log-ins that have not ended, optionally of one access key. */
export async function listLogins(
  ctx: Pick<LoginContext, 'metadata' | 'clock' | 'config'>,
  { accessKey }: { readonly accessKey?: string | undefined } = {},
): Promise<readonly LoginRow[]> {
  return (await scanLogins(ctx.metadata, { limit: loginsMax }))
    .map(({ row }) => row)
    .filter((row) => isLive(ctx, row))
    .filter((row) => accessKey === undefined || row.accessKey === accessKey);
}

// Limits how often log-ins may fail, in each process: by address, and by access key at an address. Failures at other addresses never refuse
// a log-in, because strangers who know the id of an access key could then lock its operator out; many of them slow the log-ins of the key
// down. Requests with a signature are not limited.

const windowMs = 15 * 60_000;
const limits = { keyAtAddress: 10, address: 30 } as const;
/** More failures of an access key, at all addresses, delay each of its log-ins. */
const promptMax = 100;
const delayMs = 2_000;
const entriesMax = 4_096;

interface Failures {
  readonly since: number;
  readonly count: number;
}

class LoginThrottle {
  readonly #failures = new BoundedCache<Failures>({
    name: 'login-failures',
    entriesMax: 2 * entriesMax,
    bytes: { max: 4 * 1024 * 1024, sizeOf: (_, key) => 100 + 2 * key.length },
  });

  /** @throws TooManyRequests */
  admit(now: number, tried: Tried): void {
    for (const [key, max] of countedPlaces(tried)) {
      const known = this.#current(now, key);
      if (known === undefined || known.count < max) continue;
      const retryAfter = Math.ceil((known.since + windowMs - now) / 1000);
      throw fail('TooManyRequests', {
        message: `Too many log-ins failed. Try again in ${retryAfter} seconds, or sign the requests.`,
        retryAfter,
      });
    }
  }

  /** How long the log-in waits before its secret is compared, whether the secret is right or not. */
  delayMs(now: number, { accessKey }: Tried): number {
    return (this.#current(now, nameOfKey(accessKey))?.count ?? 0) < promptMax ? 0 : delayMs;
  }

  failed(now: number, tried: Tried): void {
    for (const key of [nameOfKey(tried.accessKey), ...countedPlaces(tried).map(([place]) => place)]) {
      const { since = now, count = 0 } = this.#current(now, key) ?? {};
      this.#failures.set(key, { since, count: count + 1 });
    }
  }

  #current(now: number, key: string): Failures | undefined {
    const known = this.#failures.get(key);
    return known === undefined || now - known.since >= windowMs ? undefined : known;
  }
}

interface Tried {
  readonly accessKey: string;
  readonly source: string;
}

const nameOfKey = (accessKey: string): string => `key ${accessKey}`;

const countedPlaces = ({ accessKey, source }: Tried): readonly (readonly [string, number])[] => {
  const network = toNetwork(source);
  return [
    [`${nameOfKey(accessKey)} at ${network}`, limits.keyAtAddress],
    [`address ${network}`, limits.address],
  ];
};

// The cookies of a log-in, and where they are accepted: the operator API and the console, never the storage protocol.

/** Browsers accept the prefix `__Host-` only over TLS, and then only from the host itself: no sibling domain can set the cookie. */
const cookieName = (secure: boolean): string => (secure ? '__Host-sluice-login' : 'sluice-login');

const token = /^[0-9a-f]{64}$/;
/** A browser sends few cookies; what is longer was not sent by one. */
const cookieHeaderMax = 8_192;

/** The token of the request's cookie; undefined where it has none, or two. */
export function readToken({ headers, secure }: Pick<Wire, 'headers' | 'secure'>): string | undefined {
  const input = headers.get('cookie');
  if (input === undefined || input.length > cookieHeaderMax) return undefined;
  const start = `${cookieName(secure)}=`;
  const found = input
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
export const deriveCsrfToken = ({ hmacSha256 }: Pick<Hasher, 'hmacSha256'>, value: string): string =>
  toHex(hmacSha256(new TextEncoder().encode(value), 'csrf'));

// Authenticates a request of a browser by the cookie of its log-in. A request that changes something must also carry the CSRF token, and
// no request may come from a page of another origin.

/** Undefined where the request has no cookie of a log-in that still holds. @throws AccessDenied for a forged request */
export async function authenticateLogin(
  ctx: LoginContext,
  incoming: Incoming,
  wire: Wire,
): Promise<Authenticated | undefined> {
  const token = readToken(wire);
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
  const input = encoder.encode(headers.get('x-csrf-token') ?? '');
  if (areEqual(input, encoder.encode(deriveCsrfToken(hasher, token)))) return;
  throw fail(
    'AccessDenied',
    'Requests with the cookie of a log-in must send the csrfToken of GET /admin/v1/session in X-CSRF-Token.',
  );
}
