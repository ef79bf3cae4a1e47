/** What all listings read from a request, and show of a page. */

import type { Entry, Grouping } from '../../domain/listings/listing.ts';
import { isUrlEncoded, positionIn, readCount, urlEncode } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';

/** Entries on one page (public API). */
const pageMax = 1000;

export const chooseEncoder = (request: AuthorizedInBucket): ((text: string) => string) =>
  isUrlEncoded(request.query) ? urlEncode : (text) => text;

/** Prefix, delimiter and page size of any listing. */
export function readGrouping({ query }: AuthorizedInBucket, limitName: string): Grouping {
  const prefix = positionIn(query, 'prefix');
  const delimiter = positionIn(query, 'delimiter');
  return { prefix, delimiter, limit: readCount(query, limitName, { fallback: pageMax, max: pageMax }) };
}

export const toCommonPrefixes = (entries: readonly Entry<unknown>[], encode: (text: string) => string) =>
  entries.flatMap((entry) => ('row' in entry ? [] : [{ Prefix: encode(entry.commonPrefix) }]));
