/**
 * The access keys of IAM users, and of the roots of accounts that operators created. Finding a key costs one read of its account's own
 * record: while that is unchanged, the cached facts about the key are valid. A change (a key made inactive, a user deleted) takes effect
 * with the next request in every process.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import { findKey, openAccessKey } from '../../domain/iam/access-keys.ts';
import { ofOneState } from '../../domain/iam/account.ts';
import { findProfile } from '../../domain/iam/account-profiles.ts';
import { findById } from '../../domain/iam/entities.ts';
import {
  type AccountProfile,
  accessKeyUse,
  iamRevision,
  type RoleRecord,
  type UserRecord,
} from '../../metadata/iam.ts';
import { subscribeToChanges } from '../../metadata/shared-changes.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Caller, Credential, KeyUse } from '../../ports/credentials.ts';
import type { Sealer } from '../../ports/cryptography.ts';
import type { LateWrites, MetadataStore } from '../../ports/metadata-store.ts';
import { roleArn, sessionArn, userArn } from '../../protocol/arns.ts';

/** @throws AccountProblem, also for an account that neither the settings nor a profile names */
export function assertActive(
  profile: AccountProfile | undefined,
  { isConfigured }: { readonly isConfigured: boolean },
): void {
  if (profile === undefined ? !isConfigured : profile.status !== 'Active') throw fail('AccountProblem');
}

export interface AccountContext {
  readonly metadata: MetadataStore;
  readonly sealer: Sealer;
  readonly clock: Pick<Clock, 'now'>;
  readonly lateWrites: Pick<LateWrites, 'add'>;
}

export interface Accounts {
  readonly directory: { displayName(owner: string): Promise<string>; isConfigured(owner: string): boolean };
  readonly revisions: Revisions;
}

interface CachedKey {
  readonly account: string;
  readonly revision: string | undefined;
  readonly credential: Credential;
}

const cachedKeysMax = 4_096;
/** The form of every access key. Other texts are not looked up, because a store may not accept them as a key. */
const isPossible = /^[\w.=+@-]{3,128}$/;
/** How often the last use of a key is recorded. */
const useEveryMs = 5 * 60 * 1000;
const useBytes = 256;

export class AccountKeys {
  readonly #ctx: AccountContext;
  readonly #accounts: Accounts;
  readonly #cached = new BoundedCache<CachedKey>({ name: 'access-keys', entriesMax: cachedKeysMax });
  readonly #usedAt = new BoundedCache<number>({ name: 'access-key-uses', entriesMax: cachedKeysMax });

  constructor(ctx: AccountContext, accounts: Accounts) {
    this.#ctx = ctx;
    this.#accounts = accounts;
  }

  async find(accessKey: string, metadata: MetadataStore): Promise<Credential | undefined> {
    if (!isPossible.test(accessKey)) return undefined;
    const cache = this.#cached.get(accessKey);
    if (
      cache !== undefined &&
      (await this.#accounts.revisions.of(cache.account, metadata)) === cache.revision
    )
      return cache.credential;
    // Throw before the key is cached, so that the cache only has keys of active accounts.
    const found = await this.#load(accessKey, metadata);
    if (found === undefined) this.#cached.delete(accessKey);
    else this.#cached.set(accessKey, found);
    return found?.credential;
  }

  async #load(accessKey: string, metadata: MetadataStore): Promise<CachedKey | undefined> {
    const opened = await openAccessKey({ metadata, sealer: this.#ctx.sealer }, accessKey);
    if (opened === undefined) return undefined;
    const { account, secretKey } = opened;
    const look = this.#accounts.revisions.look();
    const { revision, value: found } = await ofOneState({ metadata }, account, () =>
      this.#holderOf(account, accessKey, metadata),
    );
    this.#accounts.revisions.saw(account, revision, look);
    if (found === undefined || revision === undefined) return undefined;
    if (found.isSuspended) throw fail('AccountProblem');
    const { user } = found;
    if (user !== undefined) assertEnabled(user);
    const credential: Credential = {
      accessKey,
      secretKey,
      owner: account,
      displayName: await this.#accounts.directory.displayName(account),
      root: user === undefined,
      operator: false,
      ...(user === undefined ? {} : { caller: userCaller(account, user), iam: { id: user.id, revision } }),
    };
    return { account, revision, credential };
  }

  /** The user of an active key; no user for a key of the root. */
  async #holderOf(
    account: string,
    accessKey: string,
    metadata: MetadataStore,
  ): Promise<{ readonly user: UserRecord | undefined; readonly isSuspended: boolean } | undefined> {
    const key = await findKey({ metadata }, account, accessKey);
    if (key?.status !== 'Active') return undefined;
    const profile = await findProfile(metadata, account);
    // An account that left the settings and has no profile can be neither listed nor suspended, so its keys end.
    const isKnown =
      profile === undefined ? this.#accounts.directory.isConfigured(account) : profile.status !== 'Deleted';
    if (!isKnown) return undefined;
    const isSuspended = profile?.status === 'Suspended';
    if (key.user === '') return { user: undefined, isSuspended };
    const user = await findById({ metadata }, account, { kind: 'user', id: key.user });
    return user && { user, isSuspended };
  }

  used(accessKey: string, { service, region }: KeyUse): void {
    const at = this.#ctx.clock.now();
    const before = this.#usedAt.get(accessKey);
    if (before !== undefined && at - before < useEveryMs) return;
    this.#usedAt.set(accessKey, at);
    const use = { accessKey, at, service, region };
    // Do not wait for room in the buffer, because these rows are few and small.
    void this.#ctx.lateWrites.add(accessKeyUse(use), useBytes);
  }
}

// IAM's users and roles as callers.

type Tags = readonly (readonly [string, string])[];

export const userCaller = (account: string, user: UserRecord): Caller => ({
  kind: 'user',
  account,
  arn: userArn(account, user),
  userid: user.id,
  username: user.name,
  tags: new Map(user.tags),
});

/** @throws AccountProblem */
export function assertEnabled({ isDisabled }: UserRecord): void {
  if (isDisabled === true) throw fail('AccountProblem', 'The user of these credentials is disabled.');
}

/** A tag of the session takes precedence over the role's tag of the same name. */
function mergeTags(role: Tags, session: Tags): ReadonlyMap<string, string> {
  const own = new Set(session.map(([name]) => name.toLowerCase()));
  return new Map([...role.filter(([name]) => !own.has(name.toLowerCase())), ...session]);
}

export const roleCaller = (
  account: string,
  role: RoleRecord,
  { name, tags }: { readonly name: string; readonly tags: Tags },
): Caller => ({
  kind: 'session',
  account,
  arn: roleArn(account, role),
  sessionArn: sessionArn(account, { role: role.name, name }),
  userid: `${role.id}:${name}`,
  tags: mergeTags(role.tags, tags),
});

// The revision of an account's records, which tells whether cached facts about its callers are valid. Where other machines change the
// records too and a read is a round trip, the revision is cached (`SVC_CONFIG_CACHE_TTL`); a change by a process of this node invalidates
// it before that change is answered.

interface Seen {
  readonly revision: string | undefined;
  readonly at: number;
}

/** When a read began. */
interface Look {
  readonly at: number;
  /** The number of changes that this process had seen when the read began. */
  readonly changes: number;
}

const accountsMax = 4_096;

export interface RevisionsContext {
  readonly metadata: MetadataStore;
  readonly clock: Pick<Clock, 'elapsed'>;
  /** The lifetime of a cached revision; 0 reads it each time. */
  readonly cacheTtlMs: number;
}

export class Revisions {
  readonly #ctx: RevisionsContext;
  readonly #seen = new BoundedCache<Seen>({ name: 'account-revisions', entriesMax: accountsMax });

  #changes = 0;

  constructor(ctx: RevisionsContext) {
    this.#ctx = ctx;
    subscribeToChanges(ctx.metadata, 'account', (account) => {
      this.#changes += 1;
      this.#seen.delete(account);
    });
  }

  async of(account: string, metadata: MetadataStore = this.#ctx.metadata): Promise<string | undefined> {
    const { clock, cacheTtlMs } = this.#ctx;
    if (cacheTtlMs === 0) return iamRevision(metadata, account);
    const seen = this.#seen.get(account);
    const now = clock.elapsed();
    if (seen !== undefined && now - seen.at < cacheTtlMs) return seen.revision;
    const look = this.look();
    const revision = await iamRevision(metadata, account);
    this.saw(account, revision, look);
    return revision;
  }

  /** Call it before reading the account's records for `saw`. */
  look(): Look {
    return { at: this.#ctx.clock.elapsed(), changes: this.#changes };
  }

  /** Caches the revision that was read, unless an account changed during the read, because the revision may then be stale. */
  saw(account: string, revision: string | undefined, look: Look): void {
    if (this.#ctx.cacheTtlMs > 0 && look.changes === this.#changes)
      this.#seen.set(account, { revision, at: look.at });
  }
}
