/**
 * The access keys of IAM users (spec "Authentication" 2.2). A key costs one read of its account's own record: as long
 * as that is unchanged, so is everything that was found out about the key, and a change (a key made inactive, a user
 * deleted) holds for the next request in every process.
 */
import { findKey, openAccessKey } from '../domain/iam/access-keys.ts';
import { ofOneState } from '../domain/iam/account.ts';
import { findById } from '../domain/iam/entities.ts';
import { iamRevision, recordAccessKeyUse } from '../metadata/iam.ts';
import type { Clock } from '../ports/clock.ts';
import type { Credential, KeyUse } from '../ports/credentials.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Sealer } from '../ports/sealer.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { Bounded } from './bounded.ts';
import { userCaller } from './holders.ts';

export interface AccountContext {
  readonly metadata: MetadataStore;
  readonly sealer: Sealer;
  readonly clock: Pick<Clock, 'now'>;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

/** What an account is called. */
export type DisplayName = (owner: string) => Promise<string>;

interface Kept {
  readonly account: string;
  readonly revision: string | undefined;
  readonly credential: Credential;
}

const keptMax = 4_096;
/** How often the use of one key is written down. */
const useEveryMs = 5 * 60 * 1000;

export class AccountKeys {
  readonly #ctx: AccountContext;
  readonly #displayName: DisplayName;
  readonly #kept = new Bounded<Kept>(keptMax);
  readonly #usedAt = new Bounded<number>(keptMax);
  readonly #writing = new Set<Promise<void>>();

  constructor(ctx: AccountContext, displayName: DisplayName) {
    this.#ctx = ctx;
    this.#displayName = displayName;
  }

  async find(accessKey: string): Promise<Credential | undefined> {
    const { metadata } = this.#ctx;
    const kept = this.#kept.get(accessKey);
    if (kept !== undefined && (await iamRevision(metadata, kept.account)) === kept.revision)
      return kept.credential;
    const found = await this.#load(accessKey);
    if (found === undefined) this.#kept.delete(accessKey);
    else this.#kept.set(accessKey, found);
    return found?.credential;
  }

  async #load(accessKey: string): Promise<Kept | undefined> {
    const { metadata } = this.#ctx;
    const opened = await openAccessKey(this.#ctx, accessKey);
    if (opened === undefined) return undefined;
    const { account, secretKey } = opened;
    const { revision, value: user } = await ofOneState({ metadata }, account, async () => {
      const key = await findKey({ metadata }, account, accessKey);
      if (key?.status !== 'Active') return undefined;
      return findById({ metadata }, account, { kind: 'user', id: key.user });
    });
    if (user === undefined || revision === undefined) return undefined;
    const credential: Credential = {
      accessKey,
      secretKey,
      owner: account,
      displayName: await this.#displayName(account),
      root: false,
      operator: false,
      caller: userCaller(account, user),
      iam: { id: user.id, revision },
    };
    return { account, revision, credential };
  }

  used(accessKey: string, { service, region }: KeyUse): void {
    const { clock, metadata, telemetry } = this.#ctx;
    const at = clock.now();
    const before = this.#usedAt.get(accessKey);
    if (before !== undefined && at - before < useEveryMs) return;
    this.#usedAt.set(accessKey, at);
    const writing = recordAccessKeyUse(metadata, { accessKey, at, service, region })
      .catch((cause: unknown) =>
        telemetry.log('WARN', 'the use of an access key was not recorded', { cause }),
      )
      .finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  /** Resolves when every use that was told is written down. */
  async settled(): Promise<void> {
    await Promise.all(this.#writing);
  }
}
