/** What a request says about a replicated version: its id, its document, and its owner, ACL and encryption at this site. */
import { authorize } from '../../auth/authorization/authorize.ts';
import { fail } from '../../base/errors.ts';
import { toWireClass } from '../../config/values/clusters.ts';
import type { Context } from '../../context.ts';
import { isPlainAcl } from '../../domain/access/acl.ts';
import { acceptAcl, type ObjectAccess, readOwnership } from '../../domain/access/object-ownership.ts';
import type { RequestedEncryption } from '../../domain/content/requested-encryption.ts';
import type { Replica, ReplicaEffects } from '../../domain/objects/replica/commit-replica.ts';
import type { ReplicaDocument } from '../../metadata/objects/properties.ts';
import type { ObjectHeaders } from '../../metadata/tables.ts';
import { readReplica } from '../../protocol/schemas/replica.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { checkTagging } from '../../request/tags.ts';
import { assertMayHave } from './implied-actions.ts';
import { checkStoredHeaders } from './object-headers.ts';

/** The version id in the query. */
export function readReplicaId({ query }: AuthorizedInBucket, name: 'replica' | 'replica-state'): string {
  const version = query.get(name) ?? '';
  if (/^[0-9a-f]{32}$/.test(version)) return version;
  throw fail('InvalidArgument', {
    message: `${name} must be a version id of 32 hexadecimal digits.`,
    elements: { ArgumentName: name, ArgumentValue: version.slice(0, 64) },
  });
}

/** @throws MalformedJSON, InvalidArgument where the query names another version, or what a write with such headers is refused with */
export function readDocument(bytes: Uint8Array, version: string): ReplicaDocument {
  const document = readReplica(bytes);
  if (document.version !== version)
    throw fail('InvalidArgument', {
      message: 'The query and the document name different versions.',
      elements: { ArgumentName: 'version', ArgumentValue: document.version },
    });
  if (document.marker) return bareMarker(document);
  const storageClass = toWireClass(document.storageClass);
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
export async function toReplica(
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
  { owner: given, acl = [] }: ReplicaDocument,
): Promise<ObjectAccess> {
  if ((await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced') return { owner: bucket.owner };
  const isKnown = given === bucket.owner || (await ctx.credentials.account({ owner: given })) !== undefined;
  const owner = isKnown ? given : bucket.owner;
  const grants = acl.map((grant) =>
    grant.grantee.is === 'user' && grant.grantee.id === given
      ? { ...grant, grantee: { ...grant.grantee, id: owner } }
      : grant,
  );
  const accepted =
    grants.length === 0
      ? undefined
      : await acceptAcl(ctx, { grants }, { bucket, owner, of: 'object', accessPoint });
  return accepted === undefined || isPlainAcl(accepted, owner) ? { owner } : { owner, acl: accepted };
}

export function requestedReplicaEncryption({ encryption }: ReplicaDocument): RequestedEncryption {
  if (encryption === undefined) return { by: 'default' };
  if (encryption.by === 'gateway') return { by: 'service' };
  return { by: 'provider', keyId: encryption.keyId };
}

const questionOf = ({ bucket, key }: AuthorizedInBucket) => ({
  bucket,
  bucketName: bucket.name,
  key,
  target: undefined,
});

/** @throws AccessDenied unless the caller has the further permission */
export const assertMayReplicate = (
  ctx: Context,
  request: AuthorizedInBucket,
  action: 's3:ReplicateTags' | 's3:ReplicateDelete',
): Promise<void> => authorize(ctx, request, { ...questionOf(request), action });
