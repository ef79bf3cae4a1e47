/** ListObjects and ListObjectsV2. */

import type { Context } from '../../../context.ts';
import { liveObjects } from '../../../domain/listings/listed-objects.ts';
import { type Entry, type Grouping, readPage, startBehind } from '../../../domain/listings/listing.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { ListedRow } from '../../../metadata/objects/objects.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';
import {
  type ListedObject,
  listObjectsResult,
  listObjectsV2Result,
} from '../../../protocol/schemas/object/listing.ts';
import { readToken, writeToken } from '../../common/continuation-token.ts';
import { positionIn } from '../../common/key.ts';
import { type OwnerOf, objectOwners } from '../../common/owners.ts';
import { isUrlEncoded, readCount, urlEncode } from '../../common/parameters.ts';
import { xmlReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';
import { type RestoreStatus, restoreStatusFor } from './restore-status.ts';

/** Entries on one page (public API). */
export const pageMax = 1000;

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

export const chooseEncoder = (request: AuthorizedInBucket): ((text: string) => string) =>
  isUrlEncoded(request.query) ? urlEncode : (text) => text;

/** Prefix, delimiter and page size of any listing. */
export function readGrouping({ query }: AuthorizedInBucket, limitName: string): Grouping {
  const prefix = positionIn(query, 'prefix');
  const delimiter = positionIn(query, 'delimiter');
  return { prefix, delimiter, limit: readCount(query, limitName, { fallback: pageMax, max: pageMax }) };
}

export function commonFields(
  { query }: AuthorizedInBucket,
  grouping: Grouping,
  encode: (text: string) => string,
) {
  return {
    MaxKeys: grouping.limit,
    ...(grouping.delimiter === '' ? {} : { Delimiter: encode(grouping.delimiter) }),
    ...(isUrlEncoded(query) ? { EncodingType: 'url' as const } : {}),
  };
}

const nameOf = (entry: Entry<ListedRow>): string => ('row' in entry ? entry.row.key : entry.commonPrefix);

interface Shown {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf | undefined;
}

function toContents(
  entries: readonly Entry<ListedRow>[],
  { encode, restoreStatus, ownerOf }: Shown,
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

export const readOwners = (
  ctx: Context,
  { bucket }: AuthorizedInBucket,
  entries: readonly Entry<ListedRow>[],
): Promise<OwnerOf> =>
  objectOwners(
    ctx,
    bucket,
    entries.flatMap((entry) => ('row' in entry ? [entry.row] : [])),
  );

export const describeListed = ({ modified, etag, checksum, size, storageClass }: ListedRow) => ({
  LastModified: isoTime(modified),
  ETag: etag,
  ChecksumAlgorithm: checksum === undefined ? [] : [checksum.algorithm],
  ...(checksum && { ChecksumType: checksum.type }),
  Size: size,
  StorageClass: storageClass,
});

export const toCommonPrefixes = (entries: readonly Entry<unknown>[], encode: (text: string) => string) =>
  entries.flatMap((entry) => ('row' in entry ? [] : [{ Prefix: encode(entry.commonPrefix) }]));
