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

export const iamTables = { iam, accessKeys, accessKeyUses } as const;
