/** GetBucketTagging, PutBucketTagging, DeleteBucketTagging. */

import { fail } from '../../../base/errors.ts';
import { bucketTagging, type Tagging } from '../../../domain/configurations/families.ts';
import { tagging } from '../../../protocol/schemas/object.ts';
import { document } from '../../common/document.ts';
import { checkTag } from '../../object/headers/write-headers.ts';

const tagsMax = 50;

/** The tags in the order of their keys. @throws BadRequest for too many, InvalidTag naming the key */
export function checkBucketTags(value: Tagging): Tagging {
  checkTagSet(value);
  for (const { Key, Value } of value.TagSet) checkTag([Key, Value]);
  return sortTags(value);
}

function checkTagSet(value: Tagging): void {
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

const sortTags = ({ TagSet }: Tagging): Tagging => ({
  TagSet: TagSet.toSorted((a, b) => (a.Key < b.Key ? -1 : 1)),
});

const configuration = document({
  family: bucketTagging,
  root: 'Tagging',
  schema: tagging,
  unset: 'NoSuchTagSet',
  putStatus: 204,
  validate: async (_ctx, { checks }, value) => {
    const right = `at most ${tagsMax} tags, each key once`;
    await checks.at({ path: 'TagSet', right }, () => checkTagSet(value));
    for (const [index, { Key, Value }] of value.TagSet.entries())
      await checks.at({ path: `TagSet[${index}]` }, () => checkTag([Key, Value]));
    return sortTags(value);
  },
});

export const bucketTags = configuration.configuration;
export const GetBucketTagging = configuration.get;
export const PutBucketTagging = configuration.put;
export const DeleteBucketTagging = configuration.remove;
