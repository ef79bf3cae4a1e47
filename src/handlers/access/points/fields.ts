/** Parameters that the operations on access points share, and the access point that they are about. */
import { fail } from '../../../errors/refusal.ts';
import { flag, optional, structure, text } from '../../../protocol/operations/parameters.ts';
import type { ActionRequest } from '../../iam/action-request.ts';

const account = text({ max: 128 });
export const accessPointName = text({
  min: 3,
  max: 50,
  pattern: /^[a-z0-9][a-z0-9-]{1,48}[a-z0-9](?<!-s3alias|--ol-s3|--xa-s3)$/,
  must: 'lower-case letters, digits and hyphens, none of these at either end, and no ending that aliases have',
});
export const bucketName = text({ max: 255 });
export const accountId = { AccountId: optional(account) };
export const bucketAccountId = optional(account);
export const named = { ...accountId, Name: accessPointName };
export const policyText = text({ max: 65_536 });

/** For a new access point each setting is true unless the request says otherwise (public API). */
export const blockFields = optional(
  structure({
    BlockPublicAcls: optional(flag),
    IgnorePublicAcls: optional(flag),
    BlockPublicPolicy: optional(flag),
    RestrictPublicBuckets: optional(flag),
  }),
);

/** Refuses to show access points of another account. @throws AccessDenied */
export function readAccount(
  { identity }: ActionRequest,
  { AccountId }: { readonly AccountId: string | undefined },
): string {
  if (AccountId !== undefined && AccountId !== identity.owner) throw fail('AccessDenied');
  return identity.owner;
}
