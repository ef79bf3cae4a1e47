/** Look-ups by name or unique id, and refusals, for users, groups, roles and policies. */
import { fail, type Refusal } from '../../errors/refusal.ts';
import { type EntityKind, findIam, type IamRecords, toRecord } from '../../metadata/iam.ts';
import type { AccountDraft, Ctx } from './account.ts';
import { type Page, readRecordPage } from './pages.ts';

type Reading = Pick<Ctx, 'metadata'>;

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

export interface EntityPage<K extends EntityKind> {
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
