/** The ACL in the headers of a request: a canned ACL, or grants (public API "Access control list overview"). */

import { isAccount } from '../../../auth/policy/document/principals.ts';
import type { Context } from '../../../context.ts';
import {
  type AclOf,
  cannedAcl,
  type GivenAcl,
  type Group,
  grantsMax,
  groupUris,
  toGroup,
  toUser,
} from '../../../domain/access/acl.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Authorized } from '../../../gateway/request.ts';
import type { Grant } from '../../../metadata/tables.ts';
import { header } from '../../common/own-headers.ts';

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

export const uriOf = (group: Group): string => groupUris[group];
const groups = Object.keys(groupUris) as readonly Group[];

/** Whether the headers contain an ACL; an empty `acl` header does not count (public API). */
export const namesAcl = (request: Named): boolean =>
  (header(request, 'acl') ?? '') !== '' || grantHeaders.some(([name]) => header(request, name) !== undefined);

/**
 * Undefined when the headers are silent.
 * @throws InvalidRequest for a canned ACL together with grants; what grantees are refused with
 */
export async function givenAcl(ctx: Ctx, request: Named, of: AclOf): Promise<GivenAcl | undefined> {
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
  throw fail('InvalidArgument', {
    message: `"${name}" is not a canned ACL`,
    elements: { ArgumentName: 'acl', ArgumentValue: name },
  });
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
    if (kind === undefined)
      throw fail('InvalidArgument', {
        message: 'Argument format not recognized',
        elements: { ArgumentName: name, ArgumentValue: value },
      });
    const read = granteeReaders[kind.toLowerCase() as keyof typeof granteeReaders];
    grants.push(await read(ctx, quoted ?? bare ?? '', permission));
  }
  return grants;
}

/** @throws InvalidArgument */
export function userGrant(id: string, permission: Permission): Grant {
  if (isAccount(id)) return toUser(id, permission);
  throw fail('InvalidArgument', {
    message: 'Invalid id',
    elements: { ArgumentName: 'CanonicalUser/ID', ArgumentValue: id },
  });
}

/** @throws InvalidArgument */
export function groupGrant(uri: string, permission: Permission): Grant {
  const group = groups.find((each) => groupUris[each] === uri);
  if (group !== undefined) return toGroup(group, permission);
  throw fail('InvalidArgument', {
    message: 'Invalid group uri',
    elements: { ArgumentName: 'uri', ArgumentValue: uri },
  });
}

/** @throws UnresolvableGrantByEmailAddress */
export async function emailGrant(ctx: Ctx, email: string, permission: Permission): Promise<Grant> {
  const account = await ctx.credentials.account({ email });
  if (account !== undefined) return toUser(account.owner, permission);
  throw fail('UnresolvableGrantByEmailAddress', { elements: { EmailAddress: email } });
}

const granteeReaders = {
  id: (_ctx: Ctx, value: string, permission: Permission) => userGrant(value, permission),
  uri: (_ctx: Ctx, value: string, permission: Permission) => groupGrant(value, permission),
  emailaddress: emailGrant,
};
