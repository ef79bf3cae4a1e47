/** The tags of a bucket, and their limits. */

import { fail } from '../../base/errors.ts';
import type { Tagging } from '../../domain/configurations/families.ts';
import { checkTag } from '../../request/tags.ts';

export const tagsMax = 50;

/** The tags in the order of their keys. @throws BadRequest for too many, InvalidTag naming the key */
export function checkBucketTags(value: Tagging): Tagging {
  checkTagSet(value);
  for (const { Key, Value } of value.TagSet) checkTag([Key, Value]);
  return sortTags(value);
}

export function checkTagSet(value: Tagging): void {
  if (value.TagSet.length > tagsMax)
    throw fail('BadRequest', `Bucket tag count cannot be greater than ${tagsMax}`);
  const keys = new Set<string>();
  for (const { Key } of value.TagSet) {
    if (keys.has(Key))
      throw fail('InvalidTag', {
        message: 'Cannot provide multiple Tags with the same key',
        elements: { TagKey: Key },
      });
    keys.add(Key);
  }
}

export const sortTags = ({ TagSet }: Tagging): Tagging => ({
  TagSet: TagSet.toSorted((a, b) => (a.Key < b.Key ? -1 : 1)),
});
