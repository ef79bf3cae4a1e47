/** The `copy-source` header: which version of which object, and that the caller may read it (public API "CopyObject"). */
import { assertMayKnow, authorize, isCharged, mayKnowAbsence, type Question } from '../../auth/authorize.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { reach, reachThrough } from '../../domain/access/access-points.ts';
import { checkCopySource } from '../../domain/objects/conditions.ts';
import { assertObject, assertReadable, lookUpVersion } from '../../domain/objects/read-object.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { percentDecode } from '../../protocol/wire.ts';
import { assertKey, header } from '../../request/parameters.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';
import { sourceConditions } from './conditions.ts';

export interface CopySource {
  readonly bucket: BucketRow;
  readonly row: ObjectRow;
  /** The access point of the source; the request's own access point belongs to the destination. */
  readonly accessPoint?: AccessPointRow | undefined;
  /** Present where the header names a version. */
  readonly versionId?: string | undefined;
}

interface NamedSource {
  /** Or the alias of an access point. */
  readonly bucket: string;
  /** Present where the source is the ARN of an access point. */
  readonly through?: { readonly account: string; readonly name: string };
  readonly key: string;
  readonly versionId?: string;
}

/** The account, access point and key in an ARN; undefined for another text. */
function accessPointSource(path: string): { account: string; name: string; key: string } | undefined {
  const [arn, partition = '', service, region = '', account = '', ...rest] = path.split(':');
  if (arn !== 'arn' || !/^aws[\w-]*$/.test(partition) || service !== 's3') return undefined;
  if (account === '' || `${region}${account}`.includes('/')) return undefined;
  const [, name = '', object, ...key] = rest
    .join(':')
    .replace(/^accesspoint:/, 'accesspoint/')
    .split('/');
  if (!/^accesspoint[/:]/.test(rest.join(':')) || name === '' || object !== 'object') return undefined;
  return key.join('/') === '' ? undefined : { account, name, key: key.join('/') };
}

/** @throws InvalidArgument: the address of the request itself is fine */
function decodeSource(encoded: string, raw: string): string {
  try {
    return percentDecode(encoded);
  } catch (cause) {
    throw fail('InvalidArgument', {
      message: 'Invalid copy source encoding.',
      elements: { ArgumentName: 'copy-source', ArgumentValue: raw },
      cause,
    });
  }
}

/**
 * `/bucket/key?versionId=id`, percent-encoded; the leading slash may be missing. Or
 * `arn:aws:s3:region:account:accesspoint/name/object/key`.
 */
export function parseCopySource(raw: string): NamedSource {
  const at = raw.indexOf('?versionId=');
  // The public service decodes this header like a form: a plus is a space.
  const encoded = (at < 0 ? raw : raw.slice(0, at)).replaceAll('+', ' ');
  const path = decodeSource(encoded, raw).replace(/^\//, '');
  const version = at < 0 ? {} : { versionId: decodeSource(raw.slice(at + '?versionId='.length), raw) };
  const through = accessPointSource(path);
  if (through !== undefined) {
    const { account, name, key } = through;
    assertKey(key);
    return { bucket: '', through: { account, name }, key, ...version };
  }
  const slash = path.indexOf('/');
  if (slash <= 0 || slash === path.length - 1) {
    throw fail('InvalidArgument', {
      message: 'Copy Source must mention the source bucket and key: sourcebucket/sourcekey',
      elements: { ArgumentName: 'copy-source', ArgumentValue: raw },
    });
  }
  const source = { bucket: path.slice(0, slash), key: path.slice(slash + 1) };
  assertKey(source.key);
  return { ...source, ...version };
}

/** Finds the source and checks the caller's right to it and the conditions on it. */
export async function openCopySource(ctx: Context, request: Authorized): Promise<CopySource> {
  const source = parseCopySource(header(request, 'copy-source') ?? '');
  const { bucket, accessPoint } =
    source.through === undefined
      ? await reach(ctx, source.bucket, { isHost: false })
      : await reachThrough(ctx, source.through);
  const asker = { ...request, accessPoint };
  const expectedOwner = header(request, 'source-expected-bucket-owner');
  if (expectedOwner !== undefined && expectedOwner !== bucket.owner) throw fail('AccessDenied');
  await isCharged(ctx, request, bucket);
  const found = await lookUpVersion(ctx, bucket, source);
  const { versionId } = source;
  const about = aboutSource({ bucket, versionId }, { key: source.key, target: found });
  const action = versionId === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  const isAbsent = found === undefined || (found.marker && versionId === undefined);
  if (isAbsent && (await mayKnowAbsence(ctx, asker, { ...about, action }))) assertObject(found, source);
  await authorize(ctx, asker, { ...about, action });
  if (isAbsent) await assertMayKnow(ctx, asker, about);
  if (found?.marker && versionId !== undefined)
    throw fail(
      'InvalidRequest',
      'The source of a copy request may not specifically refer to a delete marker by version id.',
    );
  const row = assertObject(found, source);
  const conditions = sourceConditions(request);
  if (conditions !== undefined) checkCopySource(conditions, row);
  assertReadable(ctx, row, "Operation is not valid for the source object's storage class");
  return { bucket, row, accessPoint, versionId };
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
