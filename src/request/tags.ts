/** The tags of objects, from the `tagging` header (a query string) or from a body, as the public API bounds them. */

import { fail, Refusal } from '../base/errors.ts';
import { readXml } from '../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../protocol/operations/operations.ts';
import { tagging } from '../protocol/schemas/object.ts';
import { Query } from '../protocol/wire.ts';

export type Tags = readonly (readonly [string, string])[];

const tagsMax = 10;

const keyMax = 128;

const valueMax = 256;

const allowed = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/** The tags of a header value. @throws InvalidArgument, InvalidTag or BadRequest naming the tag */
export function parseTags(raw: string | undefined): Tags {
  if (raw === undefined || raw === '') return [];
  const tags = readPairs(raw);
  checkCount(tags);
  const names = new Set(tags.map(([key]) => key));
  if (names.size !== tags.length || names.has('')) throw malformedHeader(raw);
  return checkTags(tags);
}

function readPairs(raw: string): Tags {
  try {
    return new Query(raw).pairs;
  } catch (cause) {
    if (cause instanceof Refusal) throw malformedHeader(raw);
    throw cause;
  }
}

const malformedHeader = (raw: string): Refusal =>
  fail('InvalidArgument', {
    message:
      'The tagging header shall be encoded as UTF-8 then URL-encoded query parameters without tag name duplicates.',
    elements: { ArgumentName: 'tagging', ArgumentValue: raw },
  });

/** The tags of a body. @throws MalformedXML, InvalidTag or BadRequest naming the tag */
export function tagsIn(body: Uint8Array): Tags {
  const { TagSet } = readXml(tagging, 'Tagging', body, { maxBytes: bodyMaxDefault });
  return checkTagging(TagSet.map(({ Key, Value }) => [Key, Value] as const));
}

/** Tags in the order of their keys. @throws InvalidTag or BadRequest naming the tag */
export function checkTagging(tags: Tags): Tags {
  checkCount(tags);
  for (const [i, [key]] of tags.entries()) {
    if (tags.findIndex(([each]) => each === key) < i)
      throw invalidTag('Cannot provide multiple Tags with the same key', key);
  }
  return checkTags(tags);
}

function checkCount(tags: Tags): void {
  if (tags.length > tagsMax) throw fail('BadRequest', `Object tags cannot be greater than ${tagsMax}`);
}

/** The tags in the order of their keys, as the public service shows them. */
function checkTags(tags: Tags): Tags {
  for (const tag of tags) checkTag(tag);
  return tags.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** @throws InvalidTag naming the key */
export function checkTag([key, value]: Tags[number]): void {
  const isKeyRight =
    key !== '' &&
    Array.from(key).length <= keyMax &&
    allowed.test(key) &&
    !key.toLowerCase().startsWith('aws:');
  if (!isKeyRight) throw invalidTag('The TagKey you have provided is invalid', key);
  if (Array.from(value).length > valueMax || !allowed.test(value))
    throw invalidTag('The TagValue you have provided is invalid', key);
}

const invalidTag = (message: string, key: string) =>
  fail('InvalidTag', { message, elements: { TagKey: key } });
