/** Parameters that many actions share, with the bounds of the public API. */

import type { Identity } from '../../auth/identity.ts';
import { callerOf } from '../../auth/principal.ts';
import { fail } from '../../base/errors.ts';
import { integer, list, optional, structure, text } from '../../protocol/operations/parameters.ts';
import { readToken, writeToken } from '../../request/parameters.ts';
import type { Authorized } from '../../request/request.ts';

const name = (max: number) =>
  text({ max, pattern: /^[\w+=,.@-]+$/, must: 'letters, digits and any of _+=,.@-' });
export const userName = name(64);
export const groupName = name(128);
export const roleName = name(64);
export const policyName = name(128);

export const path = text({
  max: 512,
  pattern: /^\/(?:[\x21-\x7e]*\/)?$/,
  must: '"/" or printable ASCII that begins and ends with "/"',
});
export const pathPrefix = text({
  max: 512,
  pattern: /^\/[\x21-\x7e]*$/,
  must: 'printable ASCII that begins with "/"',
});

export const description = text({
  min: 0,
  max: 1_000,
  pattern: /^[\t\n\r\x20-\x7e\xa1-\xff]*$/,
  must: 'characters up to U+00FF',
});

export const serialNumber = text({
  min: 9,
  max: 1_024,
  pattern: /^[\x21-\x7e]+$/,
  must: 'the ARN of an MFA device',
});
export const mfaCode = text({ min: 6, max: 6, pattern: /^\d+$/, must: 'six digits' });

export const policyArnField = text({ min: 20, max: 2_048 });
/** A document, whose own rules are the policy engine's. */
export const policyDocument = text({
  max: 131_072,
  pattern: /^[\t\n\r\x20-\xff]+$/,
  must: 'characters up to U+00FF',
});

export const accessKeyId = text({ min: 3, max: 128, pattern: /^[\w.=+@-]+$/, must: 'an access key id' });

const tagKey = text({
  max: 128,
  pattern: /^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$/u,
  must: 'letters, digits, blanks and any of _.:/=+-@',
});
const tagValue = text({
  min: 0,
  max: 256,
  pattern: /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u,
  must: 'letters, digits, blanks and any of _.:/=+-@',
});
const tag = structure({ Key: tagKey, Value: tagValue });
export const tags = list(tag, { max: 50 });
export const someTags = list(tag, { min: 1, max: 50 });
export const tagKeys = list(tagKey, { max: 50 });

export const page = {
  Marker: optional(text({ max: 1_024 })),
  MaxItems: optional(integer({ min: 1, max: 1_000 })),
};
const pageItems = 100;

interface AskedPage {
  readonly Marker: string | undefined;
  readonly MaxItems: number | undefined;
}

/** The start and length of a page. */
export const pageFrom = (input: AskedPage) => ({
  after: readToken(input.Marker)?.after,
  max: input.MaxItems ?? pageItems,
});

/** The fields of a reply that say whether there are more pages. */
export const pageEnd = (next: string | undefined) =>
  next === undefined ? { IsTruncated: false } : { IsTruncated: true, Marker: writeToken({ after: next }) };

/**
 * One page of a short list that is in memory as a whole.
 * @param keyOf a unique key, whose order is that of the pages
 */
export function pageIn<T>(all: readonly T[], input: AskedPage, keyOf: (item: T) => string) {
  const { after, max } = pageFrom(input);
  const left = all
    .map((item) => ({ item, key: keyOf(item) }))
    .filter(({ key }) => after === undefined || key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const visible = left.slice(0, max);
  return {
    items: visible.map(({ item }) => item),
    end: pageEnd(left.length > max ? visible.at(-1)?.key : undefined),
  };
}

/** The user that an action is about: the named one, or the caller. @throws ValidationError for a caller that is no user */
export function userOrCaller({ identity }: ActionRequest, input: string | undefined): string {
  const found = input ?? callerOf(identity).username;
  if (found === undefined)
    throw fail('ValidationError', 'Must specify userName when calling with non-User credentials.');
  return found;
}

// The call of an action of IAM, of STS or on access points.

/** A request whose caller is known: actions have no anonymous callers. */
export interface ActionRequest extends Authorized {
  readonly identity: NonNullable<Identity>;
}
