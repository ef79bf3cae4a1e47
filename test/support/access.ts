/** Grants, canned ACLs and policies for tests. */
import type { Answer } from './gateway-client.ts';

export const everyone = 'http://acs.amazonaws.com/groups/global/AllUsers';
export const authenticated = 'http://acs.amazonaws.com/groups/global/AuthenticatedUsers';
export const logDelivery = 'http://acs.amazonaws.com/groups/s3/LogDelivery';

/** `bob-account READ`, or a group by its URI, or an e-mail address. */
function grantXml(written: string): string {
  const [who = '', permission] = written.split(' ');
  const [type, name] = who.startsWith('http')
    ? ['Group', 'URI']
    : who.includes('@')
      ? ['AmazonCustomerByEmail', 'EmailAddress']
      : ['CanonicalUser', 'ID'];
  return `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}"><${name}>${who}</${name}></Grantee><Permission>${permission}</Permission></Grant>`;
}

export const aclXml = (owner: string, ...grants: readonly string[]): string =>
  `<AccessControlPolicy><Owner><ID>${owner}</ID></Owner><AccessControlList>${grants.map(grantXml).join('')}</AccessControlList></AccessControlPolicy>`;

/** The grants of a reply in the notation of `aclXml`. */
export const grantsIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/<Grantee [^>]*>(.*?)<\/Grantee><Permission>(\w+)</g)].map(
    ([, inside = '', permission]) => `${/<(?:ID|URI)>([^<]*)/.exec(inside)?.[1]} ${permission}`,
  );

export interface Written {
  readonly Effect?: 'Allow' | 'Deny';
  readonly [element: string]: unknown;
}
/** A policy of these statements; each allows every caller unless it says otherwise. */
export const policyOf = (...statements: readonly Written[]): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: statements.map((statement) => ({
      Effect: 'Allow',
      ...('NotPrincipal' in statement ? {} : { Principal: '*' }),
      ...statement,
    })),
  });

export const ownershipXml = (value: string): string =>
  `<OwnershipControls><Rule><ObjectOwnership>${value}</ObjectOwnership></Rule></OwnershipControls>`;

export type BlockName =
  | 'BlockPublicAcls'
  | 'IgnorePublicAcls'
  | 'BlockPublicPolicy'
  | 'RestrictPublicBuckets';
export const blockXml = (...names: readonly BlockName[]): string =>
  `<PublicAccessBlockConfiguration>${names.map((name) => `<${name}>true</${name}>`).join('')}</PublicAccessBlockConfiguration>`;
