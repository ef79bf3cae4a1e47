/** ACLs of buckets and objects in bodies and headers, and owners in replies. */
import { isAccount } from '../../auth/policy/statement.ts';
import { fail, invalidArgument, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type AclOf,
  cannedAcl,
  type Group,
  grantsMax,
  groupUris,
  type RequestedAcl,
  toGroup,
  toUser,
} from '../../domain/access/acl.ts';
import { accessOfNew, type ObjectAccess, readOwnership } from '../../domain/access/object-ownership.ts';
import { ownershipControls } from '../../domain/configurations/families.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import type { HeaderPair, Reply } from '../../protocol/reply.ts';
import {
  type AccessControlPolicy,
  accessControlPolicy,
  type Grantee,
} from '../../protocol/schemas/access.ts';
import type { Owner } from '../../protocol/schemas/common.ts';
import { defined, header } from '../../request/parameters.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';
import { xmlReply } from '../handler.ts';
import { type Checks, firstRefusal } from './checks.ts';

// The XML body of an ACL: read into grants, written from them (public API "PutObjectAcl", "GetObjectAcl").

const root = 'AccessControlPolicy';

/** @throws MalformedACLError, AccessDenied for another owner, and what grantees are refused with */
async function readAclBody(
  ctx: Pick<Context, 'credentials'>,
  body: Uint8Array,
  owner: string,
): Promise<readonly Grant[]> {
  return readAcl(ctx, parse(body), { owner, checks: firstRefusal });
}

/** @throws as `readAclBody`, where `checks` does not gather refusals */
export async function readAcl(
  ctx: Pick<Context, 'credentials'>,
  { Owner, AccessControlList }: AccessControlPolicy,
  { owner, checks }: { readonly owner: string; readonly checks: Checks },
): Promise<readonly Grant[]> {
  await checks.at({ path: 'Owner.ID', right: `the owner of the bucket or object, ${owner}` }, () => {
    if (Owner?.ID === undefined) throw fail('MalformedACLError', 'The Owner of an ACL must have an ID.');
    // An ACL cannot change the owner.
    if (Owner.ID !== owner) throw fail('AccessDenied');
  });
  const grants: Grant[] = [];
  for (const [index, { Grantee, Permission }] of AccessControlList.entries()) {
    const path = `AccessControlList[${index}].Grantee`;
    const grant = await checks.at({ path }, () => readGrantee(ctx, Grantee, Permission));
    if (grant !== undefined) grants.push(grant);
  }
  return grants;
}

function parse(body: Uint8Array): AccessControlPolicy {
  try {
    return readXml(accessControlPolicy, root, body, { maxBytes: bodyMaxDefault });
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === 'MalformedXML')
      throw fail('MalformedACLError', { message: cause.message, cause });
    throw cause;
  }
}

/** @throws MalformedACLError, and the refusal of an unknown grantee */
export async function readGrantee(
  ctx: Pick<Context, 'credentials'>,
  { type, ID, EmailAddress, URI }: Grantee,
  permission: Grant['permission'],
): Promise<Grant> {
  const [named, ...others] = Object.entries(defined({ ID, EmailAddress, URI }));
  const expected = { CanonicalUser: 'ID', AmazonCustomerByEmail: 'EmailAddress', Group: 'URI' }[type];
  if (named === undefined || others.length > 0 || named[0] !== expected)
    throw fail('MalformedACLError', `A Grantee of type ${type} is named by its ${expected} alone.`);
  const [, value] = named;
  if (type === 'CanonicalUser') return userGrant(value, permission);
  return type === 'Group' ? groupGrant(value, permission) : emailGrant(ctx, value, permission);
}

export interface AclDocument {
  readonly bucket: BucketRow;
  readonly owner: string;
  readonly grants: readonly Grant[];
  readonly headers?: readonly HeaderPair[];
}

/** The order in which the public service shows them. */
const groupsFirst = (grants: readonly Grant[]): readonly Grant[] => [
  ...grants.filter(({ grantee }) => grantee.is === 'group'),
  ...grants.filter(({ grantee }) => grantee.is === 'user'),
];

export const aclReply = async (ctx: Pick<Context, 'credentials'>, acl: AclDocument): Promise<Reply> =>
  xmlReply(accessControlPolicy, root, await toAcl(ctx, acl), acl.headers);

export async function toAcl(
  ctx: Pick<Context, 'credentials'>,
  { bucket, owner, grants }: AclDocument,
): Promise<AccessControlPolicy> {
  const ids = grants.flatMap(({ grantee }) => (grantee.is === 'user' ? [grantee.id] : []));
  const names = await ownerNames(ctx, bucket, [owner, ...ids]);
  return {
    Owner: namedOwner(names, owner),
    AccessControlList: groupsFirst(grants).map(({ grantee, permission }) => ({
      Grantee:
        grantee.is === 'user'
          ? { type: 'CanonicalUser' as const, ...namedOwner(names, grantee.id) }
          : { type: 'Group' as const, URI: groupUri(grantee.group) },
      Permission: permission,
    })),
  };
}

// The ACL in the headers of a request: a canned ACL, or grants (public API "Access control list overview").

type Ctx = Pick<Context, 'credentials'>;
type Named = Pick<Authorized, 'own'>;
type Permission = Grant['permission'];

const grantHeaders: readonly (readonly [string, Permission])[] = [
  ['grant-read', 'READ'],
  ['grant-write', 'WRITE'],
  ['grant-read-acp', 'READ_ACP'],
  ['grant-write-acp', 'WRITE_ACP'],
  ['grant-full-control', 'FULL_CONTROL'],
];

const groupUri = (group: Group): string => groupUris[group];
const groups = Object.keys(groupUris) as readonly Group[];

/** Whether the headers contain an ACL; an empty `acl` header does not count (public API). */
export const namesAcl = (request: Named): boolean =>
  (header(request, 'acl') ?? '') !== '' || grantHeaders.some(([name]) => request.own.has(name));

/**
 * Undefined when the headers are silent.
 * @throws InvalidRequest for a canned ACL together with grants; what grantees are refused with
 */
export async function requestedAcl(ctx: Ctx, request: Named, of: AclOf): Promise<RequestedAcl | undefined> {
  const canned = header(request, 'acl') ?? '';
  const grants: Grant[] = [];
  for (const [name, permission] of grantHeaders) {
    const value = header(request, name);
    if (value === undefined) continue;
    if (canned !== '')
      throw fail('InvalidRequest', 'Specifying both Canned ACLs and Header Grants is not allowed');
    grants.push(...(await readGrants(ctx, value, { name, permission })));
    checkCount(grants.length);
  }
  if (grants.length > 0) return { grants };
  return canned === '' ? undefined : { canned: readCanned(of, canned) };
}

function readCanned(of: AclOf, name: string) {
  const known = cannedAcl(of, name);
  if (known !== undefined) return known;
  throw invalidArgument('acl', name, `"${name}" is not a canned ACL`);
}

const checkCount = (count: number): void => {
  if (count > grantsMax)
    throw fail('InvalidRequest', `An access control list holds at most ${grantsMax} grants.`);
};

/** `id="…", uri="…", emailAddress="…"`; the quotes may be missing, as clients write them. */
async function readGrants(
  ctx: Ctx,
  value: string,
  { name, permission }: { readonly name: string; readonly permission: Permission },
): Promise<readonly Grant[]> {
  const items = value.split(',');
  checkCount(items.length);
  const grants: Grant[] = [];
  for (const item of items) {
    const [, kind, quoted, bare] = /^(id|uri|emailAddress)=(?:"([^"]*)"|([^"]+))$/i.exec(item.trim()) ?? [];
    if (kind === undefined) throw invalidArgument(name, value, 'Argument format not recognized');
    const read = granteeReaders[kind.toLowerCase() as keyof typeof granteeReaders];
    grants.push(await read(ctx, quoted ?? bare ?? '', permission));
  }
  return grants;
}

/** @throws InvalidArgument */
function userGrant(id: string, permission: Permission): Grant {
  if (isAccount(id)) return toUser(id, permission);
  throw invalidArgument('CanonicalUser/ID', id, 'Invalid id');
}

/** @throws InvalidArgument */
function groupGrant(uri: string, permission: Permission): Grant {
  const group = groups.find((each) => groupUris[each] === uri);
  if (group !== undefined) return toGroup(group, permission);
  throw invalidArgument('uri', uri, 'Invalid group uri');
}

/** @throws UnresolvableGrantByEmailAddress */
async function emailGrant(ctx: Ctx, email: string, permission: Permission): Promise<Grant> {
  const account = await ctx.credentials.account({ email });
  if (account !== undefined) return toUser(account.owner, permission);
  throw fail('UnresolvableGrantByEmailAddress', { elements: { EmailAddress: email } });
}

const granteeReaders = {
  id: (_ctx: Ctx, value: string, permission: Permission) => userGrant(value, permission),
  uri: (_ctx: Ctx, value: string, permission: Permission) => groupGrant(value, permission),
  emailaddress: emailGrant,
};

// The one ACL that a request to change it brings, by headers or by its body.

/**
 * @param owner of what the ACL is for
 * @throws MalformedACLError for headers and a body together, MissingSecurityHeader for neither
 */
export async function readPutAcl(
  ctx: Pick<Context, 'credentials'>,
  request: Pick<Authorized, 'own' | 'body'>,
  { of, owner }: { readonly of: AclOf; readonly owner: string },
): Promise<RequestedAcl> {
  const isNamed = namesAcl(request);
  if (isNamed && request.body.length > 0)
    throw fail('MalformedACLError', 'An ACL is given by headers or by a body, not by both.');
  if (request.body.length > 0) return { grants: await readAclBody(ctx, request.body, owner) };
  const supplied = isNamed ? await requestedAcl(ctx, request, of) : undefined;
  if (supplied !== undefined) return supplied;
  throw fail('MissingSecurityHeader', { elements: { MissingHeaderName: 'acl' } });
}

type Writing = Pick<AuthorizedInBucket, 'bucket' | 'identity' | 'own' | 'accessPoint'>;

/** Whether the access of a new object is anything else than the writer's own. */
export const statesAccess = (request: Writing): boolean =>
  namesAcl(request) || request.bucket.documents[ownershipControls.name] !== undefined;

/** The account that owns a new object unless the bucket's ownership says otherwise. */
export const ownerOfNew = ({ bucket, identity }: Pick<Writing, 'bucket' | 'identity'>): string =>
  identity?.owner ?? bucket.owner;

/** The owner and the grants of the object that a request writes. */
export async function readAccess(
  ctx: Pick<Context, 'caches' | 'metadata' | 'credentials'>,
  request: Writing,
): Promise<ObjectAccess> {
  const { bucket, accessPoint } = request;
  const writer = ownerOfNew(request);
  if (!statesAccess(request)) return { owner: writer };
  const supplied = await requestedAcl(ctx, request, 'object');
  return accessOfNew(ctx, bucket, { writer, input: supplied, accessPoint });
}

export type Names = ReadonlyMap<string, string>;

/** The names of accounts by id, without those that are not configured. */
export async function ownerNames(
  ctx: Pick<Context, 'credentials'>,
  bucket: Pick<BucketRow, 'owner' | 'ownerName'>,
  ids: Iterable<string>,
): Promise<Names> {
  const names = new Map([[bucket.owner, bucket.ownerName]]);
  for (const owner of new Set(ids)) {
    if (names.has(owner)) continue;
    const account = await ctx.credentials.account({ owner });
    if (account !== undefined) names.set(owner, account.displayName);
  }
  return names;
}

export function namedOwner(names: Names, id: string): Owner {
  const DisplayName = names.get(id);
  return DisplayName === undefined ? { ID: id } : { ID: id, DisplayName };
}

export type OwnerOf = (row: { readonly owner: string }) => Owner;

/** Whom the objects of a bucket belong to, as listings show it: where its owner is enforced, all belong to it. */
export async function objectOwners(
  ctx: Pick<Context, 'caches' | 'credentials' | 'metadata'>,
  bucket: BucketRow,
  rows: readonly { readonly owner: string }[],
): Promise<OwnerOf> {
  const own = { ID: bucket.owner, DisplayName: bucket.ownerName };
  if ((await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced') return () => own;
  const names = await ownerNames(
    ctx,
    bucket,
    rows.map(({ owner }) => owner),
  );
  return ({ owner }) => namedOwner(names, owner);
}
