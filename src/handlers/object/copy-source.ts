/** The `copy-source` header: which version of which object, and that the caller may read it (public API "CopyObject"). */

import { assertMayKnow, authorize, type Question } from '../../auth/authorize.ts';
import { isCharged } from '../../auth/requester-pays.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/buckets.ts';
import { checkCopySource } from '../../domain/conditions.ts';
import { assertObject, lookUpVersion } from '../../domain/read-object.ts';
import { assertReadable } from '../../domain/restore.ts';
import { fail } from '../../errors/refusal.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { percentDecode } from '../../protocol/wire.ts';
import { type BucketCall, type Call, header } from '../call.ts';
import { assertKey } from '../key.ts';
import { sourceConditions } from './conditions.ts';

export interface CopySource {
  readonly bucket: BucketRow;
  readonly row: ObjectRow;
  /** Where one version was asked for. */
  readonly versionId?: string | undefined;
}

/** `/bucket/key?versionId=id`, percent-encoded; the leading slash may be missing. */
export function parseCopySource(raw: string): {
  readonly bucket: string;
  readonly key: string;
  readonly versionId?: string;
} {
  const at = raw.indexOf('?versionId=');
  // The public service decodes this header like a form: a plus is a space.
  const encoded = (at < 0 ? raw : raw.slice(0, at)).replaceAll('+', ' ');
  const path = percentDecode(encoded).replace(/^\//, '');
  const slash = path.indexOf('/');
  if (slash <= 0 || slash === path.length - 1) {
    throw fail('InvalidArgument', {
      message: 'Copy Source must mention the source bucket and key: sourcebucket/sourcekey',
      elements: { ArgumentName: 'copy-source', ArgumentValue: raw },
    });
  }
  const source = { bucket: path.slice(0, slash), key: path.slice(slash + 1) };
  assertKey(source.key);
  return at < 0 ? source : { ...source, versionId: percentDecode(raw.slice(at + '?versionId='.length)) };
}

/** Finds the source and checks the caller's right to it and the conditions on it. */
export async function openCopySource(ctx: Context, call: Call): Promise<CopySource> {
  const source = parseCopySource(header(call, 'copy-source') ?? '');
  const bucket = await openBucket(ctx, source.bucket);
  const expectedOwner = header(call, 'source-expected-bucket-owner');
  if (expectedOwner !== undefined && expectedOwner !== bucket.owner) throw fail('AccessDenied');
  await isCharged(ctx, call, bucket);
  const found = await lookUpVersion(ctx, bucket, source);
  const { versionId } = source;
  const about = aboutSource({ bucket, versionId }, { key: source.key, target: found });
  const action = versionId === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  await authorize(ctx, call, { ...about, action });
  if (found === undefined || (found.marker && versionId === undefined)) await assertMayKnow(ctx, call, about);
  if (found?.marker && versionId !== undefined)
    throw fail(
      'InvalidRequest',
      'The source of a copy request may not specifically refer to a delete marker by version id.',
    );
  const row = assertObject(found, source);
  checkCopySource(sourceConditions(call), row);
  assertReadable(ctx, row, "Operation is not valid for the source object's storage class");
  return { bucket, row, versionId };
}

/** The version of a source stands in its header, and not in the query. */
const aboutSource = (
  { bucket, versionId }: Pick<CopySource, 'bucket' | 'versionId'>,
  { key, target }: Pick<Question, 'key' | 'target'>,
): Omit<Question, 'action'> => ({
  bucket,
  bucketName: bucket.name,
  key,
  target,
  named: new Map(versionId === undefined ? [] : [['s3:VersionId', versionId]]),
});

/** Tags that are copied along are read there and written here, with the rights that either takes (public API). */
export async function assertMayCopyTags(ctx: Context, call: BucketCall, source: CopySource): Promise<void> {
  const { row, versionId } = source;
  const requestTags = row.headers.tags ?? [];
  if (requestTags.length === 0) return;
  const about = aboutSource(source, { key: row.key, target: row });
  const action = versionId === undefined ? 's3:GetObjectTagging' : 's3:GetObjectVersionTagging';
  await authorize(ctx, call, { ...about, action });
  const { bucket, bucketName, key } = call;
  await authorize(ctx, call, { bucket, bucketName, key, requestTags, action: 's3:PutObjectTagging' });
}
