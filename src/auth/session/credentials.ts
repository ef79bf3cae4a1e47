/** Finds credentials by access key: configured keys first, then keys of accounts and IAM users; temporary credentials by their token. */
import { BoundedCache, memoizeEach } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import { findAccountByEmail, findProfile } from '../../domain/iam/account-profiles.ts';
import { type AccountProfile, scanAccounts } from '../../metadata/iam.ts';
import { subscribeToChanges } from '../../metadata/shared-changes.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Account, Credential, Credentials } from '../../ports/credentials.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { AuthenticationContext } from '../context.ts';
import type { Identity, Renew } from '../identity.ts';
import {
  type AccountContext,
  AccountKeys,
  assertActive,
  Revisions,
  type RevisionsContext,
} from './account-keys.ts';
import { Sessions } from './sessions.ts';

/** Records are validated where settings are read; of two with the same access key the first one counts. */
function byAccessKey(records: readonly Credential[]): ReadonlyMap<string, Credential> {
  const found = new Map<string, Credential>();
  for (const record of records) if (!found.has(record.accessKey)) found.set(record.accessKey, record);
  return found;
}

type By = Parameters<Credentials['account']>[0];

/** The accounts of the configured credentials. */
class ConfiguredAccounts {
  readonly #byOwner = new Map<string, Account>();
  readonly #byEmail = new Map<string, Account>();
  /** By id. */
  readonly all: readonly Account[];

  constructor(records: readonly Credential[]) {
    // The root comes first, because the account takes the display name of its root.
    const operators = new Set(
      records.filter(({ root, operator }) => root && operator).map(({ owner }) => owner),
    );
    for (const { owner, displayName, email } of [...records].sort(
      (a, b) => Number(b.root) - Number(a.root),
    )) {
      const account = this.#byOwner.get(owner) ?? {
        owner,
        displayName,
        ...(email === undefined ? {} : { email }),
        isConfigured: true,
        isOperators: operators.has(owner),
      };
      this.#byOwner.set(owner, account);
      if (email !== undefined && !this.#byEmail.has(email.toLowerCase()))
        this.#byEmail.set(email.toLowerCase(), account);
    }
    this.all = [...this.#byOwner.values()].sort((a, b) => (a.owner < b.owner ? -1 : 1));
  }

  get sole(): string | undefined {
    return this.all.length === 1 ? this.all[0]?.owner : undefined;
  }

  find(by: By): Account | undefined {
    return 'owner' in by ? this.#byOwner.get(by.owner) : this.#byEmail.get(by.email.toLowerCase());
  }

  /** Whether an account has the id but for upper and lower case. */
  hasLike(owner: string): boolean {
    return this.all.some((account) => account.owner.toLowerCase() === owner.toLowerCase());
  }
}

/** Credentials of the settings alone, for gateways without accounts that are created at run time. */
export function staticCredentials(records: readonly Credential[]): Credentials {
  const configured = byAccessKey(records);
  const accounts = new ConfiguredAccounts(records);
  return {
    async find(accessKey, token) {
      const found = configured.get(accessKey);
      if (found !== undefined && token !== undefined) throw fail('InvalidToken');
      return found;
    },
    account: async (by) => accounts.find(by),
    accounts: async (page) => cutPage(accounts.all, page),
    soleAccount: accounts.sole,
    isConfigured: (accessKey) => configured.has(accessKey),
    hasAccountLike: (owner) => accounts.hasLike(owner),
  };
}

const cutPage = (
  all: readonly Account[],
  { after, limit }: Parameters<Credentials['accounts']>[0],
): readonly Account[] => all.filter(({ owner }) => after === undefined || owner > after).slice(0, limit);

type CredentialsContext = AccountContext &
  RevisionsContext & {
    /** How long an account of the settings counts as active without a look; 0 where the revisions of accounts are cached. */
    readonly activeMs?: number;
  };

export function openCredentials(ctx: CredentialsContext, records: readonly Credential[]): Credentials {
  const configured = byAccessKey(records);
  const ofSettings = new ConfiguredAccounts(records);
  const revisions = new Revisions(ctx);
  const { metadata, clock } = ctx;
  const parts = { metadata, clock, revisions, ofSettings, activeMs: ctx.activeMs ?? activeMs };
  const directory = new AccountDirectory(parts);
  const keys = new AccountKeys(ctx, { directory, revisions });
  const parent = async (accessKey: string, metadata = ctx.metadata): Promise<Credential | undefined> => {
    const found = configured.get(accessKey);
    if (found === undefined) return keys.find(accessKey, metadata);
    // Operators' accounts cannot be suspended, so operators get answers while metadata cannot be read.
    if (ofSettings.find(found)?.isOperators === true) return found;
    if (!directory.wasActive(found.owner)) await directory.assertActive(found.owner, metadata);
    return found;
  };
  const sessions = new Sessions(ctx, { directory, parent, revisions });
  return {
    find(accessKey, token, metadata = ctx.metadata) {
      return token === undefined ? parent(accessKey, metadata) : sessions.find(accessKey, token, metadata);
    },
    account: (by) => directory.find(by),
    soleAccount: ofSettings.sole,
    async accounts({ after, limit }) {
      // An account of the settings may have a row too, so twice the limit is read at most.
      const created = await scanAccounts(ctx.metadata, { after, limit });
      const names = [
        ...created.map(({ account }) => account),
        ...cutPage(ofSettings.all, { after, limit }).map(({ owner }) => owner),
      ];
      const page = [...new Set(names)].sort().slice(0, limit);
      const rows = new Map(created.map((row) => [row.account, row]));
      return page.map((owner) => {
        const row = rows.get(owner);
        const known = ofSettings.find({ owner });
        const status = row?.status === 'Suspended' ? 'Suspended' : 'Active';
        return {
          owner,
          displayName: row?.displayName ?? owner,
          ...(row?.email === undefined ? {} : { email: row.email }),
          isOperators: false,
          isConfigured: false,
          ...known,
          status,
        };
      });
    },
    isConfigured: (accessKey) => configured.has(accessKey),
    hasAccountLike: (owner) => ofSettings.hasLike(owner),
    used({ accessKey, iam, session }, use) {
      if (iam !== undefined && session === undefined) keys.used(accessKey, use);
    },
  };
}

/** The identity without the secret, because the identity travels with the request and may be logged. */
export const identityOf: (credential: Credential) => Identity = memoizeEach(
  ({ secretKey: _, ...identity }: Credential) => identity,
);

export interface KnownKey {
  readonly credential: Credential;
  readonly renew: Renew;
}

/**
 * Not an async function, which would allocate another promise in every request.
 * @param token the session token of the request
 * @throws InvalidAccessKeyId, AccountProblem
 */
export const findKnownKey = (
  { credentials, metadata }: Pick<AuthenticationContext, 'credentials' | 'metadata'>,
  accessKey: string,
  token: string | undefined,
): Promise<KnownKey> =>
  credentials.find(accessKey, token, metadata).then((credential) => {
    if (credential === undefined) throw unknownKey(accessKey);
    const renew = async (): Promise<Identity> => {
      const now = await credentials.find(accessKey, token, metadata);
      // With another secret the key was deleted and created again, so the signature was made with the old key.
      if (now?.secretKey !== credential.secretKey) throw unknownKey(accessKey);
      return identityOf(now);
    };
    return { credential, renew };
  });

const unknownKey = (accessKey: string) =>
  fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });

// The accounts of the settings and the accounts that operators created. A profile is cached under the revision of its account, so a
// process obeys a suspension as soon as it would obey a change of an access key. Requests of configured keys read no revision: for
// these, an active account is cached for a second, and a change by a process of this node ends that before it is answered. Where the
// revision itself is cached (`SVC_CONFIG_CACHE_TTL`), that cache is off, because its time would be added to the time of the revision.

interface Cached {
  readonly revision: string | undefined;
  readonly profile: AccountProfile | undefined;
}

const cachedMax = 4_096;
/** How long an account of the settings counts as active without a look, unless a change is announced, or the context says otherwise. */
export const activeMs = 1_000;

interface DirectoryParts {
  readonly metadata: MetadataStore;
  readonly clock: Pick<Clock, 'elapsed'>;
  readonly revisions: Revisions;
  readonly activeMs: number;
  readonly ofSettings: { find(by: Parameters<Credentials['account']>[0]): Account | undefined };
}

class AccountDirectory {
  readonly #parts: DirectoryParts;
  readonly #profiles = new BoundedCache<Cached>({ name: 'account-profiles', entriesMax: cachedMax });

  /** When an account of the settings was last read as active; these are few. */
  readonly #activeAt = new Map<string, number>();
  #changes = 0;

  constructor(parts: DirectoryParts) {
    this.#parts = parts;
    subscribeToChanges(parts.metadata, 'account', (account) => {
      this.#changes += 1;
      this.#activeAt.delete(account);
    });
  }

  /** Whether an account of the settings was active a moment ago. */
  wasActive(owner: string): boolean {
    const at = this.#activeAt.get(owner);
    return at !== undefined && this.#parts.clock.elapsed() - at < this.#parts.activeMs;
  }

  isConfigured(owner: string): boolean {
    return this.#parts.ofSettings.find({ owner }) !== undefined;
  }

  /** @throws AccountProblem */
  async assertActive(owner: string, metadata: MetadataStore): Promise<void> {
    const at = this.#parts.clock.elapsed();
    const changes = this.#changes;
    assertActive(await this.profile(owner, metadata), { isConfigured: true });
    // A change during the read may have made the profile stale.
    if (changes === this.#changes) this.#activeAt.set(owner, at);
  }

  async find(by: Parameters<Credentials['account']>[0]): Promise<Account | undefined> {
    const { metadata, ofSettings } = this.#parts;
    const known = ofSettings.find(by);
    if (known !== undefined) return withStatus(known, await this.profile(known.owner));
    if ('owner' in by) return toAccount(by.owner, await this.profile(by.owner));
    const found = await findAccountByEmail(metadata, by.email);
    return found && toAccount(found.account, found.profile);
  }

  async displayName(owner: string): Promise<string> {
    return (await this.find({ owner }))?.displayName ?? owner;
  }

  /** Costs one read of the account's revision while the profile is unchanged. */
  async profile(owner: string, metadata = this.#parts.metadata): Promise<AccountProfile | undefined> {
    const revision = await this.#parts.revisions.of(owner, metadata);
    const cached = this.#profiles.get(owner);
    if (cached !== undefined && cached.revision === revision) return cached.profile;
    // A profile that is newer than the revision is replaced with the next request, because that reads the new revision.
    const profile = revision === undefined ? undefined : await findProfile(metadata, owner);
    this.#profiles.set(owner, { revision, profile });
    return profile;
  }
}

const withStatus = (account: Account, profile: AccountProfile | undefined): Account =>
  profile?.status === 'Suspended' ? { ...account, status: 'Suspended' } : account;

function toAccount(owner: string, profile: AccountProfile | undefined): Account | undefined {
  if (profile === undefined || profile.status === 'Deleted') return undefined;
  const { displayName = owner, email, status } = profile;
  return { owner, displayName, ...(email === undefined ? {} : { email }), status };
}
