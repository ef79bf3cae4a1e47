/** ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads and ListParts. */
import { invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { formatVersionId, isUploadId, isVersionId } from '../../domain/common/ids.ts';
import {
  type Entry,
  everyVersion,
  type Grouping,
  type Listed,
  liveObjects,
  readPage,
  startBehind,
  type VersionStart,
} from '../../domain/common/listed-rows.ts';
import { contentSize } from '../../domain/content/segments.ts';
import { assertUploadKey } from '../../domain/content/wrapped-key.ts';
import { restoredUntil } from '../../domain/objects/read-object.ts';
import { openUploading } from '../../domain/uploads/upload-session.ts';
import {
  findVersion,
  type ListedRow,
  type ListedVersionRow,
  prefixRange,
} from '../../metadata/objects/objects.ts';
import { scanParts, uploadsIn } from '../../metadata/objects/uploads.ts';
import { headSlot, type ObjectRow, type UploadIndexRow, type uploadIndex } from '../../metadata/tables.ts';
import type { Cursor } from '../../ports/metadata-store.ts';
import { type Infer, xmlKey } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { type checksumAlgorithm, type checksumType, listingPageMax } from '../../protocol/schemas/common.ts';
import {
  type ListedObject,
  listObjectsResult,
  listObjectsV2Result,
  listVersionsResult,
} from '../../protocol/schemas/listing.ts';
import {
  type ListPartsResult,
  listMultipartUploadsResult,
  listPartsResult,
} from '../../protocol/schemas/multipart.ts';
import {
  defined,
  header,
  isUrlEncoded,
  positionIn,
  readCount,
  readToken,
  readUploadName,
  urlEncode,
  writeToken,
} from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { type Names, namedOwner, type OwnerOf, objectOwners, ownerNames } from '../common/acl.ts';
import { type HandlerOf, xmlReply } from '../handler.ts';
import { readCustomerKey } from '../object/encryption-headers.ts';
import { abortHeaders, hasLifecycle, partChecksumFields, quoted } from '../object/object-headers.ts';

// ListObjects and ListObjectsV2.

export const ListObjects: HandlerOf<'ListObjects'> = async (ctx, request) => {
  const { query, bucket } = request;
  const marker = positionIn(query, 'marker');
  const { grouping, encode, restoreStatus, page } = await list(ctx, request, marker);
  const last = page.entries.at(-1);
  // The marker is the literal last entry of the page; without a delimiter clients take the last key.
  const next =
    page.isTruncated && grouping.delimiter !== '' && last !== undefined
      ? { NextMarker: encode(entryName(last)) }
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
      ? { NextContinuationToken: writeToken({ after: entryName(last) }) }
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

const entryName = (entry: Entry<ListedRow>): string => ('row' in entry ? entry.row.key : entry.commonPrefix);

interface ObjectEntry {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf | undefined;
}

function toContents(
  entries: readonly Entry<ListedRow>[],
  { encode, restoreStatus, ownerOf }: ObjectEntry,
): ListedObject[] {
  const contents: ListedObject[] = [];
  for (const entry of entries) {
    if (!('row' in entry)) continue;
    const { row } = entry;
    const described = describeListed(row, encode);
    const restore = restoreStatus(row);
    // Most rows are shown as they are described, without a copy.
    const isAll = restore === nothing && ownerOf === undefined;
    contents.push(isAll ? described : { ...described, ...restore, ...(ownerOf && { Owner: ownerOf(row) }) });
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

const noAlgorithm: ListedObject['ChecksumAlgorithm'] = [];

function describeListed(
  { key, modified, etag, checksum, size, storageClass }: ListedRow,
  encode: (text: string) => string,
): ListedObject {
  return {
    Key: encode(key),
    LastModified: isoTime(modified),
    ETag: etag,
    ChecksumAlgorithm: checksum === undefined ? noAlgorithm : [checksum.algorithm],
    // The cast: the writer leaves out what is undefined. Another object without it would double what each row of a page takes.
    ChecksumType: checksum?.type as 'FULL_OBJECT',
    Size: size,
    StorageClass: storageClass,
  };
}

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
    throw invalidArgument(
      'version-id-marker',
      VersionIdMarker,
      'A version-id marker cannot be specified without a key marker.',
    );
  }
  if (!isVersionId(VersionIdMarker)) {
    throw invalidArgument('version-id-marker', VersionIdMarker, 'Invalid version id specified');
  }
  const start = startBehind(KeyMarker, grouping);
  if ('from' in start) return start;
  if (VersionIdMarker !== 'null') return { key: KeyMarker, version: VersionIdMarker };
  // If the null version was removed meanwhile, skip the rest of the key.
  const found = await findVersion(ctx.metadata, bucket, KeyMarker, 'null');
  return found === undefined ? { after: KeyMarker } : { key: KeyMarker, version: found.row.version };
}

interface VersionEntry {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf;
}

function versionEntry(row: ListedVersionRow, { encode, restoreStatus, ownerOf }: VersionEntry) {
  const shared = {
    Key: encode(row.key),
    VersionId: formatVersionId(row),
    IsLatest: row.slot === headSlot,
    Owner: ownerOf(row),
  };
  return row.marker
    ? { DeleteMarker: { ...shared, LastModified: isoTime(row.modified) } }
    : { Version: { ...shared, ...describeListed(row, encode), ...restoreStatus(row) } };
}

// `RestoreStatus` of listed objects, if the request includes it (public API "optional-object-attributes").

type RestoreEntry = Pick<ListedObject, 'RestoreStatus'>;
type RestoreStatus = (row: Pick<ObjectRow, 'restore'>) => RestoreEntry;
const nothing: RestoreEntry = {};

/** @throws InvalidArgument for an attribute that the public API does not know */
function restoreStatusFor(ctx: Pick<Context, 'clock'>, request: AuthorizedInBucket): RestoreStatus {
  const raw = header(request, 'optional-object-attributes');
  if (raw === undefined) return () => nothing;
  if (raw.split(',').some((each) => each.trim() !== 'RestoreStatus')) {
    throw invalidArgument(
      'optional-object-attributes',
      raw,
      'Invalid attribute name specified: the optional attribute is RestoreStatus',
    );
  }
  return (row) => {
    const until = restoredUntil(ctx, row);
    if (until === undefined) return nothing;
    const RestoreExpiryDate = isoTime(until);
    return { RestoreStatus: { IsRestoreInProgress: false, RestoreExpiryDate } };
  };
}

// What all listings read from a request, and show of a page.

const chooseEncoder = (request: AuthorizedInBucket): ((text: string) => string) =>
  isUrlEncoded(request.query) ? urlEncode : (text) => text;

/** Prefix, delimiter and page size of any listing. */
function readGrouping({ query }: AuthorizedInBucket, limitName: string): Grouping {
  const prefix = positionIn(query, 'prefix');
  const delimiter = positionIn(query, 'delimiter');
  return {
    prefix,
    delimiter,
    limit: readCount(query, limitName, { fallback: listingPageMax, max: listingPageMax }),
  };
}

function toCommonPrefixes(entries: readonly Entry<unknown>[], encode: (text: string) => string) {
  const prefixes: { Prefix: string }[] = [];
  for (const entry of entries) if (!('row' in entry)) prefixes.push({ Prefix: encode(entry.commonPrefix) });
  return prefixes;
}

// ListMultipartUploads: the open sessions by key, then by age.

export const ListMultipartUploads: HandlerOf<'ListMultipartUploads'> = async (ctx, request) => {
  const { query, bucket } = request;
  const grouping = readGrouping(request, 'max-uploads');
  const encode = chooseEncoder(request);
  const KeyMarker = positionIn(query, 'key-marker');
  // The upload-id marker is ignored without a key marker (public API).
  const UploadIdMarker = KeyMarker === '' ? '' : readUploadIdMarker(request);
  const page = await readPage(openUploads(ctx, request, { grouping, KeyMarker, UploadIdMarker }), grouping);
  const last = page.isTruncated ? page.entries.at(-1) : undefined;
  const uploads = page.entries.flatMap((entry) => ('row' in entry ? [entry.row] : []));
  const accounts = uploads.flatMap(({ initiator, owner }) => [initiator, owner]);
  const names = await ownerNames(ctx, bucket, accounts);
  return xmlReply(listMultipartUploadsResult, 'ListMultipartUploadsResult', {
    Bucket: bucket.name,
    KeyMarker: encode(KeyMarker),
    UploadIdMarker,
    ...(last === undefined
      ? {}
      : 'row' in last
        ? { NextKeyMarker: encode(last.row.key), NextUploadIdMarker: last.row.uploadId }
        : { NextKeyMarker: encode(last.commonPrefix) }),
    Prefix: encode(grouping.prefix),
    ...(grouping.delimiter === '' ? {} : { Delimiter: encode(grouping.delimiter) }),
    ...(isUrlEncoded(query) ? { EncodingType: 'url' as const } : {}),
    MaxUploads: grouping.limit,
    IsTruncated: page.isTruncated,
    Upload: uploads.map((row) => describe(row, { encode, names })),
    CommonPrefixes: toCommonPrefixes(page.entries, encode),
  });
};

function readUploadIdMarker({ query }: AuthorizedInBucket): string {
  const raw = query.get('upload-id-marker') ?? '';
  if (raw === '' || isUploadId(raw)) return raw;
  throw invalidArgument('upload-id-marker', raw, 'Invalid uploadId marker');
}

interface Marker {
  readonly grouping: Grouping;
  readonly KeyMarker: string;
  readonly UploadIdMarker: string;
}

function openUploads(
  { metadata }: Context,
  { bucket }: AuthorizedInBucket,
  at: Marker,
): Listed<UploadIndexRow> {
  const cursor = metadata.scan(uploadsIn(bucket.id), prefixRange('key', at.grouping.prefix));
  if (at.KeyMarker !== '') begin(cursor, at);
  return {
    next: async (count) => (await cursor.next(count)).map(({ row }) => row),
    leap: (key) => cursor.seek({ key }),
    keyOf: (row) => row.key,
  };
}

function begin(cursor: Cursor<typeof uploadIndex>, { grouping, KeyMarker, UploadIdMarker }: Marker): void {
  const start = startBehind(KeyMarker, grouping);
  if ('from' in start) cursor.seek({ key: start.from });
  else if (UploadIdMarker === '') cursor.seek({ key: start.after }, { past: true });
  else cursor.seek({ key: KeyMarker, uploadId: UploadIdMarker }, { past: true });
}

interface Displayed {
  readonly encode: (text: string) => string;
  readonly names: Names;
}

const describe = (row: UploadIndexRow, { encode, names }: Displayed) => ({
  Key: encode(row.key),
  UploadId: row.uploadId,
  Initiator: namedOwner(names, row.initiator),
  Owner: namedOwner(names, row.owner),
  StorageClass: row.storageClass,
  Initiated: isoTime(row.initiated),
  ...(row.checksumAlgorithm === undefined
    ? {}
    : { ChecksumAlgorithm: row.checksumAlgorithm as Infer<typeof checksumAlgorithm> }),
  ...(row.checksumType === undefined ? {} : { ChecksumType: row.checksumType as Infer<typeof checksumType> }),
});

// ListParts.

export const ListParts: HandlerOf<'ListParts'> = async (ctx, request) => {
  const name = readUploadName(request);
  const { session } = (await openUploading(ctx, name)).row;
  assertUploadKey(session.encryption, readCustomerKey(ctx, request));
  const MaxParts = readCount(request.query, 'max-parts', { fallback: listingPageMax, max: listingPageMax });
  const PartNumberMarker = readCount(request.query, 'part-number-marker', { fallback: 0, max: 2 ** 31 - 1 });
  const found =
    MaxParts === 0 ? [] : await scanParts(ctx.metadata, name.uploadId, PartNumberMarker).next(MaxParts + 1);
  const page = found.slice(0, MaxParts);
  const last = page.at(-1)?.row.part;
  const names = await ownerNames(ctx, request.bucket, [session.initiator, session.owner]);
  const result: ListPartsResult = {
    Bucket: request.bucket.name,
    ...xmlKey(request.key),
    UploadId: name.uploadId,
    Initiator: namedOwner(names, session.initiator),
    Owner: namedOwner(names, session.owner),
    StorageClass: session.storageClass,
    ...defined({ ChecksumAlgorithm: session.checksumAlgorithm, ChecksumType: session.checksumType }),
    PartNumberMarker,
    NextPartNumberMarker: last ?? 0,
    MaxParts,
    IsTruncated: found.length > page.length,
    Part: page.flatMap(({ row: { part, stored } }) =>
      stored === undefined
        ? []
        : [
            {
              PartNumber: part,
              LastModified: isoTime(stored.modified),
              ETag: quoted(stored.etag),
              Size: contentSize(stored.extent, session.encryption),
              ...partChecksumFields(stored.checksum?.algorithm, stored.checksum?.value),
            },
          ],
    ),
  };
  const headers = hasLifecycle(request.bucket) ? await abortHeaders(ctx, request.bucket, session) : [];
  return xmlReply(listPartsResult, 'ListPartsResult', result, headers);
};
