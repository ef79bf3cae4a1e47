/** The requests by which another site brings its versions: ReplicateObject, ReplicateUpload, ReplicateState, ReplicateDelete. */
import { authorize } from '../../auth/authorize.ts';
import { assertAccountMayUse, openKeyUser } from '../../auth/session/key-user.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { isPlainAcl } from '../../domain/access/acl.ts';
import { acceptAcl, type ObjectAccess, readOwnership } from '../../domain/access/object-ownership.ts';
import { findKey } from '../../domain/content/provider-key.ts';
import type { RequestedEncryption } from '../../domain/content/requested-encryption.ts';
import { drawObjectKey } from '../../domain/content/wrapped-key.ts';
import {
  assertReceivable,
  type CommittedReplica,
  effectsOfNew,
  type Replica,
  type ReplicaEffects,
  type ReplicaOutcome,
  removeReplica,
} from '../../domain/objects/commit-replica.ts';
import { reserveReplica, writeReplica, writeReplicaState } from '../../domain/objects/write-replica.ts';
import { withReservation } from '../../domain/quotas/reservation.ts';
import { createUpload } from '../../domain/uploads/upload-session.ts';
import { type ReplicaDocument, replicaDocumentMax } from '../../metadata/objects/properties.ts';
import { withoutTombstone } from '../../metadata/objects/removed-versions.ts';
import { findSite } from '../../metadata/site.ts';
import { checkColumns, type ObjectHeaders } from '../../metadata/tables.ts';
import { findStorageClassName } from '../../ports/storage-classes.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { initiateMultipartUploadResult } from '../../protocol/schemas/multipart.ts';
import { readReplica } from '../../protocol/schemas/replica.ts';
import { findMemoryHolder, readClaims } from '../../request/body.ts';
import { checkTagging, defined, header } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';
import { assertMayHave } from './implied-actions.ts';
import { checkStoredHeaders, quoted, writtenVersionHeader } from './object-headers.ts';

const outcomeHeaders = async (ctx: Context, outcome: ReplicaOutcome): Promise<readonly HeaderPair[]> => [
  ['*-replica-outcome', outcome],
  ['*-replica-site', await findSite(ctx)],
];

const replicaReply = async (ctx: Context, { outcome, row }: CommittedReplica) =>
  emptyReply(200, [
    ...(await outcomeHeaders(ctx, outcome)),
    ...(row.marker ? [] : [['ETag', quoted(row.etag)] as const]),
    ...writtenVersionHeader(row),
  ]);

export const ReplicateObject: HandlerOf<'ReplicateObject'> = async (ctx, request) => {
  const version = readReplicaId(request, 'replica');
  assertNoClaims(request);
  const { document: bytes, source, length } = await splitBody(ctx, request);
  const document = readDocument(bytes, version);
  if (document.marker)
    throw fail('InvalidArgument', 'A delete marker has no content: send its document to ?replica-state.');
  const replica = await toReplica(ctx, request, document);
  await forgetRemoval(ctx, replica, request);
  const write = {
    ...replica,
    objectKey: await drawReplicaKey(ctx, request, document),
    signal: request.signal,
  };
  return replicaReply(ctx, await writeReplica(ctx, write, { source, length }));
};

/** With `replica-restore: true` a version comes back although this site has removed it permanently. */
async function forgetRemoval(ctx: Context, replica: Replica, request: AuthorizedInBucket): Promise<void> {
  if (header(request, 'replica-restore') !== 'true') return;
  const { bucket, key, document } = replica;
  await replica.assertMay({ effects: await effectsOfNew(ctx, replica) });
  await ctx.metadata.apply([withoutTombstone({ bucketId: bucket.id, key, version: document.version })]);
}

/** Such headers would be about document and content together. */
function assertNoClaims(request: AuthorizedInBucket): void {
  const { md5, checksum } = readClaims(request);
  if (md5 === undefined && checksum === undefined) return;
  throw fail(
    'InvalidRequest',
    'The digests of a replica are in its document: send neither content-md5 nor a checksum.',
  );
}

/** The key must be one of the account of the bucket too: the site that sends acts for an account that named the key in its rule. */
async function drawReplicaKey(ctx: Context, request: AuthorizedInBucket, document: ReplicaDocument) {
  const requested = requestedReplicaEncryption(document);
  const user = openKeyUser(ctx, request);
  if (requested.by === 'provider' && requested.keyId !== undefined)
    assertAccountMayUse(ctx, request, {
      ...(await findKey(ctx, { name: requested.keyId, account: user.account })),
      named: requested.keyId,
    });
  return drawObjectKey(ctx, request, { requested, user });
}

export const ReplicateUpload: HandlerOf<'ReplicateUpload'> = async (ctx, request) => {
  const { bucket, key, record, requestId, identity } = request;
  const document = readDocument(request.body, readReplicaId(request, 'replica'));
  if (document.marker) throw fail('InvalidArgument', 'A delete marker has no parts.');
  assertReceivable(ctx, bucket, document);
  const replica = await toReplica(ctx, request, document);
  await replica.assertMay({ effects: await effectsOfNew(ctx, replica) });
  await forgetRemoval(ctx, replica, request);
  // Its completion reserves the room; without any now, its parts are not sent in vain.
  await withReservation(ctx, (reservation) => reserveReplica(ctx, { bucket, key, document }, reservation));
  const { owner, acl } = replica;
  const { storageClass, headers, checksum, lock } = document;
  const objectKey = await drawReplicaKey(ctx, request, document);
  const { uploadId } = await createUpload(ctx, {
    ...{ bucket, key, record, requestId, storageClass, headers, owner },
    initiator: identity?.owner ?? bucket.owner,
    replica: document,
    ...defined({
      acl,
      lock,
      checksumAlgorithm: checksum?.algorithm,
      checksumType: checksum?.type,
      encryption: objectKey?.encryption,
    }),
  });
  return xmlReply(
    initiateMultipartUploadResult,
    'InitiateMultipartUploadResult',
    { Bucket: bucket.name, Key: key, UploadId: uploadId },
    [['*-replica-site', await findSite(ctx)]],
  );
};

export const ReplicateState: HandlerOf<'ReplicateState'> = async (ctx, request) => {
  const document = readDocument(request.body, readReplicaId(request, 'replica-state'));
  await assertMayReplicate(ctx, request, document.marker ? 's3:ReplicateDelete' : 's3:ReplicateTags');
  const replica = await toReplica(ctx, request, document);
  await forgetRemoval(ctx, replica, request);
  return replicaReply(ctx, await writeReplicaState(ctx, replica));
};

export const ReplicateDelete: HandlerOf<'ReplicateDelete'> = async (ctx, request) => {
  const { bucket, key, record, requestId } = request;
  const version = readReplicaId(request, 'replica');
  await assertMayHave(ctx, request, { effects: ['removal'], version });
  const wasThere = await removeReplica(ctx, { bucket, key, version, record, requestId });
  return emptyReply(204, await outcomeHeaders(ctx, wasThere ? 'stored' : 'present'));
};

// The body of ReplicateObject: a document, then the content of the version.

interface SplitBody {
  readonly document: Uint8Array;
  readonly source: AsyncIterable<Uint8Array>;
  /** Of the content; undefined when the request does not state it. */
  readonly length: number | undefined;
}

const lengthHeader = 'replica-document-length';

function readDocumentLength(request: AuthorizedInBucket): number {
  const raw = header(request, lengthHeader) ?? '';
  const length = /^\d{1,7}$/.test(raw) ? Number(raw) : 0;
  if (length > 0 && length <= replicaDocumentMax) return length;
  throw invalidArgument(
    lengthHeader,
    raw.slice(0, 64),
    `${lengthHeader} must be the length of the document in bytes, 1 to ${replicaDocumentMax}.`,
  );
}

/** Reads the document; the content stays a stream. @throws InvalidArgument, IncompleteBody, SlowDown */
async function splitBody(
  { bodyMemory }: Pick<Context, 'bodyMemory'>,
  request: AuthorizedInBucket,
): Promise<SplitBody> {
  const size = readDocumentLength(request);
  const { content, length } = request.payload;
  if (length !== undefined && length < size) throw fail('IncompleteBody');
  const holder = findMemoryHolder(request);
  if (!bodyMemory.take(size, holder)) throw fail('SlowDown', 'Too many large requests are being read.');
  request.bufferedBytes += size;
  request.bufferedFor = holder;
  const pieces = content[Symbol.asyncIterator]();
  const document = new Uint8Array(size);
  let rest: Uint8Array = document.subarray(0, 0);
  for (let filled = 0; filled < size; ) {
    const { done, value } = await pieces.next();
    if (done) throw fail('IncompleteBody');
    const part = value.subarray(0, size - filled);
    document.set(part, filled);
    filled += part.length;
    rest = value.subarray(part.length);
  }
  return {
    document,
    source: resumed(rest, pieces),
    length: length === undefined ? undefined : length - size,
  };
}

/** The remainder of a piece, then all others. */
async function* resumed(
  rest: Uint8Array,
  pieces: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    if (rest.length > 0) yield rest;
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return;
      yield value;
    }
  } finally {
    await pieces.return?.();
  }
}

/** The version id in the query. */
function readReplicaId({ query }: AuthorizedInBucket, name: 'replica' | 'replica-state'): string {
  const version = query.get(name) ?? '';
  if (/^[0-9a-f]{32}$/.test(version)) return version;
  throw invalidArgument(name, version.slice(0, 64), `${name} must be a version id of 32 hexadecimal digits.`);
}

/** @throws MalformedJSON, InvalidArgument where the query names another version, or what a write with such headers is refused with */
function readDocument(bytes: Uint8Array, version: string): ReplicaDocument {
  const document = checkColumns('sent', readReplica(bytes));
  if (document.version !== version)
    throw invalidArgument('version', document.version, 'The query and the document name different versions.');
  if (document.marker) return bareMarker(document);
  const storageClass = findStorageClassName(document.storageClass);
  if (storageClass === undefined)
    throw fail('InvalidStorageClass', { elements: { StorageClassRequested: document.storageClass } });
  return { ...document, storageClass, headers: checkedHeaders(document.headers) };
}

/** A delete marker has no headers, ACL or lock. */
function bareMarker({
  headers: _,
  acl: __,
  lock: ___,
  checksum: ____,
  ...document
}: ReplicaDocument): ReplicaDocument {
  return { ...document, headers: {} };
}

function checkedHeaders({ tags, ...others }: ObjectHeaders): ObjectHeaders {
  const checked = tags === undefined ? [] : checkTagging(tags);
  return checkStoredHeaders(checked.length === 0 ? others : { ...others, tags: checked });
}

/** The replica as this site stores it. */
async function toReplica(
  ctx: Context,
  request: AuthorizedInBucket,
  document: ReplicaDocument,
): Promise<Replica> {
  const { bucket, key, record, requestId } = request;
  const { version } = document;
  const assertMay = (effects: ReplicaEffects) =>
    assertMayHave(ctx, request, { ...effects, version, document });
  return {
    bucket,
    key,
    document,
    ...(await readAccess(ctx, request, document)),
    assertMay,
    record,
    requestId,
  };
}

/** An owner that this site does not know is replaced by the owner of the bucket, also in the ACL. */
async function readAccess(
  ctx: Context,
  { bucket, accessPoint }: AuthorizedInBucket,
  { owner: input, acl = [] }: ReplicaDocument,
): Promise<ObjectAccess> {
  if ((await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced') return { owner: bucket.owner };
  const isKnown = input === bucket.owner || (await ctx.credentials.account({ owner: input })) !== undefined;
  const owner = isKnown ? input : bucket.owner;
  const grants = acl.map((grant) =>
    grant.grantee.is === 'user' && grant.grantee.id === input
      ? { ...grant, grantee: { ...grant.grantee, id: owner } }
      : grant,
  );
  const accepted =
    grants.length === 0
      ? undefined
      : await acceptAcl(ctx, { grants }, { bucket, owner, of: 'object', accessPoint });
  return accepted === undefined || isPlainAcl(accepted, owner) ? { owner } : { owner, acl: accepted };
}

function requestedReplicaEncryption({ encryption }: ReplicaDocument): RequestedEncryption {
  switch (encryption?.by) {
    case undefined:
      return { by: 'default' };
    case 'gateway':
      return { by: 'service' };
    case 'provider':
      return { by: 'provider', keyId: encryption.keyId };
  }
}

const replicaQuestion = ({ bucket, key }: AuthorizedInBucket) => ({
  bucket,
  bucketName: bucket.name,
  key,
  target: undefined,
});

/** @throws AccessDenied unless the caller has the further permission */
async function assertMayReplicate(
  ctx: Context,
  request: AuthorizedInBucket,
  action: 's3:ReplicateTags' | 's3:ReplicateDelete',
): Promise<void> {
  await authorize(ctx, request, { ...replicaQuestion(request), action });
}
