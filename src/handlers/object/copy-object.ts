/** CopyObject: a new object from the bytes of another; chunks are never shared. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import { bucketEncryption } from '../../domain/configurations/families.ts';
import { drawObjectKey } from '../../domain/content/wrapped-key.ts';
import { writeObject } from '../../domain/objects/write-object.ts';
import { headSlot, type ObjectHeaders } from '../../metadata/tables.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { copyObjectResult } from '../../protocol/schemas/object.ts';
import { parseAlgorithm } from '../../request/body.ts';
import { defined, header, readChoice } from '../../request/parameters.ts';
import { type AuthorizedInBucket, establish } from '../../request/request.ts';
import { readAccess } from '../common/acl.ts';
import { type HandlerOf, xmlReply } from '../handler.ts';
import { writeConditions } from './conditions.ts';
import {
  assertCopySize,
  assertMayCopyTags,
  type CopySource,
  openCopySource,
  readCopied,
  sourceHeaders,
} from './copy-source.ts';
import { openSourceKey, requestedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import {
  expirationHeaders,
  hasLifecycle,
  quoted,
  readLock,
  readObjectHeaders,
  readStorageClass,
  toChecksumFields,
  writtenVersionHeader,
} from './object-headers.ts';

export const CopyObject: HandlerOf<'CopyObject'> = async (ctx, request) => {
  const { bucket, key, record, requestId, signal } = request;
  const source = await openCopySource(ctx, request);
  const { row } = source;
  assertCopySize(row.size);
  const directives = {
    metadata: readChoice(request, 'metadata-directive', directiveNames) ?? 'COPY',
    tagging: readChoice(request, 'tagging-directive', directiveNames) ?? 'COPY',
  };
  // There are no annotations to copy, so both have the same effect.
  readChoice(request, 'object-annotation-directive', ['COPY', 'EXCLUDE']);
  refuseNoChange(request, source, directives);
  if (directives.tagging === 'COPY') await assertMayCopyTags(ctx, request, source);
  const sourceKey = await openSourceKey(ctx, request, source);
  const algorithm =
    parseAlgorithm(header(request, 'checksum-algorithm'), 'checksum-algorithm') ?? row.checksum?.algorithm;
  const access = await readAccess(ctx, request);
  const written = await writeObject(
    ctx,
    {
      bucket,
      key,
      storageClass: readStorageClass(request),
      headers: copiedHeaders(readObjectHeaders(request), row.headers, directives),
      lock: readLock(ctx, request),
      ...access,
      conditions: await writeConditions(ctx, request),
      copiesItself: source.bucket.id === bucket.id && row.key === key,
      record,
      objectKey: await drawObjectKey(ctx, request, {
        requested: requestedEncryption(ctx, request),
        user: openKeyUser(ctx, request),
      }),
      requestId,
      signal,
    },
    {
      source:
        row.size === 0
          ? empty()
          : readCopied(ctx, request, {
              row,
              slice: { start: 0, end: row.size - 1 },
              objectKey: sourceKey,
              account: source.bucket.owner,
            }),
      length: row.size,
      claims: defined({ checksum: algorithm && { algorithm, value: () => undefined } }),
    },
  );
  establish(request, { composedSize: written.row.size });
  const headers: HeaderPair[] = [
    ...writtenEncryptionHeaders(written.row.encryption),
    ...writtenVersionHeader(written.row),
    ...sourceHeaders(request, source),
  ];
  if (hasLifecycle(bucket)) headers.push(...(await expirationHeaders(ctx, bucket, written.row)));
  const { etag, modified, checksum } = written.row;
  const result = {
    LastModified: isoTime(modified),
    ETag: quoted(etag),
    ...toChecksumFields(checksum),
  };
  return xmlReply(copyObjectResult, 'CopyObjectResult', result, headers);
};

async function* empty(): AsyncGenerator<Uint8Array> {}

const directiveNames = ['COPY', 'REPLACE'] as const;
type Directive = (typeof directiveNames)[number];
interface Directives {
  readonly metadata: Directive;
  readonly tagging: Directive;
}

function copiedHeaders(input: ObjectHeaders, source: ObjectHeaders, directives: Directives): ObjectHeaders {
  const described = directives.metadata === 'REPLACE' ? input : source;
  // A redirect is never copied: it is the new object's own (public API).
  const { 'website-redirect-location': _, ...retained } = described.system ?? {};
  const redirect = input.system?.['website-redirect-location'];
  const system = redirect === undefined ? retained : { ...retained, 'website-redirect-location': redirect };
  const tags = directives.tagging === 'REPLACE' ? input.tags : source.tags;
  return defined({
    system: Object.keys(system).length > 0 ? system : undefined,
    user: described.user,
    tags,
  });
}

const changing = [
  'storage-class',
  'website-redirect-location',
  'server-side-encryption',
  'server-side-encryption-customer-algorithm',
];

/** A copy of the current version onto itself must change something (public API). */
function refuseNoChange(request: AuthorizedInBucket, source: CopySource, directives: Directives): void {
  const { row } = source;
  const isSelf = source.bucket.id === request.bucket.id && row.key === request.key && row.slot === headSlot;
  // The copy is encrypted as the bucket says now; a restored copy becomes an object of its own.
  const changes =
    changing.some((name) => header(request, name) !== undefined) ||
    bucketEncryption.name in request.bucket.documents ||
    (row.encryption !== undefined && row.encryption.by !== 'service') ||
    row.restore !== undefined;
  if (!isSelf || changes || directives.metadata === 'REPLACE' || directives.tagging === 'REPLACE') return;
  throw fail(
    'InvalidRequest',
    "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
  );
}
