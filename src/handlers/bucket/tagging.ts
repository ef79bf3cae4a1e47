/** GetBucketTagging, PutBucketTagging, DeleteBucketTagging. */

import { bucketTagging } from '../../domain/configurations/families.ts';
import { tagging } from '../../protocol/schemas/object.ts';
import { checkTag } from '../../request/tags.ts';
import { checkTagSet, sortTags, tagsMax } from '../common/bucket-tags.ts';
import { document } from '../common/document.ts';

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
