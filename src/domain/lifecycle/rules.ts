/** The lifecycle rules of a bucket as requests and the worker evaluate them. */
import type { Context } from '../../context.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketLifecycle } from '../configurations/families.ts';
import type { Lifecycle } from '../configurations/lifecycle.ts';

/** The rules with the length of a day that the settings give. */
export async function readRules(
  ctx: Pick<Context, 'metadata' | 'caches' | 'config'>,
  bucket: Pick<BucketRow, 'id' | 'name' | 'documents'>,
): Promise<Lifecycle | undefined> {
  const lifecycle = await readDocument(ctx, bucket, bucketLifecycle);
  return lifecycle && { ...lifecycle, dayMs: ctx.config.SVC_LIFECYCLE_DAY };
}
