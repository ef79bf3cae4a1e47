/** Facts in a request's body that its authorization needs: tags and locks that it sets, the region of a new bucket. */
import type { Tags } from '../object/headers/tagging-header.ts';

export interface BodyFacts {
  readonly requestTags?: Tags;
  /** By condition key. */
  readonly named?: ReadonlyMap<string, string | readonly string[]>;
  /** Further actions that the caller must be allowed. */
  readonly along?: readonly string[];
  /** Count in place of the request's own headers of these bare names. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export type ReadFacts = (body: Uint8Array) => BodyFacts;
