/** The records of identities: users, their belongings, access keys. */
import { blob, int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

/**
 * The IAM records of an account: `metadata/iam.ts` describes each kind. The row of kind `account` is written with every change of a
 * record that may be cached, so its revision identifies the state of all of them.
 */
export const iam = table({
  name: 'iam',
  kind: 'conditional',
  isExported: true,
  partition: ['account'],
  sort: ['kind', 'name'],
  columns: {
    account: text(),
    kind: text(),
    name: text(),
    value: json<unknown>(),
    /** A policy document, as it was sent. */
    text: optional(text()),
  },
});
export interface IamRow extends RowOf<typeof iam> {}

/** The secret of an access key, and its account. The account's IAM records hold the key's user and status. */
export const accessKeys = table({
  name: 'access_keys',
  kind: 'plain',
  isExported: true,
  partition: ['accessKey'],
  sort: [],
  columns: {
    accessKey: text(),
    account: text(),
    /** Sealed under the master key. */
    secret: blob(),
  },
});
export interface AccessKeyRow extends RowOf<typeof accessKeys> {}

/** When a key was last used, with a precision of a few minutes. */
export const accessKeyUses = table({
  name: 'access_key_uses',
  kind: 'plain',
  isExported: true,
  partition: ['accessKey'],
  sort: [],
  columns: { accessKey: text(), at: int(), service: text(), region: text() },
});
export interface AccessKeyUseRow extends RowOf<typeof accessKeyUses> {}

/** The accounts that have a profile, for lists. Each row is written in the commit of the profile. */
export const accounts = table({
  name: 'accounts',
  kind: 'plain',
  isExported: true,
  partition: ['slot'],
  sort: ['account'],
  columns: {
    /** Always 0: one scan lists the accounts by id. */
    slot: int(),
    account: text(),
    displayName: text(),
    email: optional(text()),
    status: text(),
  },
});
export interface AccountRow extends RowOf<typeof accounts> {}

/**
 * The account that has an e-mail address, or an id in any case. A claim is made before the account's profile is written, so it counts only
 * if that profile names it.
 */
export const accountClaims = table({
  name: 'account_claims',
  kind: 'conditional',
  isExported: true,
  partition: ['claim'],
  sort: [],
  columns: {
    /** `email:` or `id:`, and the text in lower case. */
    claim: text(),
    account: text(),
  },
});
export interface AccountClaimRow extends RowOf<typeof accountClaims> {}

export const iamTables = { iam, accessKeys, accessKeyUses, accounts, accountClaims } as const;
