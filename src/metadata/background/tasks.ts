/** The states of the background's long work, by kind and name. */

import {
  type At,
  MetadataDamaged,
  type MetadataStore,
  type Outcome,
  type Revision,
  type SideChange,
} from '../../ports/metadata-store.ts';
import { prefixRange } from '../objects/objects.ts';
import { type TaskProgress, type TaskRow, tasks } from '../records/tasks.ts';
import { soundPage, soundPages } from '../sound-rows.ts';
import { LeaseLost } from './leases.ts';

const tasksAt = (kind: string): At<typeof tasks> => ({ table: tasks, in: { kind } });

/** A kind of background work and the type of its stored state. */
export interface TaskKind<State> {
  readonly kind: string;
  /** Never set; it only carries the type. */
  readonly state?: State;
  /** Its tasks free space, so they are written on a full disk too. */
  readonly frees?: boolean;
  /**
   * Names of tasks that `beginTerm` removes where their rows are damaged, because their worker would fail for ever. Their
   * work begins again, so each part of it must be safe to repeat.
   */
  readonly restarts?: readonly string[];
}

/** Bytes of a state as JSON; the rest of the row is for its name and its progress. A state that grows is cut to this. */
export const stateBytesMax = 20 * 1024;

const encoder = new TextEncoder();

/** The first entries that together take at most so many bytes as JSON. */
export function firstThatFit<T>(entries: Iterable<T>, bytesMax: number): readonly T[] {
  const fitting: T[] = [];
  let bytes = 0;
  for (const entry of entries) {
    // With its comma.
    bytes += encoder.encode(JSON.stringify(entry)).length + 1;
    if (bytes > bytesMax) break;
    fitting.push(entry);
  }
  return fitting;
}

export interface Task<State> {
  readonly name: string;
  readonly state: State;
  readonly progress?: TaskProgress;
  readonly revision: Revision;
}

/** The cast is safe: only the code of a kind writes its states. */
const toTask = <State>(row: TaskRow, revision: Revision): Task<State> => ({
  name: row.name,
  state: row.state as State,
  ...(row.progress && { progress: row.progress }),
  revision,
});

export async function findTask<State>(
  metadata: Pick<MetadataStore, 'get'>,
  { kind }: TaskKind<State>,
  name: string,
): Promise<Task<State> | undefined> {
  const found = await metadata.get(tasksAt(kind), { name });
  return found && toTask(found.row, found.revision);
}

/** Store time (ms) that has passed on every clock: a row that expires then is absent. */
export const longPast = 1;

/**
 * As `findTask`, but removes a damaged row and returns undefined, so that the work of the task begins again. Only for work
 * that is safe to repeat. Of two callers one removes the row, and neither removes a sound one.
 * @param rebuild makes the state from other rows; the row is then written again
 * @throws MetadataDamaged where the store cannot replace the row
 */
export async function findSoundTask<State>(
  metadata: Pick<MetadataStore, 'get' | 'replaceDamaged'>,
  kind: TaskKind<State>,
  name: string,
  rebuild?: () => Promise<State | undefined>,
): Promise<Task<State> | undefined> {
  try {
    return await findTask(metadata, kind, name);
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged) || metadata.replaceDamaged === undefined) throw cause;
    const state = await rebuild?.();
    const row = { kind: kind.kind, name, state: state ?? null };
    await metadata.replaceDamaged(tasksAt(kind.kind), row, state === undefined ? longPast : undefined);
    return findTask(metadata, kind, name);
  }
}

/** The right of a leader to write the tasks of a kind, until a later leader begins its own term. */
export interface Term {
  readonly generation: number;
  readonly revision: Revision;
}

/** The name of the row that records the leader of a kind of task; no task has this name. */
const leaderName = 'leader';
interface Leader {
  readonly generation: number;
}
/** Attempts against leaders that begin concurrently. */
const beginningsMax = 8;

/**
 * Ends the terms of all earlier leaders, and removes what `restarts` of the kind names where it is damaged.
 * @throws LeaseLost when a later leader has begun its own
 */
export async function beginTerm<State>(
  metadata: Pick<MetadataStore, 'get' | 'commit' | 'replaceDamaged'>,
  kind: TaskKind<State>,
  generation: number,
): Promise<Term> {
  const term = await lead(metadata, kind, generation);
  for (const name of kind.restarts ?? []) await findSoundTask(metadata, kind, name);
  return term;
}

/**
 * A damaged row of the leader is removed first, which ends its term: whatever it has not committed is refused. An earlier leader may
 * begin then, and is ended by the commit of a later one as before.
 */
async function lead<State>(
  metadata: Pick<MetadataStore, 'get' | 'commit' | 'replaceDamaged'>,
  { kind }: TaskKind<State>,
  generation: number,
): Promise<Term> {
  for (let attempt = 0; attempt < beginningsMax; attempt += 1) {
    const found = await findSoundTask<Leader>(metadata, { kind }, leaderName);
    if (found !== undefined && found.state.generation > generation) break;
    const put = { kind, name: leaderName, state: { generation } };
    const outcome = await metadata.commit(tasksAt(kind), [{ put, expect: found?.revision ?? 'absent' }]);
    if (outcome.applied) return { generation, revision: outcome.revision };
  }
  throw new LeaseLost(kind, generation);
}

/** @throws LeaseLost when a later leader has begun its term; then nothing of this leader is stored */
export async function assertLeads<State>(
  metadata: Pick<MetadataStore, 'get'>,
  { kind }: TaskKind<State>,
  { generation, revision }: Term,
): Promise<void> {
  const found = await metadata.get(tasksAt(kind), { name: leaderName });
  if (found?.revision !== revision) throw new LeaseLost(kind, generation);
}

/** Applies side changes, up to what one commit takes. @throws LeaseLost when a later leader has begun its term; then none is applied */
export async function applyInTerm<State>(
  metadata: Pick<MetadataStore, 'commit'>,
  { kind }: TaskKind<State>,
  {
    term: { generation, revision },
    changes,
  }: { readonly term: Term; readonly changes: readonly SideChange[] },
): Promise<void> {
  const check = { check: { name: leaderName }, expect: revision };
  const outcome = await metadata.commit(tasksAt(kind), [check], { then: changes });
  if (!outcome.applied) throw new LeaseLost(kind, generation);
}

/** Which tasks of a kind a walk reads. */
export interface TaskRange {
  /** The name of a task: those behind it. */
  readonly after?: string | undefined;
  /** Called before each task: it lets other work run, and may throw to end the walk. */
  rest?(): Promise<void>;
  onDamaged?(damaged: MetadataDamaged): void;
}

/** Reads all tasks of a kind by name, in pages. A damaged one does not stop the others. */
export async function* everyTask<State>(
  metadata: Pick<MetadataStore, 'scan'>,
  { kind }: TaskKind<State>,
  { after, rest, onDamaged }: TaskRange = {},
): AsyncGenerator<Task<State>> {
  const cursor = metadata.scan(tasksAt(kind), after === undefined ? {} : { after: { name: after } });
  for await (const page of soundPages(cursor, 100, onDamaged))
    for (const { row, revision } of page) {
      if (row.name === leaderName) continue;
      await rest?.();
      yield toTask(row, revision);
    }
}

/** The progress of the tasks of a kind, by name, from the first one after `after`; their states are not read. */
export async function* everyProgress(
  metadata: Pick<MetadataStore, 'scan'>,
  { kind }: Pick<TaskKind<unknown>, 'kind'>,
  after?: string,
): AsyncGenerator<Pick<TaskRow, 'name' | 'progress'>> {
  const cursor = metadata.scan(tasksAt(kind), {
    columns: ['progress'],
    ...(after === undefined ? {} : { after: { name: after } }),
  });
  for await (const page of soundPages(cursor, 100)) for (const { row } of page) yield row;
}

/**
 * Up to `limit` tasks of a kind whose names begin with `prefix`, from the first one after `after`. Damaged ones are
 * passed over: a page with fewer tasks is the last one.
 */
export async function pageTasks<State>(
  metadata: Pick<MetadataStore, 'scan'>,
  { kind }: TaskKind<State>,
  range: { readonly prefix: string; readonly after?: string | undefined; readonly limit: number },
): Promise<readonly Task<State>[]> {
  const cursor = metadata.scan(tasksAt(kind), prefixRange('name', range.prefix));
  if (range.after !== undefined) cursor.seek({ name: range.after }, { past: true });
  const { rows } = await soundPage(cursor, range.limit);
  return rows.map(({ row, revision }) => toTask(row, revision));
}

/** Writes the state of a task; refused when the task has changed since `expect` was read. */
export const putTask = <State>(
  metadata: Pick<MetadataStore, 'commit'>,
  { kind, frees = false }: TaskKind<State>,
  {
    name,
    state,
    progress,
    expect,
    expiresAt,
    term,
    then = [],
  }: {
    readonly name: string;
    readonly state: State;
    /** Absent: operators do not follow it. */
    readonly progress?: TaskProgress | undefined;
    readonly expect: 'absent' | Revision;
    /** Store time from which it is no longer needed. */
    readonly expiresAt?: number;
    /** The write is also refused once a later leader has begun its term. */
    readonly term?: Term | undefined;
    readonly then?: readonly SideChange[];
  },
): Promise<Outcome<typeof tasks>> =>
  metadata.commit(
    tasksAt(kind),
    [
      {
        put: { kind, name, state, ...(progress && { progress }) },
        expect,
        ...(expiresAt === undefined ? {} : { expiresAt }),
      },
      ...(term === undefined ? [] : [{ check: { name: leaderName }, expect: term.revision }]),
    ],
    { then, frees },
  );

export type TaskChange<State> =
  | {
      readonly put: { readonly name: string; readonly state: State; readonly progress?: TaskProgress };
      readonly expect: 'absent' | Revision;
    }
  | { readonly remove: { readonly name: string }; readonly expect: Revision };

/** Writes several tasks in one commit; refused when one of them has changed since `expect` was read, or a later leader has begun. */
export const putTasks = <State>(
  metadata: Pick<MetadataStore, 'commit'>,
  { kind }: TaskKind<State>,
  { changes, term }: { readonly changes: readonly TaskChange<State>[]; readonly term?: Term | undefined },
): Promise<Outcome<typeof tasks>> =>
  metadata.commit(tasksAt(kind), [
    ...changes.map((change) => ('put' in change ? { ...change, put: { kind, ...change.put } } : change)),
    ...(term === undefined ? [] : [{ check: { name: leaderName }, expect: term.revision }]),
  ]);
