/**
 * Imports the records of an export, each by itself: what is missing is created, what differs is changed where the request says so, and
 * what cannot be is a conflict with its reason. A record that was imported already changes nothing.
 */
import { refuseBarePrincipals } from '../../../../auth/authorization/bare-principals.ts';
import { parsePolicy } from '../../../../auth/policy/document/document.ts';
import type { Context } from '../../../../context.ts';
import { assertKeyIsFree, findKey } from '../../../../domain/iam/access-keys.ts';
import { findProfile } from '../../../../domain/iam/account-profiles.ts';
import { findAnyCase } from '../../../../domain/iam/entities.ts';
import { fail, Refusal } from '../../../../errors/refusal.ts';
import { policyTextMax } from '../../../../protocol/operations/admin/iam.ts';
import { rootArn } from '../../../../protocol/request/arns.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from '../../call.ts';
import { applyRecord } from './apply-record.ts';
import { entityKinds, fieldsOfKind, type IamRecord, readRecord } from './iam-records.ts';

interface Plan {
  readonly outcome: 'created' | 'changed' | 'unchanged' | 'conflict';
  readonly changes: readonly string[];
  readonly notes: readonly string[];
}

const conflictOf = (changes: readonly string[], ...notes: readonly string[]): Plan => ({
  outcome: 'conflict',
  changes,
  notes,
});

/** One text for equal values, whatever the order of lists and maps. */
function normalize(value: unknown): string {
  if (value instanceof Map) return JSON.stringify([...value].sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify(Array.isArray(value) ? value.toSorted() : value);
}

const isSame = (field: keyof IamRecord, { given, present }: { given: IamRecord; present: IamRecord }) =>
  field === 'keys' || normalize(given[field]) === normalize(present[field] ?? emptyOf(field));

/** What a record has that lacks the field. */
const emptyOf = (field: keyof IamRecord): unknown =>
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
    if (taken !== undefined) return conflictOf([], taken);
  }
  const known = new Map(present?.keys?.map((key) => [key.accessKey, key.status]) ?? []);
  const missing = keys.filter(({ accessKey }) => !known.has(accessKey));
  const added = missing.filter(({ secretKey }) => secretKey !== undefined);
  const notes = missing
    .filter(({ secretKey }) => secretKey === undefined)
    .map(({ accessKey }) => `The key ${accessKey} is left out, because the record has no secret of it.`);
  const busy = await keyInUse(ctx, account, added);
  if (busy !== undefined) return conflictOf(['keys'], busy, ...notes);
  if (known.size + added.length > 2)
    return conflictOf(['keys'], `${name} has ${known.size} keys already, and two at most.`, ...notes);
  if (present === undefined) return { outcome: 'created', changes: [], notes };
  const differing = fieldsOfKind[kind].filter(
    (field) => record[field] !== undefined && !isSame(field, { given: record, present }),
  );
  const restated = keys.some(
    ({ accessKey, status }) => known.has(accessKey) && known.get(accessKey) !== status,
  );
  const changes = [...differing, ...(restated || added.length > 0 ? ['keys'] : [])];
  if (changes.length === 0) return { outcome: 'unchanged', changes, notes };
  if ((differing.length > 0 || restated) && !overwrite)
    return conflictOf(changes, 'It exists and differs: send overwrite to change it.', ...notes);
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
    return conflictOf(plan.changes, cause.message, ...plan.notes);
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
  const { params, body } = call;
  const { records, overwrite = false, dryRun = false } = body;
  const account = params.get('account') ?? '';
  call.record?.about(rootArn(account));
  for (const record of records) {
    assertFields(record);
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
