/** ListObjects, ListObjectsV2 and ListObjectVersions. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { formatVersionId, isVersionId } from '../../domain/common/ids.ts';
import { everyVersion, liveObjects, type VersionStart } from '../../domain/listings/listed-versions.ts';
import { type Entry, type Grouping, readPage, startBehind } from '../../domain/listings/listing.ts';
import { restoredUntil } from '../../domain/objects/restore.ts';
import { findVersion, type ListedRow, type ListedVersionRow } from '../../metadata/objects/objects.ts';
import { headSlot, type ObjectRow } from '../../metadata/tables.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import {
  type ListedObject,
  listObjectsResult,
  listObjectsV2Result,
  listVersionsResult,
} from '../../protocol/schemas/listing.ts';
import { header } from '../../request/own-headers.ts';
import { isUrlEncoded, positionIn, readToken, writeToken } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { chooseEncoder, readGrouping, toCommonPrefixes } from '../common/listing.ts';
import { type OwnerOf, objectOwners } from '../common/owners.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

// ListObjects and ListObjectsV2.

export const ListObjects: HandlerOf<'ListObjects'> = async (ctx, request) => {
  const { query, bucket } = request;
  const marker = positionIn(query, 'marker');
  const { grouping, encode, restoreStatus, page } = await list(ctx, request, marker);
  const last = page.entries.at(-1);
  // The marker is the literal last entry of the page; without a delimiter clients take the last key.
  const next =
    page.isTruncated && grouping.delimiter !== '' && last !== undefined
      ? { NextMarker: encode(nameOf(last)) }
      : {};
  return xmlReply(listObjectsResult, 'ListBucketResult', {
    Name: bucket.name,
    Prefix: encode(grouping.prefix),
    Marker: encode(marker),
    ...next,
    ...commonFields(request, grouping, encode),
    IsTruncated: page.isTruncated,
    Contents: toContents(page.entries, {
      encode,
      restoreStatus,
      ownerOf: await readOwners(ctx, request, page.entries),
    }),
    CommonPrefixes: toCommonPrefixes(page.entries, encode),
  });
};

export const ListObjectsV2: HandlerOf<'ListObjectsV2'> = async (ctx, request) => {
  const { query, bucket } = request;
  const rawToken = query.get('continuation-token');
  const startAfter = positionIn(query, 'start-after');
  const { grouping, encode, restoreStatus, page } = await list(
    ctx,
    request,
    readToken(rawToken)?.after ?? startAfter,
  );
  const last = page.entries.at(-1);
  const isOwnerAsked = query.get('fetch-owner') === 'true';
  const ownerOf = isOwnerAsked ? await readOwners(ctx, request, page.entries) : undefined;
  return xmlReply(listObjectsV2Result, 'ListBucketResult', {
    Name: bucket.name,
    Prefix: encode(grouping.prefix),
    ...(startAfter === '' ? {} : { StartAfter: encode(startAfter) }),
    ...(rawToken === undefined ? {} : { ContinuationToken: rawToken }),
    ...(page.isTruncated && last !== undefined
      ? { NextContinuationToken: writeToken({ after: nameOf(last) }) }
      : {}),
    KeyCount: page.entries.length,
    ...commonFields(request, grouping, encode),
    IsTruncated: page.isTruncated,
    Contents: toContents(page.entries, { encode, restoreStatus, ownerOf }),
    CommonPrefixes: toCommonPrefixes(page.entries, encode),
  });
};

async function list(ctx: Context, request: AuthorizedInBucket, marker: string) {
  const grouping = readGrouping(request, 'max-keys');
  const encode = chooseEncoder(request);
  const restoreStatus = restoreStatusFor(ctx, request);
  const start = marker === '' ? undefined : startBehind(marker, grouping);
  const page = await readPage(liveObjects(ctx, request.bucket, { prefix: grouping.prefix, start }), grouping);
  return { grouping, encode, restoreStatus, page };
}

function commonFields({ query }: AuthorizedInBucket, grouping: Grouping, encode: (text: string) => string) {
  return {
    MaxKeys: grouping.limit,
    ...(grouping.delimiter === '' ? {} : { Delimiter: encode(grouping.delimiter) }),
    ...(isUrlEncoded(query) ? { EncodingType: 'url' as const } : {}),
  };
}

const nameOf = (entry: Entry<ListedRow>): string => ('row' in entry ? entry.row.key : entry.commonPrefix);

interface ShownObject {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf | undefined;
}

function toContents(
  entries: readonly Entry<ListedRow>[],
  { encode, restoreStatus, ownerOf }: ShownObject,
): ListedObject[] {
  const contents: ListedObject[] = [];
  for (const entry of entries) {
    if (!('row' in entry)) continue;
    const { row } = entry;
    contents.push({
      Key: encode(row.key),
      ...describeListed(row),
      ...restoreStatus(row),
      ...(ownerOf && { Owner: ownerOf(row) }),
    });
  }
  return contents;
}

const readOwners = (
  ctx: Context,
  { bucket }: AuthorizedInBucket,
  entries: readonly Entry<ListedRow>[],
): Promise<OwnerOf> =>
  objectOwners(
    ctx,
    bucket,
    entries.flatMap((entry) => ('row' in entry ? [entry.row] : [])),
  );

const describeListed = ({ modified, etag, checksum, size, storageClass }: ListedRow) => ({
  LastModified: isoTime(modified),
  ETag: etag,
  ChecksumAlgorithm: checksum === undefined ? [] : [checksum.algorithm],
  ...(checksum && { ChecksumType: checksum.type }),
  Size: size,
  StorageClass: storageClass,
});

// ListObjectVersions: versions and delete markers interleaved, newest first.

export const ListObjectVersions: HandlerOf<'ListObjectVersions'> = async (ctx, request) => {
  const { query, bucket } = request;
  const grouping = readGrouping(request, 'max-keys');
  const encode = chooseEncoder(request);
  const restoreStatus = restoreStatusFor(ctx, request);
  const KeyMarker = positionIn(query, 'key-marker');
  const VersionIdMarker = query.get('version-id-marker') ?? '';
  const start = await readStart(ctx, request, { grouping, KeyMarker, VersionIdMarker });
  const page = await readPage(everyVersion(ctx, bucket, { prefix: grouping.prefix, start }), grouping);
  const last = page.isTruncated ? page.entries.at(-1) : undefined;
  // Use the null version's own id, so that the next page can find its place even after the version has moved.
  const next =
    last === undefined
      ? {}
      : 'row' in last
        ? { NextKeyMarker: encode(last.row.key), NextVersionIdMarker: last.row.version }
        : { NextKeyMarker: encode(last.commonPrefix) };
  const ownerOf = await readOwners(ctx, request, page.entries);
  return xmlReply(listVersionsResult, 'ListVersionsResult', {
    Name: bucket.name,
    Prefix: encode(grouping.prefix),
    KeyMarker: encode(KeyMarker),
    VersionIdMarker,
    ...next,
    ...commonFields(request, grouping, encode),
    IsTruncated: page.isTruncated,
    entries: page.entries.flatMap((entry) =>
      'row' in entry ? [versionEntry(entry.row, { encode, restoreStatus, ownerOf })] : [],
    ),
    CommonPrefixes: toCommonPrefixes(page.entries, encode),
  });
};

async function readStart(
  ctx: Context,
  { bucket }: AuthorizedInBucket,
  {
    grouping,
    KeyMarker,
    VersionIdMarker,
  }: { readonly grouping: Grouping; readonly KeyMarker: string; readonly VersionIdMarker: string },
): Promise<VersionStart> {
  if (VersionIdMarker === '') return KeyMarker === '' ? undefined : startBehind(KeyMarker, grouping);
  if (KeyMarker === '') {
    throw fail('InvalidArgument', {
      message: 'A version-id marker cannot be specified without a key marker.',
      elements: { ArgumentName: 'version-id-marker', ArgumentValue: VersionIdMarker },
    });
  }
  if (!isVersionId(VersionIdMarker)) {
    throw fail('InvalidArgument', {
      message: 'Invalid version id specified',
      elements: { ArgumentName: 'version-id-marker', ArgumentValue: VersionIdMarker },
    });
  }
  if (VersionIdMarker !== 'null') return { key: KeyMarker, version: VersionIdMarker };
  // If the null version was removed meanwhile, skip the rest of the key.
  const found = await findVersion(ctx.metadata, bucket, KeyMarker, 'null');
  return found === undefined ? { after: KeyMarker } : { key: KeyMarker, version: found.row.version };
}

interface ShownVersion {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf;
}

function versionEntry(row: ListedVersionRow, { encode, restoreStatus, ownerOf }: ShownVersion) {
  const shared = {
    Key: encode(row.key),
    VersionId: formatVersionId(row),
    IsLatest: row.slot === headSlot,
    Owner: ownerOf(row),
  };
  return row.marker
    ? { DeleteMarker: { ...shared, LastModified: isoTime(row.modified) } }
    : { Version: { ...shared, ...describeListed(row), ...restoreStatus(row) } };
}

// `RestoreStatus` of listed objects, if the request includes it (public API "optional-object-attributes").

type ShownRestore = Pick<ListedObject, 'RestoreStatus'>;
type RestoreStatus = (row: Pick<ObjectRow, 'restore'>) => ShownRestore;
const nothing: ShownRestore = {};

/** @throws InvalidArgument for an attribute that the public API does not know */
function restoreStatusFor(ctx: Pick<Context, 'clock'>, request: AuthorizedInBucket): RestoreStatus {
  const raw = header(request, 'optional-object-attributes');
  if (raw === undefined) return () => nothing;
  if (raw.split(',').some((each) => each.trim() !== 'RestoreStatus')) {
    throw fail('InvalidArgument', {
      message: 'Invalid attribute name specified: the optional attribute is RestoreStatus',
      elements: { ArgumentName: 'optional-object-attributes', ArgumentValue: raw },
    });
  }
  return (row) => {
    const until = restoredUntil(ctx, row);
    if (until === undefined) return nothing;
    const RestoreExpiryDate = isoTime(until);
    return { RestoreStatus: { IsRestoreInProgress: false, RestoreExpiryDate } };
  };
}
