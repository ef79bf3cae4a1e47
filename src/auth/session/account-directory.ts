/**
 * The accounts of the settings and the accounts that operators created. A profile is cached under the revision of its account, so a
 * process obeys a suspension as soon as it would obey a change of an access key.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { findAccountByEmail, findProfile } from '../../domain/iam/account-profiles.ts';
import { fail } from '../../errors/refusal.ts';
import type { AccountProfile } from '../../metadata/iam.ts';
import type { Account, Credentials } from '../../ports/crypto/credentials.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Revisions } from './revisions.ts';

interface Cached {
  readonly revision: string | undefined;
  readonly profile: AccountProfile | undefined;
}

const cachedMax = 4_096;

interface DirectoryParts {
  readonly metadata: MetadataStore;
  readonly revisions: Revisions;
  readonly ofSettings: { find(by: Parameters<Credentials['account']>[0]): Account | undefined };
}

export class AccountDirectory {
  readonly #parts: DirectoryParts;
  readonly #profiles = new BoundedCache<Cached>({ name: 'account-profiles', entriesMax: cachedMax });

  constructor(parts: DirectoryParts) {
    this.#parts = parts;
  }

  async find(by: Parameters<Credentials['account']>[0]): Promise<Account | undefined> {
    const { metadata, ofSettings } = this.#parts;
    const known = ofSettings.find(by);
    if (known !== undefined) return withStatus(known, await this.profile(known.owner));
    if ('owner' in by) return accountOf(by.owner, await this.profile(by.owner));
    const found = await findAccountByEmail(metadata, by.email);
    return found && accountOf(found.account, found.profile);
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

  /** @throws AccountProblem */
  async assertActive(owner: string, metadata?: MetadataStore): Promise<void> {
    assertActive(await this.profile(owner, metadata));
  }
}

/** @throws AccountProblem */
export function assertActive(profile: AccountProfile | undefined): void {
  if (profile !== undefined && profile.status !== 'Active') throw fail('AccountProblem');
}

const withStatus = (account: Account, profile: AccountProfile | undefined): Account =>
  profile?.status === 'Suspended' ? { ...account, status: 'Suspended' } : account;

function accountOf(owner: string, profile: AccountProfile | undefined): Account | undefined {
  if (profile === undefined || profile.status === 'Deleted') return undefined;
  const { displayName = owner, email, status } = profile;
  return { owner, displayName, ...(email === undefined ? {} : { email }), status };
}
