/** GetBucketTagging, PutBucketTagging, DeleteBucketTagging (spec "Bucket tagging"). */
import { bucketTagging, type Tagging } from '../../domain/families.ts';
import { fail } from '../../errors/refusal.ts';
import { tagging } from '../../protocol/schemas/tagging.ts';
import { document } from '../document.ts';
import { checkTag } from '../object/tagging-header.ts';

/** @throws InvalidTag naming the key */
export function checkBucketTags(value: Tagging): Tagging {
  const keys = new Set<string>();
  for (const { Key, Value } of value.TagSet) {
    checkTag([Key, Value]);
    if (keys.has(Key))
      throw fail('InvalidTag', {
        message: 'Cannot provide multiple Tags with the same key',
        elements: { TagKey: Key },
      });
    keys.add(Key);
  }
  return value;
}

const documentOf = document({
  family: bucketTagging,
  root: 'Tagging',
  schema: tagging,
  unset: 'NoSuchTagSet',
  putStatus: 204,
  validate: (_ctx, _call, value) => checkBucketTags(value),
});

export const GetBucketTagging = documentOf.get;
export const PutBucketTagging = documentOf.put;
export const DeleteBucketTagging = documentOf.remove;
