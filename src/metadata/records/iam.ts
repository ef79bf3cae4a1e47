/** The records of identities: users, their belongings, access keys. */
import { table } from '../../ports/metadata-store.ts';

/**
 * The IAM records of an account: `metadata/iam.ts` describes each kind. The row of kind `account` is written with every change of a
 * record that may be cached, so its revision identifies the state of all of them.
 */
export interface IamRow {
  readonly account: string;
  readonly kind: string;
  readonly name: string;
  readonly value: unknown;
  /** A policy document, as it was sent. */
  readonly text?: string;
}
export const iam = table<IamRow>()({
  name: 'iam',
  kind: 'conditional',
  partition: ['account'],
  sort: ['kind', 'name'],
  columns: { account: 'text', kind: 'text', name: 'text', value: 'json', text: 'text' },
});

/** The secret of an access key, and its account. The account's IAM records hold the key's user and status. */
export interface AccessKeyRow {
  readonly accessKey: string;
  readonly account: string;
  /** Sealed under the master key. */
  readonly secret: Uint8Array;
}
export const accessKeys = table<AccessKeyRow>()({
  name: 'access_keys',
  kind: 'plain',
  partition: ['accessKey'],
  sort: [],
  columns: { accessKey: 'text', account: 'text', secret: 'blob' },
});

/** When a key was last used, with a precision of a few minutes. */
export interface AccessKeyUseRow {
  readonly accessKey: string;
  readonly at: number;
  readonly service: string;
  readonly region: string;
}
export const accessKeyUses = table<AccessKeyUseRow>()({
  name: 'access_key_uses',
  kind: 'plain',
  partition: ['accessKey'],
  sort: [],
  columns: { accessKey: 'text', at: 'int', service: 'text', region: 'text' },
});

/** The accounts that have a profile, for lists. Each row is written in the commit of the profile. */
export interface AccountRow {
  /** Always 0: one scan lists the accounts by id. */
  readonly slot: number;
  readonly account: string;
  readonly displayName: string;
  readonly email?: string;
  readonly status: string;
}
export const accounts = table<AccountRow>()({
  name: 'accounts',
  kind: 'plain',
  partition: ['slot'],
  sort: ['account'],
  columns: { slot: 'int', account: 'text', displayName: 'text', email: 'text', status: 'text' },
});

/**
 * The account that has an e-mail address, or an id in any case. A claim is made before the account's profile is written, so it counts only
 * if that profile names it.
 */
export interface AccountClaimRow {
  /** `email:` or `id:`, and the text in lower case. */
  readonly claim: string;
  readonly account: string;
}
export const accountClaims = table<AccountClaimRow>()({
  name: 'account_claims',
  kind: 'conditional',
  partition: ['claim'],
  sort: [],
  columns: { claim: 'text', account: 'text' },
});

export const iamTables = { iam, accessKeys, accessKeyUses, accounts, accountClaims } as const;
