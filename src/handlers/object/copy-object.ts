/** CopyObject (spec "CopyObject"): a new object from the bytes of another; chunks are never shared. */
import { keyUserOf } from '../../auth/key-user.ts';
import { drawObjectKey } from '../../domain/encryption/object-key.ts';
import { readObject, shownVersion } from '../../domain/read-object.ts';
import { contentMax } from '../../domain/store-bytes.ts';
import { writeObject } from '../../domain/write-object.ts';
import { fail } from '../../errors/refusal.ts';
import { headSlot, type ObjectHeaders } from '../../metadata/tables.ts';
import { copyObjectResult } from '../../protocol/schemas/copy.ts';
import { type BucketCall, type HandlerOf, type HeaderPair, header } from '../call.ts';
import { algorithmOf } from '../claims.ts';
import { defined } from '../parameters.ts';
import { xmlReply } from '../xml-reply.ts';
import { accessOf } from './acl.ts';
import { checksumFieldsOf } from './checksum-fields.ts';
import { writeConditions } from './conditions.ts';
import { sourceKeyOf } from './content-key.ts';
import { assertMayCopyTags, type CopySource, openCopySource } from './copy-source.ts';
import { wantedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import { expirationHeaders, hasLifecycle } from './expiration.ts';
import { lockOf } from './lock-headers.ts';
import { objectHeadersOf, quoted, writtenVersionHeader } from './object-headers.ts';
import { storageClassOf } from './storage-class.ts';

export const CopyObject: HandlerOf<'CopyObject'> = async (ctx, call) => {
  const { bucket, key, record, requestId, signal } = call;
  const source = await openCopySource(ctx, call);
  const { row } = source;
  if (row.size > contentMax) {
    throw fail(
      'InvalidRequest',
      'The specified copy source is larger than the maximum allowable size for a copy source: 5368709120',
    );
  }
  const directives = {
    metadata: directive(call, 'metadata-directive'),
    tagging: directive(call, 'tagging-directive'),
  };
  refuseNoChange(call, source, directives);
  if (directives.tagging === 'COPY') await assertMayCopyTags(ctx, call, source);
  const sourceKey = await sourceKeyOf(ctx, call, source);
  const algorithm =
    algorithmOf(header(call, 'checksum-algorithm'), 'checksum-algorithm') ?? row.checksum?.algorithm;
  const access = await accessOf(ctx, call);
  const written = await writeObject(
    ctx,
    {
      bucket,
      key,
      storageClass: storageClassOf(call),
      headers: copiedHeaders(objectHeadersOf(call), row.headers, directives),
      lock: lockOf(ctx, call),
      ...access,
      conditions: writeConditions(call),
      copiesItself: source.bucket.id === bucket.id && row.key === key,
      record,
      objectKey: await drawObjectKey(ctx, call, {
        wanted: wantedEncryption(ctx, call),
        user: keyUserOf(ctx, call),
      }),
      requestId,
      signal,
    },
    {
      source:
        row.size === 0
          ? empty()
          : readObject(ctx, row, { start: 0, end: row.size - 1 }, { objectKey: sourceKey, signal }),
      length: row.size,
      claims: defined({ checksum: algorithm && { algorithm, value: () => undefined } }),
    },
  );
  const headers: HeaderPair[] = [
    ...writtenEncryptionHeaders(written.row.encryption),
    ...writtenVersionHeader(written.row),
  ];
  if (source.bucket.versioning !== '') headers.push(['*-copy-source-version-id', shownVersion(row)]);
  if (hasLifecycle(bucket)) headers.push(...(await expirationHeaders(ctx, bucket, written.row)));
  const { etag, modified, checksum } = written.row;
  const result = {
    LastModified: new Date(modified).toISOString(),
    ETag: quoted(etag),
    ...checksumFieldsOf(checksum),
  };
  return xmlReply(copyObjectResult, 'CopyObjectResult', result, headers);
};

async function* empty(): AsyncGenerator<Uint8Array> {}

type Directive = 'COPY' | 'REPLACE';
interface Directives {
  readonly metadata: Directive;
  readonly tagging: Directive;
}

function directive(call: BucketCall, name: string): Directive {
  const raw = header(call, name);
  if (raw === undefined || raw === 'COPY') return 'COPY';
  if (raw === 'REPLACE') return raw;
  throw fail('InvalidArgument', {
    message: `Unknown ${name}: it is COPY or REPLACE`,
    elements: { ArgumentName: name, ArgumentValue: raw },
  });
}

function copiedHeaders(given: ObjectHeaders, source: ObjectHeaders, directives: Directives): ObjectHeaders {
  const described = directives.metadata === 'REPLACE' ? given : source;
  // A redirect is never copied: it is the new object's own (public API).
  const { 'website-redirect-location': _, ...kept } = described.system ?? {};
  const redirect = given.system?.['website-redirect-location'];
  const system = redirect === undefined ? kept : { ...kept, 'website-redirect-location': redirect };
  const tags = directives.tagging === 'REPLACE' ? given.tags : source.tags;
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
function refuseNoChange(call: BucketCall, source: CopySource, directives: Directives): void {
  const { row } = source;
  const isSelf = source.bucket.id === call.bucket.id && row.key === call.key && row.slot === headSlot;
  const changes = changing.some((name) => header(call, name) !== undefined);
  if (!isSelf || changes || directives.metadata === 'REPLACE' || directives.tagging === 'REPLACE') return;
  throw fail(
    'InvalidRequest',
    "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
  );
}
