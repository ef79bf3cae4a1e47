/**
 * The revision of an account's records, which tells whether cached facts about its callers are valid. Where other machines change the
 * records too and a read is a round trip, the revision is cached (`SVC_CONFIG_CACHE_TTL`); a change by a process of this node
 * invalidates it before that change is answered.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { iamRevision } from '../../metadata/iam.ts';
import { subscribeToChanges } from '../../metadata/shared-changes.ts';
import type { Clock } from '../../ports/clock.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';

interface Seen {
  readonly revision: string | undefined;
  readonly at: number;
}

/** When a read began. */
export interface Look {
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
