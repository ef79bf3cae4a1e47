/** Facts of a request's judgement that stand in its body: tags and locks that it sets, the region of a new bucket. */
import type { Tags } from '../object/headers/tagging-header.ts';

export interface BodyFacts {
  readonly requestTags?: Tags;
  /** By condition key. */
  readonly named?: ReadonlyMap<string, string | readonly string[]>;
  /** Actions that the caller must be allowed beside the operation's own. */
  readonly along?: readonly string[];
  /** Count in place of the request's own headers of these bare names. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export type ReadFacts = (body: Uint8Array) => BodyFacts;
