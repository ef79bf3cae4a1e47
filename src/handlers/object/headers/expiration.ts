/** What the lifecycle rules of a bucket will do, as headers of replies about objects and uploads. */
import type { Context } from '../../../context.ts';
import { readDocument } from '../../../domain/configurations/documents.ts';
import { bucketLifecycle } from '../../../domain/configurations/families.ts';
import { abortOf, expirationHeader, expirationOf } from '../../../domain/configurations/lifecycle-rules.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { HeaderPair } from '../../../protocol/reply/reply.ts';

type Ctx = Pick<Context, 'caches' | 'metadata'>;
type Bucket = Pick<BucketRow, 'id' | 'name' | 'documents'>;

/** Whether there is anything to tell; most buckets have no rules, and then nothing is awaited. */
export const hasLifecycle = ({ documents }: Pick<Bucket, 'documents'>): boolean =>
  documents[bucketLifecycle.name] !== undefined;

/** When the version expires, which must be the latest one of its key. */
export async function expirationHeaders(ctx: Ctx, bucket: Bucket, row: ObjectRow): Promise<HeaderPair[]> {
  const lifecycle = await readDocument(ctx, bucket, bucketLifecycle);
  const { key, size, modified, headers } = row;
  const due = lifecycle && expirationOf(lifecycle, { key, size, modified, tags: headers.tags });
  return due === undefined ? [] : [['*-expiration', expirationHeader(due)]];
}

/** When an upload that is not completed is aborted. */
export async function abortHeaders(
  ctx: Ctx,
  bucket: Bucket,
  upload: { readonly key: string; readonly initiated: number },
): Promise<HeaderPair[]> {
  const lifecycle = await readDocument(ctx, bucket, bucketLifecycle);
  const due = lifecycle && abortOf(lifecycle, upload);
  if (due === undefined) return [];
  return [
    ['*-abort-date', new Date(due.at).toUTCString()],
    ['*-abort-rule-id', encodeURIComponent(due.rule)],
  ];
}
