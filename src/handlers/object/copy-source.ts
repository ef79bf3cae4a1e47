/** The `copy-source` header: which version of which object, and that the caller may read it (public API "CopyObject"). */
import { assertMayKnow, authorize, isCharged, mayKnowAbsence, type Question } from '../../auth/authorize.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { reach, reachThrough } from '../../domain/access/access-points.ts';
import { formatVersionId } from '../../domain/common/ids.ts';
import { contentMax } from '../../domain/content/store-bytes.ts';
import { checkCopySource } from '../../domain/objects/conditions.ts';
import {
  assertObject,
  assertReadable,
  lookUpVersion,
  type ReadOptions,
  readObject,
  type Slice,
} from '../../domain/objects/read-object.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { parseCopySource } from '../../protocol/copy-source.ts';
import { amz } from '../../protocol/dialect.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { assertKey, header } from '../../request/parameters.ts';
import { type Authorized, type AuthorizedInBucket, admitToSource } from '../../request/request.ts';
import { sourceConditions } from './conditions.ts';

export interface CopySource {
  readonly bucket: BucketRow;
  readonly row: ObjectRow;
  /** The access point of the source; the request's own access point belongs to the destination. */
  readonly accessPoint?: AccessPointRow | undefined;
  /** Present where the header names a version. */
  readonly versionId?: string | undefined;
  /** The bucket of the source is a Requester Pays one of another account. */
  readonly isCharged: boolean;
}

/** Finds the source and checks the caller's right to it and the conditions on it. */
export async function openCopySource(ctx: Context, request: Authorized): Promise<CopySource> {
  const source = parseCopySource(header(request, 'copy-source') ?? '');
  assertKey(source.key);
  const { bucket, accessPoint } =
    source.through === undefined
      ? await reach(ctx, source.bucket, { isHost: false })
      : await reachThrough(ctx, source.through);
  const asker = { ...request, accessPoint };
  const expectedOwner = header(request, 'source-expected-bucket-owner');
  if (expectedOwner !== undefined && expectedOwner !== bucket.owner) throw fail('AccessDenied');
  const found = await lookUpVersion(ctx, bucket, source);
  const { versionId } = source;
  const about = aboutSource({ bucket, versionId }, { key: source.key, target: found });
  const action = versionId === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  const isAbsent = found === undefined || (found.marker && versionId === undefined);
  if (isAbsent && (await mayKnowAbsence(ctx, asker, { ...about, action }))) {
    await isCharged(ctx, request, bucket);
    assertObject(found, source);
  }
  await authorize(ctx, asker, { ...about, action });
  const charged = await isCharged(ctx, request, bucket);
  if (isAbsent) await assertMayKnow(ctx, asker, about);
  if (found?.marker && versionId !== undefined)
    throw fail(
      'InvalidRequest',
      'The source of a copy request may not specifically refer to a delete marker by version id.',
    );
  await admitToSource(ctx, request, bucket);
  const row = assertObject(found, source);
  const conditions = sourceConditions(request);
  const prefix = `${(request.dialect ?? amz).headerPrefix}copy-source-`;
  if (conditions !== undefined) checkCopySource(conditions, row, { now: ctx.clock.now(), prefix });
  assertReadable(ctx, row, "Operation is not valid for the source object's storage class");
  return { bucket, row, accessPoint, versionId, isCharged: charged };
}

/** @throws InvalidRequest for more than one PUT may have: such a source is copied in ranges */
export function assertCopySize(bytes: number): void {
  if (bytes > contentMax)
    throw fail(
      'InvalidRequest',
      `The specified copy source is larger than the maximum allowable size for a copy source: ${contentMax}`,
    );
}

/** The headers of a reply about the source; a charge for the destination has its header from `serve`. */
export function sourceHeaders(
  { requesterPays }: Authorized,
  { bucket, row, isCharged: charged }: CopySource,
): HeaderPair[] {
  const headers: HeaderPair[] = [];
  if (bucket.versioning !== '') headers.push(['*-copy-source-version-id', formatVersionId(row)]);
  if (charged && requesterPays !== true) headers.push(['*-request-charged', 'requester']);
  return headers;
}

/** The content to copy. A copy that took long ends with the refusal of a caller who may not make it any more. */
export function readCopied(
  ctx: Context,
  { signal, stillAuthorized = (content) => content }: Authorized,
  {
    row,
    slice,
    ...options
  }: { readonly row: ObjectRow; readonly slice: Slice } & Pick<ReadOptions, 'objectKey' | 'account'>,
): AsyncIterable<Uint8Array> {
  return stillAuthorized(readObject(ctx, row, slice, { ...options, signal }));
}

/** The version of a source is in its header, not in the query. */
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
export async function assertMayCopyTags(
  ctx: Context,
  request: AuthorizedInBucket,
  source: CopySource,
): Promise<void> {
  const { row, accessPoint, versionId } = source;
  const requestTags = row.headers.tags ?? [];
  if (requestTags.length === 0) return;
  const about = aboutSource(source, { key: row.key, target: row });
  const action = versionId === undefined ? 's3:GetObjectTagging' : 's3:GetObjectVersionTagging';
  await authorize(ctx, { ...request, accessPoint }, { ...about, action });
  const { bucket, bucketName, key } = request;
  await authorize(ctx, request, { bucket, bucketName, key, requestTags, action: 's3:PutObjectTagging' });
}
