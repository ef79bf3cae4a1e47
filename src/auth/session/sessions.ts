/**
 * Temporary credentials. A token contains everything except whether its user or role still exists: that is looked up as for access
 * keys, so a session ends with the next request after its user or role was deleted.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import { ofOneState } from '../../domain/iam/account.ts';
import { findProfile } from '../../domain/iam/account-profiles.ts';
import { drawSessionPair, findById } from '../../domain/iam/entities.ts';
import { findLogin } from '../../metadata/logins.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Caller, Credential, Session } from '../../ports/credentials.ts';
import type { Sealer } from '../../ports/cryptography.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import {
  type AccountContext,
  type Accounts,
  assertActive,
  assertEnabled,
  roleCaller,
  userCaller,
} from './account-keys.ts';

interface Cached {
  readonly claims: SessionClaims;
  readonly revision?: string;
  /** The revisions of the other accounts that opened the session. */
  readonly openerRevisions?: string;
  readonly credential?: Credential;
}

/** The cache is small, because tokens are long. */
const cachedMax = 1_024;
const cachedBytesMax = 8 * 1024 * 1024;

/** The memory of a cached session, beside its token, follows from the claims. */
const sizeOfSession = ({ claims: { inline = '', managed = [], tags = [] } }: Cached, token: string): number =>
  1_024 + 4 * token.length + 2 * inline.length + 200 * (managed.length + tags.length);

interface SessionAccounts extends Accounts {
  /** Finds the key of a root by its access key. @throws AccountProblem */
  readonly parent: (accessKey: string, metadata: MetadataStore) => Promise<Credential | undefined>;
}

/** The other accounts that a role's session depends on: that of its first caller, and those of the roles in between. */
const otherOpeners = ({ account, by }: SessionClaims): readonly string[] =>
  by === undefined ? [] : [by.account, ...(by.through ?? [])].filter((each) => each !== account);

export class Sessions {
  readonly #ctx: AccountContext;
  readonly #accounts: SessionAccounts;
  readonly #cached = new BoundedCache<Cached>({
    name: 'sessions',
    entriesMax: cachedMax,
    bytes: { max: cachedBytesMax, sizeOf: sizeOfSession },
  });

  constructor(ctx: AccountContext, accounts: SessionAccounts) {
    this.#ctx = ctx;
    this.#accounts = accounts;
  }

  /** @throws InvalidToken, ExpiredToken */
  async find(accessKey: string, token: string, metadata: MetadataStore): Promise<Credential> {
    const cached = this.#cached.get(token) ?? { claims: await openToken(this.#ctx.sealer, token) };
    const { claims } = cached;
    if (claims.accessKey !== accessKey) throw fail('InvalidToken');
    if (this.#ctx.clock.now() >= claims.expires) throw fail('ExpiredToken');
    if (claims.login !== undefined) await this.#assertLoggedIn(claims.login, metadata);
    if ('configured' in claims.of) return this.#ofKey(claims, claims.of.configured, metadata);
    // Such tokens were sealed before `by` named the account of every caller, so no suspension could end them.
    if ('role' in claims.of && claims.by === undefined)
      throw fail('ExpiredToken', 'An earlier version issued these credentials. Request new ones.');
    const now = await this.#accounts.revisions.of(claims.account, metadata);
    const openerRevisions = await this.#revisionsOfOpeners(claims, metadata);
    if (
      cached.credential !== undefined &&
      now === cached.revision &&
      openerRevisions === cached.openerRevisions
    )
      return cached.credential;
    const look = this.#accounts.revisions.look();
    const { revision, value: caller } = await ofOneState({ metadata }, claims.account, async () => {
      for (const account of [claims.account, ...otherOpeners(claims)]) {
        const isConfigured = this.#accounts.directory.isConfigured(account);
        assertActive(await findProfile(metadata, account), { isConfigured });
      }
      await this.#assertUserEnabled(claims, metadata);
      return this.#callerOf(claims, metadata);
    });
    this.#accounts.revisions.saw(claims.account, revision, look);
    if (caller === undefined || revision === undefined) throw fail('InvalidToken');
    const credential = await this.#credentialOf(claims, { caller, revision });
    this.#cached.set(token, { claims, revision, openerRevisions, credential });
    return credential;
  }

  /** Read before the profiles and the user, so that a change during the read is seen with the next request. */
  async #revisionsOfOpeners(claims: SessionClaims, metadata: MetadataStore): Promise<string> {
    const found: (string | undefined)[] = [];
    for (const account of otherOpeners(claims))
      found.push(await this.#accounts.revisions.of(account, metadata));
    return found.join(' ');
  }

  /**
   * @throws AccountProblem where the user who assumed the role is disabled. A user who was deleted ends no session, as
   * in the public service.
   */
  async #assertUserEnabled({ by }: SessionClaims, metadata: MetadataStore): Promise<void> {
    if (by?.user === undefined) return;
    const user = await findById({ metadata }, by.account, { kind: 'user', id: by.user });
    if (user !== undefined) assertEnabled(user);
  }

  /**
   * Credentials of a log-in end with it, and with its access key. Its idle time does not count for them, because requests with them do not
   * renew it: a long upload would end in the middle.
   * @throws ExpiredToken
   */
  async #assertLoggedIn(id: string, metadata: MetadataStore): Promise<void> {
    const login = (await findLogin(metadata, id))?.row;
    const isLive = login !== undefined && this.#ctx.clock.now() < login.expiresAt;
    const key = login && (await this.#accounts.parent(login.accessKey, metadata));
    if (!isLive || key === undefined)
      throw fail('ExpiredToken', 'The log-in of these credentials has ended.');
  }

  /** Valid as long as the key of the root, or of a configured user, is. */
  async #ofKey(claims: SessionClaims, parent: string, metadata: MetadataStore): Promise<Credential> {
    const record = await this.#accounts.parent(parent, metadata);
    if (record === undefined || record.owner !== claims.account) throw fail('InvalidToken');
    const { accessKey, secretKey } = claims;
    // Credentials of a log-in are for the storage protocol alone, so nothing of an operator passes to them.
    const operator = record.operator && claims.login === undefined;
    return { ...record, accessKey, secretKey, operator, session: toSession(claims) };
  }

  async #callerOf(
    { account, of, tags = [] }: SessionClaims,
    metadata: MetadataStore,
  ): Promise<Caller | undefined> {
    const ctx = { metadata };
    if ('user' in of) {
      const user = await findById(ctx, account, { kind: 'user', id: of.user });
      if (user !== undefined) assertEnabled(user);
      return user && userCaller(account, user);
    }
    if (!('role' in of)) return undefined;
    const role = await findById(ctx, account, { kind: 'role', id: of.role });
    return role && roleCaller(account, role, { name: of.name, tags });
  }

  async #credentialOf(
    claims: SessionClaims,
    { caller, revision }: { readonly caller: Caller; readonly revision: string },
  ): Promise<Credential> {
    const { accessKey, secretKey, account, of } = claims;
    const id = 'role' in of ? of.role : caller.userid;
    return {
      accessKey,
      secretKey,
      owner: account,
      displayName: await this.#accounts.directory.displayName(account),
      root: false,
      operator: false,
      caller,
      iam: { id, revision },
      session: toSession(claims),
    };
  }
}

const toSession = ({
  issuedAt,
  expires,
  mfaAt,
  inline,
  managed,
  passedOn,
  by,
  of,
  login,
  tags = [],
}: SessionClaims): Session => ({
  issuedAt,
  expires,
  ...(mfaAt === undefined ? {} : { mfaAt }),
  ...(inline === undefined ? {} : { inline }),
  ...(managed === undefined ? {} : { managed }),
  ...(passedOn === undefined ? {} : { passedOn }),
  ...(by === undefined ? {} : { by }),
  ...(login === undefined ? {} : { isOfLogin: true as const }),
  ...('configured' in of ? { parentKey: of.configured } : {}),
  ...(tags.length === 0 ? {} : { isTagged: true as const }),
});

/** The session policy of the credentials of a log-in: no action of IAM, of STS or of the operator API. */
export const storageOnlyPolicy =
  '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}';

// Session tokens: everything about temporary credentials, sealed under the master key, so that nothing is stored for
// them and nothing can be read from them.

/** The identity that a session acts for: a role with a session name, a user, or the owner of a configured key. */
type SessionHolder =
  | { readonly role: string; readonly name: string }
  | { readonly user: string }
  | { readonly configured: string };

export interface SessionClaims extends Session {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly account: string;
  readonly of: SessionHolder;
  /** The id of the log-in that the session ends with. */
  readonly login?: string;
  /** The session's own tags. */
  readonly tags?: readonly (readonly [string, string])[];
}

/** Bounded because the token must fit into the headers of a request, beside all others. */
const claimsBytesMax = 4_096;
/** An upper bound for the sealed claims in base64. */
const tokenLengthMax = 6_144;

const place = 'session token';
const encoder = new TextEncoder();

/** How much of the claims' size limit is used, in percent. */
export const packedPercent = (claims: SessionClaims): number =>
  Math.ceil((encoder.encode(JSON.stringify(claims)).length * 100) / claimsBytesMax);

/** @throws PackedPolicyTooLarge */
export async function sealToken(sealer: Sealer, claims: SessionClaims): Promise<string> {
  const plain = encoder.encode(JSON.stringify(claims));
  if (plain.length > claimsBytesMax)
    throw fail(
      'PackedPolicyTooLarge',
      `Packed size of session policies and tags consumes ${packedPercent(claims)}% of allotted space.`,
    );
  return toBase64(await sealer.seal(plain, place));
}

/** @throws InvalidToken for anything but an unaltered token of this service */
export async function openToken(sealer: Sealer, token: string): Promise<SessionClaims> {
  const sealed = token.length > tokenLengthMax ? undefined : decodeToken(token);
  const plain = sealed === undefined ? undefined : await sealer.open(sealed, place);
  if (plain === undefined) throw fail('InvalidToken');
  // The cast is safe: only texts that `sealToken` sealed can be opened.
  return JSON.parse(decodeUtf8(plain)) as SessionClaims;
}

function decodeToken(text: string): Uint8Array | undefined {
  try {
    return fromBase64(text);
  } catch {
    return undefined;
  }
}

export interface NewSession extends Omit<SessionClaims, 'accessKey' | 'secretKey' | 'issuedAt' | 'expires'> {
  readonly seconds: number;
}

/** @throws PackedPolicyTooLarge */
export async function issueSession(
  { clock, random, sealer }: { readonly clock: Clock; readonly random: Random; readonly sealer: Sealer },
  { seconds, ...asked }: NewSession,
) {
  const issuedAt = clock.now();
  const claims: SessionClaims = {
    ...asked,
    ...drawSessionPair(random),
    issuedAt,
    expires: issuedAt + seconds * 1000,
  };
  const SessionToken = await sealToken(sealer, claims);
  const { accessKey, secretKey, expires } = claims;
  const Expiration = isoTime(expires);
  return { claims, issued: { AccessKeyId: accessKey, SecretAccessKey: secretKey, SessionToken, Expiration } };
}
