/**
 * The public actions that a replica request implies. Its own permissions stand for some of them, which an explicit Deny then still refuses;
 * the others must be allowed. Conditions see the facts of the document, as those of the headers that it stands for.
 */

import { assertNotDenied, authorize, type Caller } from '../../auth/authorize.ts';
import type { Context } from '../../context.ts';
import { groupUris } from '../../domain/access/acl.ts';
import type { ReplicaEffect, ReplicaEffects } from '../../domain/objects/commit-replica.ts';
import { encryptionNames, type ReplicaDocument } from '../../metadata/objects/properties.ts';
import type { Grant, ObjectRow } from '../../metadata/tables.ts';
import { bypassAction } from '../../protocol/operations/operations.ts';
import { aclPermissions } from '../../protocol/schemas/common.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';

interface Implied {
  /** Must be allowed: for a new version, and for one that exists. */
  readonly allowedBy: readonly [ofNew: string, ofExisting: string];
  /** Must not be denied. */
  readonly stands: readonly string[];
}

const both = (action: string): Implied['allowedBy'] => [action, action];

const implied: Readonly<Record<ReplicaEffect, Implied>> = {
  content: { allowedBy: both('s3:ReplicateObject'), stands: ['s3:PutObject'] },
  tags: {
    allowedBy: both('s3:ReplicateTags'),
    stands: ['s3:PutObjectTagging', 's3:PutObjectVersionTagging'],
  },
  acl: {
    allowedBy: ['s3:PutObjectAcl', 's3:PutObjectVersionAcl'],
    stands: ['s3:PutObjectAcl', 's3:PutObjectVersionAcl'],
  },
  retention: { allowedBy: both('s3:PutObjectRetention'), stands: [] },
  bypass: { allowedBy: both(bypassAction), stands: [] },
  'legal-hold': { allowedBy: both('s3:PutObjectLegalHold'), stands: [] },
  'delete-marker': { allowedBy: both('s3:ReplicateDelete'), stands: ['s3:DeleteObject'] },
  removal: { allowedBy: both('s3:ReplicateDelete'), stands: ['s3:DeleteObjectVersion'] },
};
/** Of a later state that has no tags. */
const untagging = ['s3:DeleteObjectTagging', 's3:DeleteObjectVersionTagging'];

/** @throws AccessDenied unless the caller may have these effects on the version */
export async function assertMayHave(
  ctx: Context,
  request: AuthorizedInBucket,
  {
    effects,
    existing,
    version,
    document,
  }: ReplicaEffects & { readonly version: string; readonly document?: ReplicaDocument },
): Promise<void> {
  const { bucket, key } = request;
  const about = {
    bucket,
    bucketName: bucket.name,
    key,
    // The owner of the bucket decides which replicas it takes, also of objects that other accounts own.
    target: existing && ({ ...existing, owner: bucket.owner } satisfies ObjectRow),
    requestTags: document?.headers.tags,
    named: new Map([['s3:VersionId', version]]),
  };
  const caller: Caller =
    document === undefined
      ? request
      : { ...request, own: impliedHeaders(request, document), operation: 'PutObject' };
  const drops = existing !== undefined && document?.headers.tags === undefined;
  for (const effect of effects) {
    const { allowedBy, stands } = implied[effect];
    const action = allowedBy[existing === undefined ? 0 : 1];
    await authorize(ctx, caller, { ...about, action });
    const further = effect === 'tags' && drops ? untagging : [];
    for (const each of [...stands, ...further])
      if (each !== action) await assertNotDenied(ctx, caller, { ...about, action: each });
  }
}

/** The headers of the request, and those with which PutObject would say what the document says. */
function impliedHeaders(
  { own }: AuthorizedInBucket,
  { storageClass, headers: { system = {}, tags }, lock = {}, encryption, acl }: ReplicaDocument,
): ReadonlyMap<string, string> {
  const said: Readonly<Record<string, string | undefined>> = {
    'storage-class': storageClass || undefined,
    'website-redirect-location': system['website-redirect-location'],
    tagging: tags && new URLSearchParams(tags.map(([name, value]) => [name, value])).toString(),
    'object-lock-mode': lock.mode,
    'object-lock-retain-until-date':
      lock.retainUntil === undefined ? undefined : new Date(lock.retainUntil).toISOString(),
    'object-lock-legal-hold': lock.legalHold === undefined ? undefined : lock.legalHold ? 'ON' : 'OFF',
    'server-side-encryption': encryption && encryptionNames[encryption.by],
    'server-side-encryption-aws-kms-key-id': encryption?.by === 'provider' ? encryption.keyId : undefined,
    acl: undefined,
    ...grantHeaders(acl),
  };
  const headers = new Map(own);
  for (const [name, value] of Object.entries(said)) {
    if (value === undefined) headers.delete(name);
    else headers.set(name, value);
  }
  return headers;
}

function grantHeaders(acl: readonly Grant[] = []): Readonly<Record<string, string | undefined>> {
  const entries = aclPermissions.map((permission) => {
    const grantees = acl
      .filter((grant) => grant.permission === permission)
      .map(({ grantee }) =>
        grantee.is === 'user' ? `id="${grantee.id}"` : `uri="${groupUris[grantee.group]}"`,
      );
    const name = `grant-${permission.toLowerCase().replace('_', '-')}`;
    return [name, grantees.length === 0 ? undefined : grantees.join(', ')] as const;
  });
  return Object.fromEntries(entries);
}
