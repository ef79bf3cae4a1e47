/**
 * The export of an account, and its import, each record by itself: what is missing is created, what differs is changed where the request
 * says so, and what cannot be is a conflict with its reason. A record that was imported already changes nothing.
 */
import { refuseBarePrincipals } from '../../auth/bucket-policy.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  assertKeyIsFree,
  findKey,
  importAccessKey,
  openAccessKey,
  updateAccessKey,
} from '../../domain/iam/access-keys.ts';
import {
  createKeylessAccount,
  findProfile,
  hasHoldings,
  importRootKey,
  updateAccount,
  updateRootKey,
} from '../../domain/iam/account-profiles.ts';
import { attachPolicy, changeBoundary, detachPolicy } from '../../domain/iam/attachments.ts';
import { findAnyCase, getNamed, listEntities } from '../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  pageGroups,
  removeUserFromGroup,
  updateGroup,
} from '../../domain/iam/groups.ts';
import { deleteInlinePolicy, type HolderKind, putInlinePolicy } from '../../domain/iam/inline-policies.ts';
import { changePolicyTags, createPolicy, createVersion } from '../../domain/iam/managed-policies.ts';
import { createRole, updateRole } from '../../domain/iam/roles.ts';
import { createUser, updateUser } from '../../domain/iam/users.ts';
import { putAccountQuota } from '../../domain/quotas/quota-limits.ts';
import { accountHolder, type QuotaHolder, userHolder } from '../../domain/quotas/scopes.ts';
import { policyTextMax } from '../../protocol/admin/iam.ts';
import { transferredMax } from '../../protocol/admin/iam-transfer.ts';
import { rootArn } from '../../protocol/arns.ts';
import {
  type AdminHandler,
  type AdminRequest,
  assertMayChangeRootKeys,
  findAccount,
  jsonReply,
} from './call.ts';
import { policiesJson, readPolicy, toTags } from './iam-entities.ts';
import {
  entityKinds,
  entityRecord,
  fieldsOfKind,
  type IamRecord,
  kindsInOrder,
  readRecord,
} from './iam-records.ts';

interface Plan {
  readonly outcome: 'created' | 'changed' | 'unchanged' | 'conflict';
  readonly changes: readonly string[];
  readonly notes: readonly string[];
}

const toConflict = (changes: readonly string[], ...notes: readonly string[]): Plan => ({
  outcome: 'conflict',
  changes,
  notes,
});

/** One text for equal values, whatever the order of lists and maps. */
function normalize(value: unknown): string {
  if (value instanceof Map) return JSON.stringify([...value].sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify(Array.isArray(value) ? value.toSorted() : value);
}

const isSame = (field: keyof IamRecord, { input, present }: { input: IamRecord; present: IamRecord }) =>
  field === 'keys' || normalize(input[field]) === normalize(present[field] ?? emptyValue(field));

/** What a record has that lacks the field. */
const emptyValue = (field: keyof IamRecord): unknown =>
  field === 'quota' ? { maxBuckets: 0, totalMaxBytes: 0 } : field === 'email' ? '' : undefined;

/** @throws MalformedJSON for a field that the kind of the record does not have */
function assertFields(record: IamRecord): void {
  const { kind, name, status } = record;
  const taken = new Set<string>(['kind', 'name', ...fieldsOfKind[kind]]);
  const surplus = Object.entries(record).find(([field, value]) => value !== undefined && !taken.has(field));
  if (surplus !== undefined)
    throw fail('MalformedJSON', `The record ${kind} ${name} has "${surplus[0]}", which ${kind} do not have.`);
  if (status === (kind === 'users' ? 'Suspended' : 'Disabled'))
    throw fail('MalformedJSON', `The status of ${kind} is never ${status}.`);
  if (kind !== 'account' && !/^[\w+=,.@-]{1,128}$/.test(name))
    throw fail('MalformedJSON', 'The name of a record must be letters, digits and any of _+=,.@-');
}

/** @throws MalformedPolicyDocument */
async function assertDocuments(ctx: Context, account: string, record: IamRecord): Promise<void> {
  const { document, trust, inlinePolicies = new Map<string, string>() } = record;
  for (const text of [...(document === undefined ? [] : [document]), ...inlinePolicies.values()])
    parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  if (trust !== undefined) await refuseBarePrincipals(ctx, account, parsePolicy(trust, { kind: 'trust' }));
}

/** Policies about what a record names hold for the import too. @throws AccessDenied */
async function permitRecord({ permit }: Pick<AdminRequest, 'permit'>, record: IamRecord): Promise<void> {
  const { kind, name, groups = [], policies = [], boundary } = record;
  await permit({ kind, name });
  for (const group of groups) await permit({ groups: group });
  for (const policy of [...policies, ...(boundary === undefined ? [] : [boundary])])
    await permit({ policies: policy });
}

/** What an import of the record does. */
async function planRecord(
  ctx: Context,
  account: string,
  { record, overwrite }: { readonly record: IamRecord; readonly overwrite: boolean },
): Promise<Plan> {
  const { kind, name, keys = [] } = record;
  const present = await readRecord(ctx, account, record);
  if (present === undefined) {
    const taken = await nameIsTaken(ctx, account, record);
    if (taken !== undefined) return toConflict([], taken);
    if (kind === 'account' && !overwrite && (await hasHoldings(ctx, account)))
      return toConflict(
        [],
        'Buckets or IAM records of it exist: send overwrite to create the account with them.',
      );
  }
  const known = new Map(present?.keys?.map((key) => [key.accessKey, key.status]) ?? []);
  const missing = keys.filter(({ accessKey }) => !known.has(accessKey));
  const added = missing.filter(({ secretKey }) => secretKey !== undefined);
  const notes = missing
    .filter(({ secretKey }) => secretKey === undefined)
    .map(({ accessKey }) => `The key ${accessKey} is left out, because the record has no secret of it.`);
  const busy = await keyInUse(ctx, account, added);
  if (busy !== undefined) return toConflict(['keys'], busy, ...notes);
  if (known.size + added.length > 2)
    return toConflict(['keys'], `${name} has ${known.size} keys already, and two at most.`, ...notes);
  if (present === undefined) return { outcome: 'created', changes: [], notes };
  const differing = fieldsOfKind[kind].filter(
    (field) => record[field] !== undefined && !isSame(field, { input: record, present }),
  );
  const restated = keys.some(
    ({ accessKey, status }) => known.has(accessKey) && known.get(accessKey) !== status,
  );
  const changes = [...differing, ...(restated || added.length > 0 ? ['keys'] : [])];
  if (changes.length === 0) return { outcome: 'unchanged', changes, notes };
  if ((differing.length > 0 || restated) && !overwrite)
    return toConflict(changes, 'It exists and differs: send overwrite to change it.', ...notes);
  return { outcome: 'changed', changes, notes };
}

/** Why nothing of the name can be created. */
async function nameIsTaken(
  ctx: Context,
  account: string,
  { kind, name }: IamRecord,
): Promise<string | undefined> {
  if (kind !== 'account') {
    const other = await findAnyCase(ctx, account, { kind: entityKinds[kind], name });
    return other && `${other.name} exists, whose name differs in upper and lower case only.`;
  }
  if (name !== account) return `The record is about the account ${name}.`;
  if ((await findProfile(ctx.metadata, account))?.status === 'Deleted')
    return `The account ${account} was deleted, and ids of accounts are not used again.`;
  return undefined;
}

async function keyInUse(
  ctx: Context,
  account: string,
  keys: NonNullable<IamRecord['keys']>,
): Promise<string | undefined> {
  for (const { accessKey } of keys) {
    if ((await findKey(ctx, account, accessKey)) !== undefined)
      return `The access key ${accessKey} belongs to another user of the account.`;
    try {
      await assertKeyIsFree(ctx, accessKey);
    } catch (cause) {
      if (cause instanceof Refusal) return cause.message;
      throw cause;
    }
  }
  return undefined;
}

/** Refusals that say that the record does not fit to what exists; others end the request. */
const conflicts = new Set([
  'DeleteConflict',
  'EntityAlreadyExists',
  'InvalidArgument',
  'LimitExceeded',
  'MalformedPolicy',
  'NoSuchEntity',
]);

async function importRecord(
  ctx: Context,
  account: string,
  asked: { readonly record: IamRecord; readonly overwrite: boolean; readonly dryRun: boolean },
): Promise<Plan> {
  const { record, dryRun } = asked;
  const plan = await planRecord(ctx, account, asked);
  if (dryRun || plan.outcome === 'conflict' || plan.outcome === 'unchanged') return plan;
  try {
    await applyRecord(ctx, account, { record, isNew: plan.outcome === 'created', changes: plan.changes });
    return plan;
  } catch (cause) {
    if (!(cause instanceof Refusal) || !conflicts.has(cause.code)) throw cause;
    // A repeated import goes on where this one ended.
    return toConflict(plan.changes, cause.message, ...plan.notes);
  }
}

/** What the audit row says about each record that was created or changed, by kind and name. */
const describeImported = (rows: readonly (Plan & { readonly kind: string; readonly name: string })[]) =>
  Object.fromEntries(
    rows
      .filter(({ outcome }) => outcome === 'created' || outcome === 'changed')
      .map(({ kind, name, outcome, changes }) => [`${kind}/${name}`, [outcome, ...changes].join(' ')]),
  );

export const ImportIam: AdminHandler<'ImportIam'> = async (ctx, call) => {
  const { params, body, identity } = call;
  const { records, overwrite = false, dryRun = false } = body;
  const account = params.get('account') ?? '';
  call.record?.about(rootArn(account));
  const known = await ctx.credentials.account({ owner: account });
  for (const record of records) {
    assertFields(record);
    if (record.kind === 'account' && record.keys !== undefined && record.keys.length > 0)
      assertMayChangeRootKeys(known, identity);
    await assertDocuments(ctx, account, record);
    await permitRecord(call, record);
  }
  const rows: (Plan & { readonly kind: string; readonly name: string })[] = [];
  for (const record of records) {
    const plan = await importRecord(ctx, account, { record, overwrite, dryRun });
    rows.push({ kind: record.kind, name: record.name, ...plan });
  }
  if (!dryRun) call.record?.change?.({}, { imported: describeImported(rows) });
  return jsonReply({ rows });
};

// Makes what a record names, or changes the fields of it that differ. Each step can be repeated.

interface Apply {
  readonly record: IamRecord;
  readonly isNew: boolean;
  /** The fields of an existing one that differ. */
  readonly changes: readonly string[];
}

/** @throws what the operations on accounts, users, groups, roles and policies throw */
async function applyRecord(ctx: Context, account: string, apply: Apply): Promise<void> {
  const { kind } = apply.record;
  if (kind === 'account') return applyAccount(ctx, account, apply);
  if (kind === 'policies') return applyPolicy(ctx, account, apply);
  if (kind === 'groups') return applyGroup(ctx, account, apply);
  if (kind === 'roles') return applyRole(ctx, account, apply);
  return applyUser(ctx, account, apply);
}

async function applyAccount(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { displayName, email, status, keys = [], quota } = record;
  const isConfigured = (await ctx.credentials.account({ owner: account }))?.isConfigured === true;
  if (isConfigured && (changes.includes('displayName') || changes.includes('email')))
    throw fail('InvalidArgument', `SVC_CREDENTIALS sets the name and the e-mail address of ${account}.`);
  const accountStatus = status === 'Disabled' ? undefined : status;
  const change = {
    ...(changes.includes('displayName') ? { displayName } : {}),
    ...(changes.includes('email') ? { email } : {}),
    ...(accountStatus !== undefined && changes.includes('status') ? { status: accountStatus } : {}),
  };
  if (
    accountStatus === 'Suspended' &&
    (await ctx.credentials.account({ owner: account }))?.isOperators === true
  )
    throw fail('DeleteConflict', `${account} is an account of operators, which is not suspended.`);
  const applyChange = async (): Promise<void> => {
    if (Object.keys(change).length > 0) await updateAccount(ctx, account, change);
  };
  if (isNew)
    await createKeylessAccount(ctx, account, { displayName, email, status: accountStatus, adopt: true });
  // An account is suspended before its keys change and activated afterwards, so that no key signs that the record has switched off.
  if (accountStatus === 'Suspended') await applyChange();
  await applyKeys(ctx, account, {
    keys,
    add: (key) => importRootKey(ctx, account, key),
    setStatus: (key) => updateRootKey(ctx, account, key),
  });
  if (quota !== undefined && (isNew || changes.includes('quota')))
    await applyQuota(ctx, accountHolder(account), quota);
  if (accountStatus !== 'Suspended') await applyChange();
}

const applyQuota = (
  ctx: Context,
  holder: QuotaHolder,
  quota: NonNullable<IamRecord['quota']>,
): Promise<void> => putAccountQuota(ctx, holder, { quota: () => quota });

async function applyPolicy(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/', description = '', document, tags } = record;
  if (isNew) {
    if (document === undefined) throw fail('InvalidArgument', `The policy ${name} has no document.`);
    await createPolicy(ctx, account, { name, path, description, text: document, tags: toTags(tags) });
    return;
  }
  assertUnchangeable(record, changes, ['path', 'description']);
  const policy = { account, name, path: (await getNamed(ctx, account, { kind: 'policy', name })).path };
  if (document !== undefined && changes.includes('document'))
    await createVersion(ctx, account, { policy, text: document, isDefault: true, makeSpace: true });
  if (tags !== undefined && changes.includes('tags'))
    await changePolicyTags(ctx, account, { policy, to: () => toTags(tags) });
}

/** The path of a policy is part of its ARN, which others name. */
function assertUnchangeable(record: IamRecord, changes: readonly string[], fields: readonly string[]): void {
  const field = fields.find((each) => changes.includes(each));
  if (field !== undefined)
    throw fail('InvalidArgument', `The ${field} of ${record.kind} ${record.name} cannot be changed.`);
}

async function applyGroup(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/' } = record;
  if (isNew) await createGroup(ctx, account, { name, path });
  else if (changes.includes('path'))
    await updateGroup(ctx, account, { group: name, to: { name: undefined, path } });
  await applyPolicies(ctx, account, record);
}

async function applyRole(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/', description = '', trust, sessionSeconds, tags } = record;
  if (isNew) {
    if (trust === undefined) throw fail('InvalidArgument', `The role ${name} has no trust policy.`);
    const sessionSecondsMax = sessionSeconds ?? 3_600;
    const role = { name, path, description, trust, sessionSecondsMax, tags: toTags(tags) };
    await createRole(ctx, account, { ...role, boundary: undefined });
  } else {
    assertUnchangeable(record, changes, ['path']);
    const to = {
      trust,
      description: record.description,
      sessionSecondsMax: sessionSeconds,
      ...(tags === undefined ? {} : { tags: () => toTags(tags) }),
    };
    await updateRole(ctx, account, { role: name, to });
  }
  await applyBoundary(ctx, account, record);
  await applyPolicies(ctx, account, record);
}

async function applyUser(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path, tags, status, groups, keys = [], quota } = record;
  if (isNew)
    await createUser(ctx, account, { name, path: path ?? '/', tags: toTags(tags), boundary: undefined });
  // A user is disabled before its keys change and enabled afterwards, so that no key signs that the record has switched off.
  const isDisabled = status === 'Disabled' ? true : undefined;
  const to = { path, isDisabled, ...(tags === undefined ? {} : { tags: () => toTags(tags) }) };
  await updateUser(ctx, account, { user: name, to });
  await applyBoundary(ctx, account, record);
  await applyPolicies(ctx, account, record);
  if (groups !== undefined) {
    const present = (await pageGroups(ctx, account, name)).map((group) => group.name);
    for (const group of present)
      if (!groups.includes(group)) await removeUserFromGroup(ctx, account, { group, user: name });
    for (const group of groups) await addUserToGroup(ctx, account, { group, user: name });
  }
  const { id } = await getNamed(ctx, account, { kind: 'user', name });
  if (quota !== undefined && (isNew || changes.includes('quota')))
    await applyQuota(ctx, userHolder(account, id), quota);
  await applyKeys(ctx, account, {
    keys,
    add: ({ status, ...pair }) => importAccessKey(ctx, account, { user: name, pair, status }),
    setStatus: (key) => updateAccessKey(ctx, account, { user: name, ...key }),
  });
  if (status === 'Active' && changes.includes('status'))
    await updateUser(ctx, account, { user: name, to: { isDisabled: false } });
}

type RecordedKey = NonNullable<IamRecord['keys']>[number];

/** Adds the keys that are missing with their status, where the record has their secrets, and gives the others their status. */
async function applyKeys(
  ctx: Context,
  account: string,
  {
    keys,
    add,
    setStatus,
  }: {
    readonly keys: readonly RecordedKey[];
    add(key: RecordedKey & { readonly secretKey: string }): Promise<unknown>;
    setStatus(key: Pick<RecordedKey, 'accessKey' | 'status'>): Promise<void>;
  },
): Promise<void> {
  for (const { accessKey, secretKey, status } of keys) {
    const present = await findKey(ctx, account, accessKey);
    if (present === undefined) {
      if (secretKey !== undefined) await add({ accessKey, secretKey, status });
    } else if (present.status !== status) await setStatus({ accessKey, status });
  }
}

async function applyBoundary(ctx: Context, account: string, record: IamRecord): Promise<void> {
  const { kind, name, boundary } = record;
  if (boundary === undefined || (kind !== 'users' && kind !== 'roles')) return;
  const holder = { kind: entityKinds[kind], name };
  await changeBoundary(ctx, account, { holder, policy: readPolicy(account, boundary) });
}

/** Attaches and detaches policies, so that exactly those of the record are attached; the same for inline policies. */
async function applyPolicies(ctx: Context, account: string, record: IamRecord): Promise<void> {
  const { kind, name, policies, inlinePolicies } = record;
  if (kind === 'account' || kind === 'policies') return;
  const holder: { readonly kind: HolderKind; readonly name: string } = { kind: entityKinds[kind], name };
  const present = await policiesJson(ctx, account, holder);
  if (policies !== undefined) {
    for (const arn of policies)
      if (!present.policies.includes(arn))
        await attachPolicy(ctx, account, { holder, policy: readPolicy(account, arn) });
    for (const arn of present.policies)
      if (!policies.includes(arn))
        await detachPolicy(ctx, account, { holder, policy: readPolicy(account, arn) });
  }
  if (inlinePolicies === undefined) return;
  for (const policy of present.inlinePolicies)
    if (!inlinePolicies.has(policy)) await deleteInlinePolicy(ctx, account, { holder, policy });
  for (const [policy, text] of inlinePolicies) await putInlinePolicy(ctx, account, { holder, policy, text });
}

// The export of an account: its records in pages, and on request the secrets of its keys.

/** Where the next page begins: a kind, and the last name of it that was read. */
interface Position {
  readonly kind: (typeof kindsInOrder)[number];
  readonly after?: string | undefined;
}

function readPosition(text: string | undefined): Position {
  if (text === undefined) return { kind: 'account' };
  const [name = '', after = ''] = text.split(/:(.*)/s);
  const kind = kindsInOrder.find((each) => each === name);
  if (kind === undefined)
    throw fail('InvalidArgument', { message: '"after" is no `next` of a page.', field: 'after' });
  return after === '' ? { kind } : { kind, after };
}

const nextKind = (kind: Position['kind']): Position | undefined => {
  const next = kindsInOrder[kindsInOrder.indexOf(kind) + 1];
  return next && { kind: next };
};

async function readPage(
  ctx: Context,
  account: string,
  { at, limit }: { readonly at: Position; readonly limit: number },
): Promise<{ readonly records: readonly IamRecord[]; readonly next: Position | undefined }> {
  const records: IamRecord[] = [];
  let position: Position | undefined = at;
  while (position !== undefined && records.length < limit) {
    const { kind, after }: Position = position;
    if (kind === 'account') {
      const record = await readRecord(ctx, account, { kind, name: account });
      if (record !== undefined) records.push(record);
      position = nextKind(kind);
      continue;
    }
    const max = limit - records.length;
    const page = await listEntities(ctx, account, { kind: entityKinds[kind], pathPrefix: '/', after, max });
    for (const found of page.items) records.push(await entityRecord(ctx, account, { kind, found }));
    position = page.next === undefined ? nextKind(kind) : { kind, after: page.next };
  }
  return { records, next: position };
}

/** Maps as objects. */
const toJson = ({ tags, inlinePolicies, ...record }: IamRecord) => ({
  ...record,
  ...(tags === undefined ? {} : { tags: Object.fromEntries(tags) }),
  ...(inlinePolicies === undefined ? {} : { inlinePolicies: Object.fromEntries(inlinePolicies) }),
});

export const ExportIam: AdminHandler<'ExportIam'> = async (ctx, { params, query }) => {
  const { owner } = await findAccount(ctx, params);
  const limit = Math.min(query.limit ?? transferredMax, transferredMax);
  const { records, next } = await readPage(ctx, owner, { at: readPosition(query.after), limit });
  return jsonReply({
    rows: records.map(toJson),
    ...(next === undefined ? {} : { next: `${next.kind}:${next.after ?? ''}` }),
  });
};

export const ExportIamSecrets: AdminHandler<'ExportIamSecrets'> = async (ctx, call) => {
  const { params, body, record, identity } = call;
  const account = await findAccount(ctx, params);
  const { owner } = account;
  record?.about(rootArn(owner));
  const rows: { readonly accessKey: string; readonly secretKey: string }[] = [];
  for (const accessKey of body.accessKeys) {
    const key = await findKey(ctx, owner, accessKey);
    if (key?.user === '') assertMayChangeRootKeys(account, identity);
    const opened = key === undefined ? undefined : await openAccessKey(ctx, accessKey);
    if (opened?.account !== owner)
      throw fail('NoSuchEntity', `The account ${owner} has no access key ${accessKey}.`);
    rows.push({ accessKey, secretKey: opened.secretKey });
  }
  return jsonReply({ rows });
};
