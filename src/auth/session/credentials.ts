/** Finds credentials by access key: configured keys first, then keys of IAM users; temporary credentials by their token. */

import { memoizeEach } from '../../base/memoize.ts';
import { fail } from '../../errors/refusal.ts';
import type { Account, Credential, Credentials } from '../../ports/crypto/credentials.ts';
import type { AuthenticationContext } from '../context.ts';
import type { Identity, Renew } from '../identity.ts';
import { type AccountContext, AccountKeys } from './account-keys.ts';
import { Revisions, type RevisionsContext } from './revisions.ts';
import { Sessions } from './sessions.ts';

/** Records are validated where settings are read; of two with the same access key the first one counts. */
function byAccessKey(records: readonly Credential[]): ReadonlyMap<string, Credential> {
  const found = new Map<string, Credential>();
  for (const record of records) if (!found.has(record.accessKey)) found.set(record.accessKey, record);
  return found;
}

/** The accounts of the configured credentials. */
function configuredAccounts(
  records: readonly Credential[],
): Required<Pick<Credentials, 'account' | 'accounts'>> {
  const byOwner = new Map<string, Account>();
  const byEmail = new Map<string, Account>();
  // The root comes first, because the account takes the display name of its root.
  const operators = new Set(
    records.filter(({ root, operator }) => root && operator).map(({ owner }) => owner),
  );
  for (const { owner, displayName, email } of [...records].sort((a, b) => Number(b.root) - Number(a.root))) {
    const account = byOwner.get(owner) ?? { owner, displayName, isOperators: operators.has(owner) };
    byOwner.set(owner, account);
    if (email !== undefined && !byEmail.has(email.toLowerCase())) byEmail.set(email.toLowerCase(), account);
  }
  return {
    account: async (by) => ('owner' in by ? byOwner.get(by.owner) : byEmail.get(by.email.toLowerCase())),
    accounts: async () => [...byOwner.values()].sort((a, b) => (a.owner < b.owner ? -1 : 1)),
  };
}

export function staticCredentials(records: readonly Credential[]): Credentials {
  const configured = byAccessKey(records);
  return {
    async find(accessKey, token) {
      const found = configured.get(accessKey);
      if (found !== undefined && token !== undefined) throw fail('InvalidToken');
      return found;
    },
    ...configuredAccounts(records),
  };
}

export type CredentialsContext = AccountContext & RevisionsContext;

export function openCredentials(ctx: CredentialsContext, records: readonly Credential[]): Credentials {
  const configured = byAccessKey(records);
  const { account, accounts: listAccounts } = configuredAccounts(records);
  const displayName = async (owner: string): Promise<string> =>
    (await account({ owner }))?.displayName ?? owner;
  const accounts = { configured, displayName, revisions: new Revisions(ctx) };
  const keys = new AccountKeys(ctx, accounts);
  const sessions = new Sessions(ctx, accounts);
  return {
    async find(accessKey, token, metadata = ctx.metadata) {
      if (token !== undefined) return sessions.find(accessKey, token, metadata);
      return configured.get(accessKey) ?? keys.find(accessKey, metadata);
    },
    account,
    accounts: listAccounts,
    used({ accessKey, iam, session }, use) {
      if (iam !== undefined && session === undefined) keys.used(accessKey, use);
    },
  };
}

/** The identity without the secret, because the identity travels with the request and may be logged. */
export const identityOf: (credential: Credential) => Identity = memoizeEach(
  ({ secretKey: _, ...identity }: Credential) => identity,
);

export interface KnownKey {
  readonly credential: Credential;
  readonly renew: Renew;
}

/** @param token the session token of the request @throws InvalidAccessKeyId */
export async function findKnownKey(
  { credentials, metadata }: Pick<AuthenticationContext, 'credentials' | 'metadata'>,
  accessKey: string,
  token: string | undefined,
): Promise<KnownKey> {
  const find = async (): Promise<Credential> => {
    const found = await credentials.find(accessKey, token, metadata);
    if (found === undefined) throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });
    return found;
  };
  const credential = await find();
  const renew = async (): Promise<Identity> => {
    const now = await find();
    // The key was deleted and created again with another secret, so the signature was made with the old key.
    if (now.secretKey !== credential.secretKey)
      throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });
    return identityOf(now);
  };
  return { credential, renew };
}
