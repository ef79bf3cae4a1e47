/** The reply headers about objects and uploads that lifecycle rules will remove. */
import type { Context } from '../../../context.ts';
import { bucketLifecycle } from '../../../domain/configurations/families.ts';
import {
  expirationHeader,
  findAbort,
  findExpiration,
} from '../../../domain/configurations/lifecycle-rules.ts';
import { readRules } from '../../../domain/lifecycle/rules.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { HeaderPair } from '../../../protocol/reply/reply.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'config'>;
type Bucket = Pick<BucketRow, 'id' | 'name' | 'documents'>;

/** Whether there are rules; most buckets have none, and then there is no promise. */
export const hasLifecycle = ({ documents }: Pick<Bucket, 'documents'>): boolean =>
  documents[bucketLifecycle.name] !== undefined;

/** When the version expires. It must be the latest one of its key. */
export async function expirationHeaders(ctx: Ctx, bucket: Bucket, row: ObjectRow): Promise<HeaderPair[]> {
  const lifecycle = await readRules(ctx, bucket);
  const { key, size, modified, headers } = row;
  const due = lifecycle && findExpiration(lifecycle, { key, size, modified, tags: headers.tags });
  return due === undefined ? [] : [['*-expiration', expirationHeader(due)]];
}

/** When an open upload will be aborted. */
export async function abortHeaders(
  ctx: Ctx,
  bucket: Bucket,
  upload: { readonly key: string; readonly initiated: number },
): Promise<HeaderPair[]> {
  const lifecycle = await readRules(ctx, bucket);
  const due = lifecycle && findAbort(lifecycle, upload);
  if (due === undefined) return [];
  return [
    ['*-abort-date', new Date(due.at).toUTCString()],
    ['*-abort-rule-id', encodeURIComponent(due.rule)],
  ];
}
