/** ARNs of accounts and of what IAM keeps in them, as the public API writes them. */

/** ARNs of accounts and of what IAM keeps in them, as the public API writes them. */
export const rootArn = (account: string): string => `arn:aws:iam::${account}:root`;

export interface Place {
  readonly name: string;
  /** Begins and ends with a slash. */
  readonly path?: string | undefined;
}

const arnBuilder =
  (kind: string) =>
  (account: string, { name, path = '/' }: Place): string =>
    `arn:aws:iam::${account}:${kind}${path}${name}`;

export const userArn = arnBuilder('user');

export const groupArn = arnBuilder('group');

export const roleArn = arnBuilder('role');

export const policyArn = arnBuilder('policy');

export const deviceArn = arnBuilder('mfa');

/** A caller that has the secret of a bucket's signing key; no entity of IAM. */
export const bucketKeyArn = arnBuilder('bucket-key');

/** A session of the application that embeds the gateway; no entity of IAM. */
export const applicationArn = arnBuilder('application');

/** Names of users; those of other entities may be longer. */
const entityName = /^[\w+=,.@-]{1,64}$/;

export const isEntityName = (name: string): boolean => entityName.test(name);

/** The ARN of a role's session; it does not include the role's path. */
export const sessionArn = (
  account: string,
  { role, name }: { readonly role: string; readonly name: string },
): string => `arn:aws:sts::${account}:assumed-role/${role}/${name}`;

interface EntityArn {
  readonly account: string;
  readonly kind: string;
  readonly path: string;
  readonly name: string;
}

/** The valid accounts, paths and names: texts that every store can hold. */
const entityArn =
  /^arn:aws:iam::([A-Za-z0-9][A-Za-z0-9._@-]{0,127}):([a-z]{1,32})(\/(?:[\x21-\x7e]{0,511}\/)?)([\w+=,.@-]{1,226})$/;

/** Undefined for what is no ARN of IAM. */
export function parseArn(arn: string): EntityArn | undefined {
  const [, account, kind, path, name] = entityArn.exec(arn) ?? [];
  if (account === undefined || kind === undefined || path === undefined || name === undefined)
    return undefined;
  return { account, kind, path, name };
}
