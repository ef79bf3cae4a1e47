/** The body of the ACL operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectAcl.html */
import { attribute, element, type Infer, many, oneOf, optional, text, token } from '../../formats/codec.ts';
import { owner } from '../common.ts';

/** The type says which of the elements names the grantee; the handler checks that they agree. */
export const grantee = element({
  type: attribute('xsi:type', oneOf('CanonicalUser', 'AmazonCustomerByEmail', 'Group')),
  ID: optional(token),
  DisplayName: optional(text),
  EmailAddress: optional(token),
  URI: optional(token),
});
export type Grantee = Infer<typeof grantee>;

const grant = element({
  Grantee: grantee,
  Permission: oneOf('FULL_CONTROL', 'WRITE', 'WRITE_ACP', 'READ', 'READ_ACP'),
});
export type Grant = Infer<typeof grant>;

/** AWS keeps at most 100 grants. */
const grantsMax = 100;

/** Root `AccessControlPolicy`. */
export const accessControlPolicy = element({
  Owner: optional(owner),
  AccessControlList: many(grant, { name: 'Grant', max: grantsMax }),
});
export type AccessControlPolicy = Infer<typeof accessControlPolicy>;
