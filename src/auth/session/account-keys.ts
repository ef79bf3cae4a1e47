/**
 * The access keys of IAM users, and of the roots of accounts that operators created. Finding a key costs one read of its account's own record: while that is unchanged, the cached facts about
 * the key are valid. A change (a key made inactive, a user deleted) takes effect with the next request in every process.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { findKey, openAccessKey } from '../../domain/iam/access-keys.ts';
import { ofOneState } from '../../domain/iam/account.ts';
import { findProfile } from '../../domain/iam/account-profiles.ts';
import { findById } from '../../domain/iam/entities.ts';
import { fail } from '../../errors/refusal.ts';
import { accessKeyUse, type UserRecord } from '../../metadata/iam.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Credential, KeyUse } from '../../ports/crypto/credentials.ts';
import type { Sealer } from '../../ports/crypto/sealer.ts';
import type { LateWrites } from '../../ports/late-writes.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { AccountDirectory } from './account-directory.ts';
import { assertEnabled, userCaller } from './holders.ts';
import type { Revisions } from './revisions.ts';

export interface AccountContext {
  readonly metadata: MetadataStore;
  readonly sealer: Sealer;
  readonly clock: Pick<Clock, 'now'>;
  readonly lateWrites: Pick<LateWrites, 'add'>;
}

export interface Accounts {
  readonly directory: AccountDirectory;
  readonly revisions: Revisions;
}

interface Kept {
  readonly account: string;
  readonly revision: string | undefined;
  readonly credential: Credential;
}

const keptMax = 4_096;
/** The form of every access key. Other texts are not looked up, because a store may not accept them as a key. */
const isPossible = /^[\w.=+@-]{3,128}$/;
/** How often the last use of a key is recorded. */
const useEveryMs = 5 * 60 * 1000;
const useBytes = 256;

export class AccountKeys {
  readonly #ctx: AccountContext;
  readonly #accounts: Accounts;
  readonly #kept = new BoundedCache<Kept>({ name: 'access-keys', entriesMax: keptMax });
  readonly #usedAt = new BoundedCache<number>({ name: 'access-key-uses', entriesMax: keptMax });

  constructor(ctx: AccountContext, accounts: Accounts) {
    this.#ctx = ctx;
    this.#accounts = accounts;
  }

  async find(accessKey: string, metadata: MetadataStore): Promise<Credential | undefined> {
    if (!isPossible.test(accessKey)) return undefined;
    const kept = this.#kept.get(accessKey);
    if (kept !== undefined && (await this.#accounts.revisions.of(kept.account, metadata)) === kept.revision)
      return kept.credential;
    // Throw before the key is cached, so that the cache only has keys of active accounts.
    const found = await this.#load(accessKey, metadata);
    if (found === undefined) this.#kept.delete(accessKey);
    else this.#kept.set(accessKey, found);
    return found?.credential;
  }

  async #load(accessKey: string, metadata: MetadataStore): Promise<Kept | undefined> {
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
    if (profile?.status === 'Deleted') return undefined;
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
