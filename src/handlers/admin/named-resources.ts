/** Reads which resources a request to the operator API names, from the rows of its table, and what policies say about them. */
import { type AdminResource, findDenial } from '../../auth/administer.ts';
import type { Caller } from '../../auth/authorize.ts';
import type { Identity } from '../../auth/identity.ts';
import type { Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import type { AdminOperation } from '../../protocol/admin/row.ts';
import { parseArn } from '../../protocol/arns.ts';

type Ctx = Pick<Context, 'credentials'>;
export type Fields = Readonly<Record<string, unknown>>;

/** What `{field.view}` reads of a value; undefined where the value has nothing of the kind. */
const views: Readonly<Record<string, (ctx: Ctx, value: string) => Promise<string | undefined>>> = {
  account: resolveAccount,
  name: async (_, arn) => parseArn(arn)?.name,
  bucket: async (_, resource) =>
    resource.startsWith('bucket:') ? resource.slice('bucket:'.length) : undefined,
  peer: async (_, destination) => destination.slice(0, Math.max(0, destination.indexOf('/'))),
};

/** The account of an ARN, of an access key, or the value itself. */
async function resolveAccount({ credentials }: Ctx, value: string): Promise<string | undefined> {
  const [prefix, , , , account] = value.split(':');
  if (prefix === 'arn') return account;
  // A key of temporary credentials is not found without its token.
  const found = await credentials.find(value).catch(() => undefined);
  return found?.owner ?? value;
}

async function read(ctx: Ctx, placeholder: string, fields: Fields): Promise<readonly string[]> {
  for (const choice of placeholder.split('|')) {
    const [field = '', view] = choice.split('.');
    const value = fields[field];
    if (view === 'keys' && value instanceof Map) return [...value.keys()];
    if (view === 'accounts' && Array.isArray(value)) return value.map(({ account }) => String(account));
    if (typeof value !== 'string' || value === '') continue;
    const seen = view === undefined ? value : await views[view]?.(ctx, value);
    if (seen !== undefined && seen !== '') return [seen];
  }
  return [];
}

/** The paths of a template: none where a field is absent, several where a map has several names. */
async function expand(ctx: Ctx, template: string, fields: Fields): Promise<readonly string[]> {
  let paths: readonly string[] = [''];
  for (const piece of template.split(/(\{[^{}]+\})/)) {
    const texts = piece.startsWith('{') ? await read(ctx, piece.slice(1, -1), fields) : [piece];
    paths = paths.flatMap((start) => texts.map((text) => start + text));
  }
  return paths;
}

/** @param fields the parameters of the path and the query, the fields of the body, and `own`: the account of the caller */
export async function namedResources(
  ctx: Ctx,
  { names = {} }: Pick<AdminOperation, 'names'>,
  fields: Fields,
): Promise<readonly AdminResource[]> {
  const named: AdminResource[] = [];
  for (const [field, resource] of Object.entries(names)) {
    // `own` stands in only for a field that the request may leave out.
    if ('noResource' in resource || fields[field] === undefined) continue;
    for (const path of await expand(ctx, resource.path, fields)) named.push({ path, rule: resource.rule });
  }
  return named;
}

/** Whether the request is about something of the caller's account that is open to every account. */
export async function isOwnRequest(
  ctx: Ctx & Pick<Context, 'metadata'>,
  { tenants }: Pick<AdminOperation, 'tenants'>,
  { identity, fields }: { readonly identity: Identity; readonly fields: Fields },
): Promise<boolean | undefined> {
  if (tenants === undefined) return undefined;
  if (identity === undefined) return false;
  // A user of another account may have the name of this one.
  const { account = identity.owner } = fields;
  if (account !== identity.owner) return false;
  for (const field of ('callers' in tenants && tenants.callers) || []) {
    const caller = fields[field];
    // Unknown keys and keys of other accounts get the same answer, so that a tenant cannot find out which keys exist.
    if (typeof caller === 'string' && (await resolveAccount(ctx, caller)) !== identity.owner) return false;
  }
  const named = fields['bucket' in tenants ? tenants.bucket : tenants.account];
  if (typeof named !== 'string' || named === '') return false;
  const owner = 'bucket' in tenants ? (await lookUpBucket(ctx, named))?.owner : named;
  return owner === identity.owner;
}

export interface Entries {
  /** The refusal of an entry of a list of the row that a Deny covers, or undefined. */
  denialOf(list: string, entry: object): Promise<Refusal | undefined>;
}

/** Compares the entries of the lists of a reply with the policies of the caller; each resource is compared once for a request. */
export function openEntries(
  ctx: Context,
  { lists = {} }: Pick<AdminOperation, 'lists'>,
  asked: { readonly caller: Caller; readonly action: string; readonly path: string; readonly fields: Fields },
): Entries {
  const { caller, action, fields } = asked;
  const denials = new Map<string, Promise<Refusal | undefined>>();
  const denialOfResource = async (resource: string): Promise<Refusal | undefined> => {
    const known = denials.get(resource);
    if (known !== undefined) return known;
    const under = async () =>
      (await findDenial(ctx, caller, { action, path: resource })) ??
      (await findDenial(ctx, caller, { action, path: `${resource}/${asked.path}` }));
    const found = under();
    denials.set(resource, found);
    return found;
  };
  return {
    async denialOf(list, entry) {
      // No policy binds an operator with its own key.
      if (caller.identity?.operator === true) return undefined;
      for (const template of lists[list] ?? [])
        for (const resource of await expand(ctx, template, { ...fields, ...entry })) {
          const denial = await denialOfResource(resource);
          if (denial !== undefined) return denial;
        }
      return undefined;
    },
  };
}

/** The entries of a list that no Deny covers. */
export async function visible<T extends object>(
  entries: Entries,
  list: string,
  all: readonly T[],
): Promise<readonly T[]> {
  const displayed: T[] = [];
  for (const each of all) if ((await entries.denialOf(list, each)) === undefined) displayed.push(each);
  return displayed;
}

/** The same of rows that are read while they are sent. */
export async function* visibleRows<T extends object>(
  entries: Entries,
  list: string,
  rows: AsyncIterable<T>,
): AsyncGenerator<T> {
  for await (const row of rows) if ((await entries.denialOf(list, row)) === undefined) yield row;
}
