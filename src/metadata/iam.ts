/**
 * The IAM records of an account: one partition, read and committed as one. Names are stored in lower case, because IAM compares them
 * without regard to case. Records that belong to an entity have its unique id in their names, so that a rename moves one row.
 */
import type { At, Change, MetadataStore, Outcome, SideChange, Stored } from '../ports/metadata-store.ts';
import { prefixRange } from './objects/objects.ts';
import {
  type AccessKeyRow,
  type AccessKeyUseRow,
  type AccountClaimRow,
  type AccountRow,
  accessKeys,
  accessKeyUses,
  accountClaims,
  accounts,
  type IamRow,
  iam,
} from './records/iam.ts';
import { announcing } from './shared-changes.ts';

export type IamTag = readonly [name: string, value: string];

/** The counts that have limits. */
export interface AccountRecord {
  readonly users: number;
  readonly groups: number;
  readonly roles: number;
  readonly policies: number;
  readonly devices: number;
}

interface Entity {
  /** `AIDA…`, `AGPA…`, `AROA…`, `ANPA…`: never used again. */
  readonly id: string;
  /** The name as it was given. */
  readonly name: string;
  readonly path: string;
  readonly created: number;
}
/** An entity that can have policies. */
export interface Holder extends Entity {
  /** Ids of managed policies. */
  readonly attached: readonly string[];
  /** Characters of its inline policies that are not blank. */
  readonly inlineSize: number;
}
export interface UserRecord extends Holder {
  readonly tags: readonly IamTag[];
  readonly groups: readonly string[];
  readonly keys: readonly string[];
  /** Names of its MFA devices. */
  readonly devices: readonly string[];
  readonly boundary?: string;
  /** Its keys and sessions, and those of roles that it has assumed, are refused. */
  readonly isDisabled?: true;
}
export type GroupRecord = Holder;
export interface RoleRecord extends Holder {
  readonly tags: readonly IamTag[];
  readonly description: string;
  readonly sessionSecondsMax: number;
  readonly boundary?: string;
}
export interface PolicyRecord extends Entity {
  readonly description: string;
  readonly updated: number;
  readonly tags: readonly IamTag[];
  /** Numbers of `v1`, `v2`, …; none is used again. */
  readonly versions: readonly { readonly number: number; readonly created: number }[];
  readonly defaultVersion: number;
  readonly latestVersion: number;
  readonly attachments: number;
  readonly boundaries: number;
}
type AccountStatus = 'Active' | 'Suspended' | 'Deleted';
/** What operators set about an account. An account of the settings has a profile once it was suspended or has got a root key. */
export interface AccountProfile {
  /** Absent for an account of the settings, which have its name. */
  readonly displayName?: string;
  readonly email?: string;
  /** `Deleted` stays for good: policies and ACLs may still name the id, so no other account may get it. */
  readonly status: AccountStatus;
  readonly created: number;
  /** The access keys of the account's root. */
  readonly keys: readonly string[];
}
export interface KeyRecord {
  /** The id of its user, '' for the account's root. */
  readonly user: string;
  readonly status: 'Active' | 'Inactive';
  readonly created: number;
}
export interface DeviceRecord {
  readonly name: string;
  readonly path: string;
  /** Base64 of the seed, sealed under the master key. */
  readonly seed: string;
  readonly created: number;
  /** The id of its user, '' for the account's root. */
  readonly user?: string;
  readonly enabled?: number;
}

export interface DeviceUse {
  /** The step of the last accepted code. */
  readonly step: number;
  /** Wrong codes in a row, and the time of the last of them. */
  readonly failures: number;
  readonly since: number;
  /** How many steps the clock of the device was ahead when it was resynchronized; absent: 0. */
  readonly ahead?: number;
}

/** The content of each kind of record, and its name. */
export interface IamRecords {
  /** '' */
  readonly account: AccountRecord;
  /** '' */
  readonly profile: AccountProfile;
  readonly user: UserRecord;
  readonly group: GroupRecord;
  readonly role: RoleRecord;
  readonly policy: PolicyRecord;
  /** A unique id. */
  readonly id: { readonly kind: EntityKind; readonly name: string };
  /** An access key. */
  readonly key: KeyRecord;
  /** `<id of a group>/<id of a user>` */
  readonly member: Record<never, never>;
  /** `<id of a managed policy>/<id of its holder>/<policy or boundary>`: how the holder uses the policy. */
  readonly attachment: Record<never, never>;
  /** `<id of a user, group or role>/<name>`: an inline policy. `<id of a policy>/<number>`: a version. `<id of a role>`: its trust. */
  readonly document: { readonly name: string };
  readonly device: DeviceRecord;
  /** The use of an enabled device; the only kind that changes without the account's own record. */
  readonly deviceUse: DeviceUse;
}
export type IamKind = keyof IamRecords;
export type EntityKind = 'user' | 'group' | 'role' | 'policy';
export interface IamRecord<K extends IamKind> {
  readonly name: string;
  readonly value: IamRecords[K];
  readonly text: string | undefined;
}

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;
export type StoredIam = Stored<IamRow>;

const iamAt = (account: string): At<typeof iam> => ({ table: iam, in: { account } });

/** The cast is safe: rows of a kind are only written from values of that kind. */
export const toRecord = <K extends IamKind>({ row }: Pick<StoredIam, 'row'>): IamRecord<K> => ({
  name: row.name,
  value: row.value as IamRecords[K],
  text: row.text,
});

export const findIam = (
  metadata: Pick<Metadata, 'get'>,
  account: string,
  key: { readonly kind: IamKind; readonly name: string },
): Promise<StoredIam | undefined> => metadata.get(iamAt(account), key);

/** Identifies the state of an account's records; every change gives another value. */
export const iamRevision = async (
  metadata: Pick<Metadata, 'get'>,
  account: string,
): Promise<string | undefined> => (await findIam(metadata, account, { kind: 'account', name: '' }))?.revision;

export interface IamRange {
  readonly kind: IamKind;
  readonly prefix?: string;
  /** The last name of the page before. */
  readonly after?: string | undefined;
}

/** The records of a kind by name, at most `count`. */
export async function scanIam(
  metadata: Pick<Metadata, 'scan'>,
  account: string,
  { kind, prefix = '', after, count }: IamRange & { readonly count: number },
): Promise<readonly StoredIam[]> {
  const within = { from: { kind }, ...prefixRange('name', prefix, { kind }) };
  const cursor = metadata.scan(iamAt(account), within);
  if (after !== undefined && after >= prefix) cursor.seek({ kind, name: after }, { past: true });
  const found = await cursor.next(count);
  return found.filter(({ row }) => row.kind === kind);
}

export const commitIam = (
  metadata: Pick<Metadata, 'commit'>,
  account: string,
  {
    changes,
    then,
  }: { readonly changes: readonly Change<typeof iam>[]; readonly then: readonly SideChange[] },
): Promise<Outcome<typeof iam>> =>
  announcing(
    metadata,
    { topic: 'account', about: account },
    metadata.commit(iamAt(account), changes, { then }),
  );

const keyAt = (accessKey: string): At<typeof accessKeys> => ({ table: accessKeys, in: { accessKey } });
const useAt = (accessKey: string): At<typeof accessKeyUses> => ({ table: accessKeyUses, in: { accessKey } });

export const findAccessKey = async (
  metadata: Pick<Metadata, 'get'>,
  accessKey: string,
): Promise<AccessKeyRow | undefined> => (await metadata.get(keyAt(accessKey), {}))?.row;

export const putAccessKey = (row: AccessKeyRow): SideChange => ({ at: keyAt(row.accessKey), put: row });
export const removeAccessKey = (accessKey: string): readonly SideChange[] => [
  { at: keyAt(accessKey), remove: {} },
  { at: useAt(accessKey), remove: {} },
];

export const findAccessKeyUse = async (metadata: Pick<Metadata, 'get'>, accessKey: string) =>
  (await metadata.get(useAt(accessKey), {}))?.row;

/** A use expires after the period for which the public API keeps one. The expiry also removes uses of deleted keys. */
const useCacheMs = 400 * 24 * 60 * 60 * 1000;

export const accessKeyUse = (use: AccessKeyUseRow): SideChange => ({
  at: useAt(use.accessKey),
  put: use,
  expiresAt: use.at + useCacheMs,
});

const accountsAt: At<typeof accounts> = { table: accounts, in: { slot: 0 } };

export const putAccountRow = (row: Omit<AccountRow, 'slot'>): SideChange => ({
  at: accountsAt,
  put: { slot: 0, ...row },
});
export const removeAccountRow = (account: string): SideChange => ({ at: accountsAt, remove: { account } });

/** At most `limit` accounts that have a profile, by id, from the first one after `after`. */
export async function scanAccounts(
  metadata: Pick<Metadata, 'scan'>,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<readonly AccountRow[]> {
  const cursor = metadata.scan(accountsAt, after === undefined ? {} : { after: { account: after } });
  return (await cursor.next(limit)).map(({ row }) => row);
}

/** Two ids that differ in upper and lower case only have the same claim. */
export const idClaim = (account: string): string => `id:${account.toLowerCase()}`;

const claimAt = (claim: string): At<typeof accountClaims> => ({ table: accountClaims, in: { claim } });

export const findAccountClaim = (
  metadata: Pick<Metadata, 'get'>,
  claim: string,
): Promise<Stored<AccountClaimRow> | undefined> => metadata.get(claimAt(claim), {});

/** False when the claim has changed since `before` was read. */
export const putAccountClaim = async (
  metadata: Pick<Metadata, 'commit'>,
  row: AccountClaimRow,
  before: Stored<AccountClaimRow> | undefined,
): Promise<boolean> =>
  (await metadata.commit(claimAt(row.claim), [{ put: row, expect: before?.revision ?? 'absent' }], {}))
    .applied;
