/** ARNs of accounts and of what IAM keeps in them, as the public API writes them. */
export const rootArn = (account: string): string => `arn:aws:iam::${account}:root`;
/** @param path begins and ends with a slash */
export const userArn = (account: string, name: string, path = '/'): string =>
  `arn:aws:iam::${account}:user${path}${name}`;
