/**
 * The state that an account's records are in, which tells whether what was found out about a caller still holds. Where
 * other machines change them too and a read is a round trip, it is believed for a while (`SVC_CONFIG_CACHE_TTL`).
 */

import { Bounded } from '../metadata/bounded.ts';
import { iamRevision } from '../metadata/iam.ts';
import type { Clock } from '../ports/clock.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';

interface Seen {
  readonly revision: string | undefined;
  readonly at: number;
}

const accountsMax = 4_096;

export interface RevisionsContext {
  readonly metadata: MetadataStore;
  readonly clock: Pick<Clock, 'elapsed'>;
  /** How long what was read is believed; 0 reads each time. */
  readonly believedMs: number;
}

export class Revisions {
  readonly #ctx: RevisionsContext;
  readonly #seen = new Bounded<Seen>(accountsMax);

  constructor(ctx: RevisionsContext) {
    this.#ctx = ctx;
  }

  async of(account: string): Promise<string | undefined> {
    const { metadata, clock, believedMs } = this.#ctx;
    if (believedMs === 0) return iamRevision(metadata, account);
    const seen = this.#seen.get(account);
    const now = clock.elapsed();
    if (seen !== undefined && now - seen.at < believedMs) return seen.revision;
    const revision = await iamRevision(metadata, account);
    this.#seen.set(account, { revision, at: now });
    return revision;
  }

  /** Somebody has just read the records in this state. */
  saw(account: string, revision: string | undefined): void {
    const { clock, believedMs } = this.#ctx;
    if (believedMs > 0) this.#seen.set(account, { revision, at: clock.elapsed() });
  }
}
