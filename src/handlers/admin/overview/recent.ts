/**
 * Recent entries of all processes of this node, which readers follow page by page. A process keeps no state for a reader: its place in every
 * process is in the `next` of a page (ADR 38).
 */
import {
  type Position,
  positionBefore,
  type ReadOptions,
  type RecentEntries,
  type RecentEntry,
  type Timed,
} from '../../../base/recent-entries.ts';
import type { Context } from '../../../context.ts';
import { drawId } from '../../../domain/objects/version-ids.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Random } from '../../../ports/random.ts';

/** A process that is busy for longer is left out of this page, and continued in the next one. */
const askMs = 2_000;
const idLength = 8;
/** Processes in a cursor; those that have ended are left out first. */
const processesMax = 256;

/** Names the entries of this process in cursors: a process that replaces it begins with new ones. */
class JournalId {
  #id: string | undefined;

  of(random: Random): string {
    this.#id ??= drawId(random).slice(0, idLength);
    return this.#id;
  }
}

type Positions = ReadonlyMap<string, Position>;

interface Question<F> {
  readonly filter: F;
  readonly max: number;
  /** Absent: the newest entries. */
  readonly after?: Readonly<Record<string, Position>>;
}

/** What a process answers. */
interface Answer<E> {
  readonly id: string;
  readonly entries: readonly RecentEntry<E>[];
  readonly next: Position;
  readonly lost: number;
}

/** A kind of entries that processes share. */
export interface RecentKind<T extends Timed, E extends Timed, F> {
  readonly topic: string;
  entriesOf(ctx: Context): RecentEntries<T> | undefined;
  matches(entry: T, filter: F): boolean;
  /** The form in which processes send an entry. */
  describe(entry: T, process: string): E;
}

export interface NodePage<E> {
  /** The oldest first. */
  readonly entries: readonly E[];
  readonly next: string;
  readonly lost: number;
  readonly processes: number;
}

function readOwn<T extends Timed, E extends Timed, F>(
  ctx: Context,
  kind: RecentKind<T, E, F>,
  { filter, max, after }: Question<F>,
): Answer<E> {
  const id = ctx.caches.of(JournalId).of(ctx.random);
  // A reader that does not know this process yet begins with its first entry.
  const place = after === undefined ? undefined : (after[id] ?? []);
  const options: ReadOptions<T> = { after: place, max, matches: (entry) => kind.matches(entry, filter) };
  const { entries = [], next = [], lost = 0 } = kind.entriesOf(ctx)?.read(options) ?? {};
  const process = ctx.diagnostics?.name ?? '';
  const describe = (each: RecentEntry<T>) => ({ ...each, entry: kind.describe(each.entry, process) });
  return { id, next, lost, entries: entries.map(describe) };
}

/** Answers the other processes of the node. */
export function shareRecent<T extends Timed, E extends Timed, F>(
  ctx: Context,
  kind: RecentKind<T, E, F>,
): void {
  // The cast: only processes of this node ask.
  ctx.siblings.answer(kind.topic, (about) =>
    JSON.stringify(readOwn(ctx, kind, JSON.parse(about) as Question<F>)),
  );
}

/** @throws InvalidArgument where `after` is not the `next` of a page */
export async function readNode<T extends Timed, E extends Timed, F>(
  ctx: Context,
  kind: RecentKind<T, E, F>,
  { filter, max, after }: { readonly filter: F; readonly max: number; readonly after: string | undefined },
): Promise<NodePage<E>> {
  const places = after === undefined ? undefined : readCursor(after);
  const question = {
    filter,
    max,
    ...(places === undefined ? {} : { after: Object.fromEntries(places) }),
  };
  const others = await ctx.siblings.ask({ topic: kind.topic, about: JSON.stringify(question) }, askMs);
  // The cast: a process of this node has answered.
  const answers = [readOwn(ctx, kind, question), ...others.map((text) => JSON.parse(text) as Answer<E>)];
  const all = answers
    .flatMap(({ id, entries }) => entries.map((each) => ({ ...each, id })))
    .sort((a, b) => a.entry.at - b.entry.at || (a.id === b.id ? a.order - b.order : 0));
  const isFirst = places === undefined;
  const shown = isFirst ? all.slice(-max) : all.slice(0, max);
  const left = Map.groupBy(isFirst ? [] : all.slice(max), ({ id }) => id);
  const next = new Map([
    ...answers.map(({ id, next: end }) => [id, positionBefore(end, left.get(id) ?? [])] as const),
    ...[...(places ?? [])].filter(([id]) => answers.every((answer) => answer.id !== id)),
  ]);
  return {
    entries: shown.map(({ entry }) => entry),
    next: writeCursor(next),
    lost: answers.reduce((sum, { lost }) => sum + lost, 0),
    processes: answers.length,
  };
}

const writeCursor = (places: Positions): string =>
  [...places]
    .slice(0, processesMax)
    .map(([id, place]) => [id, ...place].join('.'))
    .join('~');

function readCursor(text: string): Positions {
  const places = text.split('~').map((part) => part.split('.'));
  const isCursor = places.length <= processesMax && places.every(isPlace);
  if (!isCursor)
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return new Map(places.map(([id = '', ...place]) => [id, place.map(Number)]));
}

const isPlace = ([id = '', ...place]: readonly string[]): boolean =>
  /^[0-9a-f]{8}$/.test(id) && place.length <= 2 && place.every((each) => /^\d{1,15}$/.test(each));
