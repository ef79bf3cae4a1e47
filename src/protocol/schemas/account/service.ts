/** The body of ListBuckets: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListBuckets.html */
import { date, element, type Infer, many, optional, text, token } from '../../formats/codec.ts';
import { owner } from '../common.ts';

export const listAllMyBucketsResult = element({
  Owner: optional(owner),
  Buckets: many(element({ Name: token, CreationDate: date, BucketRegion: optional(token) }), {
    name: 'Bucket',
    max: 10_000,
  }),
  ContinuationToken: optional(text),
  Prefix: optional(text),
});
export type ListAllMyBucketsResult = Infer<typeof listAllMyBucketsResult>;
