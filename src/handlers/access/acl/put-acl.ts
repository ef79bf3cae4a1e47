/** The one ACL that a request to change it brings, by headers or by its body. */
import type { Context } from '../../../context.ts';
import type { AclOf, GivenAcl } from '../../../domain/access/acl.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Authorized } from '../../../gateway/request.ts';
import { readAclBody } from './acl-body.ts';
import { givenAcl, namesAcl } from './given-acl.ts';

/**
 * @param owner of what the ACL is for
 * @throws MalformedACLError for headers and a body together, MissingSecurityHeader for neither
 */
export async function readPutAcl(
  ctx: Pick<Context, 'credentials'>,
  request: Pick<Authorized, 'own' | 'body'>,
  { of, owner }: { readonly of: AclOf; readonly owner: string },
): Promise<GivenAcl> {
  const isNamed = namesAcl(request);
  if (isNamed && request.body.length > 0)
    throw fail('MalformedACLError', 'An ACL is given by headers or by a body, not by both.');
  if (request.body.length > 0) return { grants: await readAclBody(ctx, request.body, owner) };
  const given = isNamed ? await givenAcl(ctx, request, of) : undefined;
  if (given !== undefined) return given;
  throw fail('MissingSecurityHeader', { elements: { MissingHeaderName: 'acl' } });
}
