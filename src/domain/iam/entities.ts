/** Users, groups, roles and policies: look-ups, unique ids, pages, tags. */
import { fail, type Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type EntityKind,
  findIam,
  type IamKind,
  type IamRecord,
  type IamRecords,
  type IamTag,
  scanIam,
  toRecord,
} from '../../metadata/iam.ts';
import type { Random } from '../../ports/random.ts';
import type { AccountCtx, AccountDraft } from './account.ts';

// Look-ups by name or unique id, and refusals, for users, groups, roles and policies.

type Reading = Pick<AccountCtx, 'metadata'>;

/** Compares names without regard to case. */
export const foldName = (name: string): string => name.toLowerCase();

const noSuch = (kind: string, name: string): Refusal =>
  fail('NoSuchEntity', `The ${kind} with name ${name} cannot be found.`);

const alreadyThere = (kind: EntityKind, name: string): Refusal =>
  fail('EntityAlreadyExists', `A ${kind} with name ${name} already exists.`);

export const conflict = (what: string): Refusal =>
  fail('DeleteConflict', `Cannot delete entity, must ${what} first.`);

export interface Named<K extends EntityKind = EntityKind> {
  readonly kind: K;
  readonly name: string;
}

/** Finds by the exact name, because an ARN contains the name as it was given. */
export async function findNamed<K extends EntityKind>(
  ctx: Reading,
  account: string,
  named: Named<K>,
): Promise<IamRecords[K] | undefined> {
  const entity = await findAnyCase(ctx, account, named);
  return entity?.name === named.name ? entity : undefined;
}

/** Finds by name without regard to case, as the public API does for the parameters of actions. */
export async function findAnyCase<K extends EntityKind>(
  { metadata }: Reading,
  account: string,
  { kind, name }: Named<K>,
): Promise<IamRecords[K] | undefined> {
  const stored = await findIam(metadata, account, { kind, name: foldName(name) });
  return stored === undefined ? undefined : toRecord<K>(stored).value;
}

/** Policies are named by ARN only. */
const isCalled = (entity: { readonly name: string } | undefined, { kind, name }: Named): boolean =>
  entity !== undefined && (kind !== 'policy' || entity.name === name);

/** @throws NoSuchEntity */
export async function getNamed<K extends EntityKind>(
  ctx: Reading,
  account: string,
  named: Named<K>,
): Promise<IamRecords[K]> {
  const entity = await findAnyCase(ctx, account, named);
  if (entity === undefined || !isCalled(entity, named)) throw noSuch(named.kind, named.name);
  return entity;
}

export async function findById<K extends EntityKind>(
  { metadata }: Reading,
  account: string,
  { kind, id }: { readonly kind: K; readonly id: string },
): Promise<IamRecords[K] | undefined> {
  const index = await findIam(metadata, account, { kind: 'id', name: id });
  if (index === undefined) return undefined;
  const at = toRecord<'id'>(index).value;
  const stored = at.kind === kind ? await findIam(metadata, account, at) : undefined;
  const entity = stored === undefined ? undefined : toRecord<K>(stored).value;
  // A rename between the two reads leads to the row of another entity, or to none.
  return entity?.id === id ? entity : undefined;
}

/** @throws NoSuchEntity */
export async function namedIn<K extends EntityKind>(
  draft: AccountDraft,
  named: Named<K>,
): Promise<IamRecords[K]> {
  const { kind, name } = named;
  const entity = (await draft.find(kind, foldName(name)))?.value;
  if (entity === undefined || !isCalled(entity, named)) throw noSuch(kind, name);
  return entity;
}

/** @throws EntityAlreadyExists */
export async function assertFree(draft: AccountDraft, { kind, name }: Named): Promise<void> {
  if ((await draft.find(kind, foldName(name))) !== undefined) throw alreadyThere(kind, name);
}

export async function putEntity<K extends EntityKind>(
  draft: AccountDraft,
  kind: K,
  entity: IamRecords[K],
): Promise<void> {
  await draft.put(kind, foldName(entity.name), entity);
}

const counted = { user: 'users', group: 'groups', role: 'roles', policy: 'policies' } as const;

/** @throws LimitExceeded */
export async function addEntity<K extends EntityKind>(
  draft: AccountDraft,
  kind: K,
  entity: IamRecords[K],
): Promise<void> {
  draft.count(counted[kind], 1);
  await putEntity(draft, kind, entity);
  await draft.put('id', entity.id, { kind, name: foldName(entity.name) });
}

export async function removeEntity(
  draft: AccountDraft,
  kind: EntityKind,
  { id, name }: { readonly id: string; readonly name: string },
): Promise<void> {
  draft.count(counted[kind], -1);
  await draft.remove(kind, foldName(name));
  await draft.remove('id', id);
}

/** Puts an entity under another name, or the same. @throws EntityAlreadyExists */
export async function moveEntity<K extends 'user' | 'group'>(
  draft: AccountDraft,
  kind: K,
  { from, to }: { readonly from: string; readonly to: IamRecords[K] },
): Promise<void> {
  if (foldName(to.name) !== foldName(from)) {
    await assertFree(draft, { kind, name: to.name });
    await draft.remove(kind, foldName(from));
    await draft.put('id', to.id, { kind, name: foldName(to.name) });
  }
  await putEntity(draft, kind, to);
}

interface EntityPage<K extends EntityKind> {
  readonly kind: K;
  readonly pathPrefix: string;
  readonly after: string | undefined;
  readonly max: number;
  readonly keep?: (entity: IamRecords[K]) => boolean;
}

/** The entities of a kind under a path, ordered by name. */
export async function listEntities<K extends EntityKind>(
  ctx: Reading,
  account: string,
  { kind, pathPrefix, after, max, keep = () => true }: EntityPage<K>,
): Promise<Page<IamRecords[K]>> {
  const { items, ...end } = await readRecordPage(ctx, account, {
    kind,
    after,
    max,
    keep: ({ value }) => value.path.startsWith(pathPrefix) && keep(value),
  });
  return { ...end, items: items.map(({ value }) => value) };
}

// Unique ids and key pairs, in the shapes of the public API.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const secretLetters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The alphabets have 32 and 64 letters, so that every letter is equally likely. */
const draw = (random: Random, alphabet: string, length: number): string =>
  Array.from(random.bytes(length), (byte) => alphabet[byte % alphabet.length]).join('');

export const drawUserId = (random: Random): string => `AIDA${draw(random, letters, 17)}`;
export const drawGroupId = (random: Random): string => `AGPA${draw(random, letters, 17)}`;
export const drawRoleId = (random: Random): string => `AROA${draw(random, letters, 17)}`;
export const drawPolicyId = (random: Random): string => `ANPA${draw(random, letters, 17)}`;

export interface KeyPair {
  readonly accessKey: string;
  readonly secretKey: string;
}

/** The access key has 80 random bits, the secret 240. */
const drawPair = (random: Random, prefix: string): KeyPair => ({
  accessKey: prefix + draw(random, letters, 16),
  secretKey: draw(random, secretLetters, 40),
});
export const drawKeyPair = (random: Random): KeyPair => drawPair(random, 'AKIA');
const sessionPrefix = 'ASIA';
export const drawSessionPair = (random: Random): KeyPair => drawPair(random, sessionPrefix);
/** Whether an access key that no record has can be of temporary credentials. */
export const isSessionKey = (accessKey: string): boolean => accessKey.startsWith(sessionPrefix);

// Pages of an account's records.

interface PageOf<K extends IamKind> {
  readonly kind: K;
  /** A prefix of the records' names. */
  readonly prefix?: string;
  readonly after: string | undefined;
  readonly max: number;
  readonly keep?: (record: IamRecord<K>) => boolean;
}
export interface Page<T> {
  readonly items: readonly T[];
  /** The name after which the next page begins. Absent on the last page. */
  readonly next?: string;
}

/** Records per read. */
const stepMax = 200;
/** Entities of a page that are read at the same time: a page has as many as the caller asks for. */
export const readsMax = 16;

export async function readRecordPage<K extends IamKind>(
  { metadata }: Pick<Context, 'metadata'>,
  account: string,
  { kind, prefix, after, max, keep = () => true }: PageOf<K>,
): Promise<Page<IamRecord<K>>> {
  const items: IamRecord<K>[] = [];
  const range = { kind, ...(prefix === undefined ? {} : { prefix }) };
  for (let last = after; ; ) {
    const found = await scanIam(metadata, account, { ...range, after: last, count: stepMax });
    for (const record of found.map((stored) => toRecord<K>(stored))) {
      if (!keep(record)) continue;
      if (items.length === max) return { items, next: items[max - 1]?.name ?? '' };
      items.push(record);
    }
    last = found.at(-1)?.row.name;
    if (found.length < stepMax) return { items };
  }
}

// The tags of users, roles and policies.

const tagsMax = 50;
/** The limit for all tags of an entity together, because its row holds them. */
const charactersMax = 4_096;

/** @throws InvalidInput, LimitExceeded */
export function mergeTags(present: readonly IamTag[], input: readonly IamTag[]): readonly IamTag[] {
  const merged = new Map(present.map((tag) => [tag[0].toLowerCase(), tag]));
  const seen = new Set<string>();
  for (const tag of input) {
    const key = tag[0].toLowerCase();
    if (seen.has(key))
      throw fail('InvalidInput', 'Duplicate tag keys found. Please note that Tag keys are case insensitive.');
    if (key.startsWith('aws:')) throw fail('InvalidInput', 'Tag keys that begin with aws: are reserved.');
    seen.add(key);
    merged.set(key, tag);
  }
  const tags = [...merged.values()];
  if (tags.length > tagsMax) throw fail('LimitExceeded', `Cannot exceed quota for TagsPerEntity: ${tagsMax}`);
  if (tags.reduce((sum, [key, value]) => sum + key.length + value.length, 0) > charactersMax)
    throw fail('LimitExceeded', `The tags of an entity have at most ${charactersMax} characters together.`);
  return tags;
}

export function withoutTags(present: readonly IamTag[], keys: readonly string[]): readonly IamTag[] {
  const gone = new Set(keys.map((key) => key.toLowerCase()));
  return present.filter(([key]) => !gone.has(key.toLowerCase()));
}
