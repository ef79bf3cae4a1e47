/**
 * The accounts of the settings and the accounts that operators created. A profile is cached under the revision of its account, so a
 * process obeys a suspension as soon as it would obey a change of an access key. Requests of configured keys read no revision: for
 * these, an active account is cached for a second, and a change by a process of this node ends that before it is answered.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { findAccountByEmail, findProfile } from '../../domain/iam/account-profiles.ts';
import { fail } from '../../errors/refusal.ts';
import type { AccountProfile } from '../../metadata/iam.ts';
import { heedChanges } from '../../metadata/shared-changes.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Account, Credentials } from '../../ports/crypto/credentials.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Revisions } from './revisions.ts';

interface Cached {
  readonly revision: string | undefined;
  readonly profile: AccountProfile | undefined;
}

const cachedMax = 4_096;
/** How long an account of the settings counts as active without a look, unless a change is announced. */
export const activeMs = 1_000;

interface DirectoryParts {
  readonly metadata: MetadataStore;
  readonly clock: Pick<Clock, 'elapsed'>;
  readonly revisions: Revisions;
  readonly ofSettings: { find(by: Parameters<Credentials['account']>[0]): Account | undefined };
}

export class AccountDirectory {
  readonly #parts: DirectoryParts;
  readonly #profiles = new BoundedCache<Cached>({ name: 'account-profiles', entriesMax: cachedMax });

  /** When an account of the settings was last read as active; these are few. */
  readonly #activeAt = new Map<string, number>();
  #changes = 0;

  constructor(parts: DirectoryParts) {
    this.#parts = parts;
    heedChanges(parts.metadata, 'account', (account) => {
      this.#changes += 1;
      this.#activeAt.delete(account);
    });
  }

  /** Whether an account of the settings was active a moment ago. */
  wasActive(owner: string): boolean {
    const at = this.#activeAt.get(owner);
    return at !== undefined && this.#parts.clock.elapsed() - at < activeMs;
  }

  /** @throws AccountProblem */
  async assertActive(owner: string, metadata: MetadataStore): Promise<void> {
    const at = this.#parts.clock.elapsed();
    const changes = this.#changes;
    assertActive(await this.profile(owner, metadata));
    // A change during the read may have made the profile stale.
    if (changes === this.#changes) this.#activeAt.set(owner, at);
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
