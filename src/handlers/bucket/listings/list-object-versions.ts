/** ListObjectVersions: versions and delete markers interleaved, newest first. */

import type { Context } from '../../../context.ts';
import { everyVersion, type VersionStart } from '../../../domain/listings/listed-versions.ts';
import { type Grouping, readPage, startBehind } from '../../../domain/listings/listing.ts';
import { shownVersion } from '../../../domain/objects/read-object.ts';
import { isVersionId } from '../../../domain/objects/version-ids.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import { findVersion, type ListedVersionRow } from '../../../metadata/objects/objects.ts';
import { headSlot } from '../../../metadata/tables.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';
import { listVersionsResult } from '../../../protocol/schemas/object/listing.ts';
import { positionIn } from '../../common/key.ts';
import type { OwnerOf } from '../../common/owners.ts';
import { xmlReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';
import {
  chooseEncoder,
  commonFields,
  describeListed,
  readGrouping,
  readOwners,
  toCommonPrefixes,
} from './list-objects.ts';
import { type RestoreStatus, restoreStatusFor } from './restore-status.ts';

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

interface Shown {
  readonly encode: (text: string) => string;
  readonly restoreStatus: RestoreStatus;
  readonly ownerOf: OwnerOf;
}

function versionEntry(row: ListedVersionRow, { encode, restoreStatus, ownerOf }: Shown) {
  const shared = {
    Key: encode(row.key),
    VersionId: shownVersion(row),
    IsLatest: row.slot === headSlot,
    Owner: ownerOf(row),
  };
  return row.marker
    ? { DeleteMarker: { ...shared, LastModified: isoTime(row.modified) } }
    : { Version: { ...shared, ...describeListed(row), ...restoreStatus(row) } };
}
