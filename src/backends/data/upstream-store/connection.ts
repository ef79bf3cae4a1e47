/** One upstream as the files beside this one use it: its client, its names, and its retries. */
import type { Hasher } from '../../../ports/cryptography.ts';
import type { BodyMemory } from '../../../ports/object-bytes.ts';
import type { WriteBudget } from '../chunked/write-budget.ts';
import type { RetryContext, UpstreamClient } from './client.ts';
import type { HashVerification } from './hash-verification.ts';

export interface Connection extends RetryContext {
  /** The cluster's id. */
  readonly id: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly client: UpstreamClient;
  readonly hashVerification: HashVerification;
  readonly hasher: Hasher;
  /** Bounds what all uploads hold in memory together. */
  readonly budget: WriteBudget | undefined;
  /** For bodies of unknown length: a part of them is held whole. */
  readonly partMemory: BodyMemory;
}
