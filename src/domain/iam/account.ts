/**
 * Changes of an account's IAM records. Every change also writes the account's own record, which holds the counts that have limits.
 * Of two concurrent changes the later one is decided again, so everything that a change has read is still true when it commits.
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type AccountRecord,
  commitIam,
  findIam,
  type IamKind,
  type IamRange,
  type IamRecord,
  type IamRecords,
  iamRevision,
  type KeyRecord,
  type StoredIam,
  scanIam,
  toRecord,
} from '../../metadata/iam.ts';
import { removeLoginsOf } from '../../metadata/logins.ts';
import type { iam } from '../../metadata/records/iam.ts';
import type { Change, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { State } from '../common/recorder.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';

export type AccountCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'> & {
  /** Adds its rows to the commits that change an account. */
  readonly record?: Recorder | undefined;
};
type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;

const empty: AccountRecord = { users: 0, groups: 0, roles: 0, policies: 0, devices: 0 };
export const accountLimits: AccountRecord = {
  users: 5_000,
  groups: 300,
  roles: 1_000,
  policies: 1_500,
  devices: 5_000,
};

/** The records of an account during a change, with the writes of the change. */
export class AccountDraft {
  readonly account: string;
  readonly #metadata: Metadata;
  readonly #seen = new Map<string, StoredIam | undefined>();
  readonly #changes = new Map<string, Change<typeof iam>>();
  readonly #then: SideChange[] = [];
  #noted: { readonly before: State; readonly after: State } = { before: {}, after: {} };
  #counts: AccountRecord = empty;

  constructor(metadata: Metadata, account: string) {
    this.#metadata = metadata;
    this.account = account;
  }

  /** The record, with this draft's own writes applied. */
  async find<K extends IamKind>(kind: K, name: string): Promise<IamRecord<K> | undefined> {
    const change = this.#changes.get(`${kind} ${name}`);
    if (change !== undefined) return 'put' in change ? toRecord({ row: change.put }) : undefined;
    const stored = await this.#see(kind, name);
    return stored === undefined ? undefined : toRecord(stored);
  }

  async #see(kind: IamKind, name: string): Promise<StoredIam | undefined> {
    const key = `${kind} ${name}`;
    if (!this.#seen.has(key))
      this.#seen.set(key, await findIam(this.#metadata, this.account, { kind, name }));
    return this.#seen.get(key);
  }

  async isAny(range: IamRange): Promise<boolean> {
    return (await scanIam(this.#metadata, this.account, { ...range, count: 1 })).length > 0;
  }

  async put<K extends IamKind>(kind: K, name: string, value: IamRecords[K], text?: string): Promise<void> {
    const stored = await this.#see(kind, name);
    const row = { account: this.account, kind, name, value, ...(text === undefined ? {} : { text }) };
    this.#changes.set(`${kind} ${name}`, { put: row, expect: stored?.revision ?? 'absent' });
  }

  async remove(kind: IamKind, name: string): Promise<void> {
    const stored = await this.#see(kind, name);
    if (stored === undefined) return;
    this.#changes.set(`${kind} ${name}`, { remove: { kind, name }, expect: stored.revision });
  }

  /** A change of another table that applies with this one. */
  also(...changes: readonly SideChange[]): void {
    this.#then.push(...changes);
  }

  /** Adds to what the audit row may show: facts that no record has under the names of the operator API. */
  note(change: { readonly before?: State; readonly after?: State }): void {
    const { before, after } = this.#noted;
    this.#noted = { before: { ...before, ...change.before }, after: { ...after, ...change.after } };
  }

  /** @throws LimitExceeded */
  count(what: keyof AccountRecord, by: 1 | -1): void {
    const counted = this.#counts[what] + by;
    if (by > 0 && counted > accountLimits[what])
      throw fail('LimitExceeded', `Cannot exceed quota for ${what} of the account: ${accountLimits[what]}`);
    this.#counts = { ...this.#counts, [what]: counted };
  }

  async open(): Promise<void> {
    this.#counts = (await this.find('account', ''))?.value ?? empty;
  }

  /** False when another change came first. */
  async commit(record: Recorder | undefined): Promise<boolean> {
    if (this.#changes.size === 0) return true;
    record?.change?.(...this.#states());
    await this.put('account', '', this.#counts);
    const outcome = await commitIam(this.#metadata, this.account, {
      changes: [...this.#changes.values()],
      then: [...this.#then, ...(await recorded(record))],
    });
    if (!outcome.applied) return false;
    record?.applied();
    // The cast: a row of the kind `key` has a `KeyRecord`.
    for (const [name, change] of this.#changes)
      if (
        name.startsWith('key ') &&
        (!('put' in change) || (change.put.value as KeyRecord).status !== 'Active')
      )
        await removeLoginsOf(this.#metadata, name.slice(4));
    return true;
  }

  /** The changed records before and after. */
  #states(): readonly [State, State] {
    let { before, after } = this.#noted;
    for (const [key, change] of this.#changes) {
      const former = this.#seen.get(key);
      if (former !== undefined) before = { ...before, ...recordState(former) };
      if ('put' in change) after = { ...after, ...recordState({ row: change.put }) };
    }
    return [before, after];
  }
}

/** @param decide changes the draft; called again when another change committed first */
export function changeAccount<T>(
  ctx: AccountCtx,
  account: string,
  decide: (draft: AccountDraft) => Promise<T>,
): Promise<T> {
  return retryInTurn(ctx, `account ${account}`, async () => {
    const draft = new AccountDraft(ctx.metadata, account);
    await draft.open();
    const decided = await decide(draft);
    return (await draft.commit(ctx.record)) ? { value: decided } : undefined;
  });
}

/** Attempts to read records that are being changed. */
const looksMax = 8;

/** Reads an account's records in one state: runs `read` again if they changed meanwhile. @returns its result and the revision */
export async function ofOneState<T>(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  read: () => Promise<T>,
): Promise<{ readonly revision: string | undefined; readonly value: T }> {
  let revision = await iamRevision(metadata, account);
  for (let look = 0; look < looksMax; look += 1) {
    const value = await read();
    const now = await iamRevision(metadata, account);
    if (now === revision) return { revision, value };
    revision = now;
  }
  throw fail('OperationAborted');
}

export async function readCounts(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
): Promise<AccountRecord> {
  const stored = await findIam(metadata, account, { kind: 'account', name: '' });
  return stored === undefined ? empty : toRecord<'account'>(stored).value;
}

// The records of IAM as the operator API shows them, for the audit rows of their changes. No kind with a secret is among them.

type Displayed = 'profile' | 'user' | 'group' | 'role' | 'policy' | 'key';

const states: { readonly [K in Displayed]: (record: IamRecord<K>) => State } = {
  profile: ({ value: { displayName, email, status } }) => ({ displayName, email, status }),
  user: ({ value: { name, path, isDisabled } }) => ({
    name,
    path,
    status: isDisabled === true ? 'Disabled' : 'Active',
  }),
  group: ({ value: { name, path } }) => ({ name, path }),
  role: ({ value: { name, path, sessionSecondsMax } }) => ({
    name,
    path,
    sessionSeconds: sessionSecondsMax,
  }),
  policy: ({ value: { name, path, defaultVersion } }) => ({
    name,
    path,
    defaultVersion,
  }),
  key: ({ name, value: { status } }) => ({ accessKeys: { [name]: status } }),
};

const isVisible = (kind: string): kind is Displayed => Object.hasOwn(states, kind);

function recordState(stored: Pick<StoredIam, 'row'>): State {
  const { kind } = stored.row;
  if (!isVisible(kind)) return {};
  // The cast is safe: the record is of the kind that names the function.
  const toState = states[kind] as (record: IamRecord<Displayed>) => State;
  return toState(toRecord<Displayed>(stored));
}
