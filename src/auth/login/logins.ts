/**
 * Log-ins of browsers: the access key and its secret once, then a cookie. A log-in ends by a log-out, a revocation, its age or idle
 * time, and with the access key: each request looks the key up again, as for signatures.
 */

import type { Caches } from '../../base/caches.ts';
import { areEqual, equalsHex, toHex } from '../../base/text/hex.ts';
import { type Recorder, recorded } from '../../domain/events/recorder.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';
import type { LoginRow } from '../../metadata/logins.ts';
import { commitLogin, findLogin, scanLogins } from '../../metadata/logins.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Credential, Credentials } from '../../ports/crypto/credentials.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import type { MetadataStore, Stored } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import type { Identity } from '../identity.ts';
import { identityOf } from '../session/credentials.ts';
import { principalOf } from '../session/principal.ts';
import { LoginThrottle } from './throttle.ts';

export interface LoginContext {
  readonly caches: Caches;
  readonly clock: Pick<Clock, 'now'>;
  readonly config: { readonly SVC_LOGIN_TTL: number; readonly SVC_LOGIN_IDLE: number };
  readonly credentials: Credentials;
  readonly hasher: Hasher;
  readonly metadata: MetadataStore;
  readonly random: Random;
}

/** A log-in beyond this number is refused: the scans that list and count them stay one page. */
const loginsMax = 1_000;
/** Of one access key; a further one ends the oldest. */
const loginsOfKeyMax = 20;
/** `seenAt` is written at most this often. */
const seenEveryMs = 60_000;
const sourceMax = 64;
const agentMax = 200;

export interface LoginAsked {
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
  const now = clock.now();
  throttle.admit(now, asked);
  const known = await ctx.credentials.find(accessKey, undefined, metadata);
  // An access key that does not exist may be a secret that was typed in the wrong field.
  record?.about(`login:${known === undefined ? 'unknown' : accessKey}`);
  const credential = isSecretOf(ctx, known, asked) ? known : undefined;
  // Again: of many tries that began together, those beyond the limit do not learn whether their secret was right.
  throttle.admit(now, asked);
  if (credential === undefined) {
    throttle.failed(now, asked);
    throw fail('AccessDenied', 'The access key or the secret key is wrong.');
  }
  const identity = identityOf(credential);
  if (identity === undefined) throw fail('AccessDenied');
  await makeRoom(ctx, accessKey);
  const token = toHex(random.bytes(32));
  const { arn, sessionArn = arn } = principalOf(identity);
  const expiresAt = now + config.SVC_LOGIN_TTL;
  const login: LoginRow = {
    slot: 0,
    id: hasher.sha256Hex(token),
    accessKey,
    account: identity.owner,
    principal: sessionArn,
    proof: proofOf(ctx, token, credential),
    createdAt: now,
    seenAt: now,
    expiresAt,
    source: source.slice(0, sourceMax),
    agent: agent.slice(0, agentMax),
  };
  record?.by?.({ principal: sessionArn, accessKey, account: identity.owner });
  await commitLogin(metadata, { put: login, expect: 'absent', expiresAt }, await recorded(record));
  record?.applied();
  return { token, login, identity };
}

/** Ends the oldest log-ins of an access key that has many. @throws LimitExceeded */
async function makeRoom(ctx: LoginContext, accessKey: string): Promise<void> {
  const all = await scanLogins(ctx.metadata, { limit: loginsMax });
  const live = all.filter(({ row }) => isLive(ctx, row));
  const own = live
    .filter(({ row }) => row.accessKey === accessKey)
    .sort((a, b) => a.row.createdAt - b.row.createdAt);
  const surplus = own.slice(0, Math.max(0, own.length + 1 - loginsOfKeyMax));
  for (const { row } of [...all.filter((each) => !live.includes(each)), ...surplus])
    await removeLogin(ctx, row.id, undefined);
  if (live.length - surplus.length < loginsMax) return;
  throw fail('LimitExceeded', `There are ${loginsMax} log-ins already; revoke some of them.`);
}

const isLive = (
  { clock, config }: Pick<LoginContext, 'clock' | 'config'>,
  { expiresAt, seenAt }: LoginRow,
): boolean => clock.now() < expiresAt && clock.now() - seenAt < config.SVC_LOGIN_IDLE;

/** Takes the same time whether the key exists or not. */
function isSecretOf(
  { hasher }: LoginContext,
  known: Credential | undefined,
  { secretKey }: LoginAsked,
): boolean {
  const digest = (text: string) => hasher.once('sha256', new TextEncoder().encode(text));
  const isSame = areEqual(digest(secretKey), digest(known?.secretKey ?? ''));
  return isSame && secretKey !== '';
}

const proofOf = (
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

export interface Ending {
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
