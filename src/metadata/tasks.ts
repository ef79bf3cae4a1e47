/** The states of the background's long work, by kind and name. */
import type { At, MetadataStore, Outcome, Revision, SideChange } from '../ports/metadata-store.ts';
import { type TaskRow, tasks } from './task-tables.ts';

const tasksOf = (kind: string): At<typeof tasks> => ({ table: tasks, in: { kind } });

/** A kind of work and what is kept of it. */
export interface TaskKind<State> {
  readonly kind: string;
  /** Never there: it carries the type. */
  readonly state?: State;
}

export interface Task<State> {
  readonly name: string;
  readonly state: State;
  readonly revision: Revision;
}

/** The cast: a kind's states are only ever written by its own code. */
const taskOf = <State>(row: TaskRow, revision: Revision): Task<State> => ({
  name: row.name,
  state: row.state as State,
  revision,
});

export async function findTask<State>(
  metadata: Pick<MetadataStore, 'get'>,
  { kind }: TaskKind<State>,
  name: string,
): Promise<Task<State> | undefined> {
  const found = await metadata.get(tasksOf(kind), { name });
  return found && taskOf(found.row, found.revision);
}

/** All of a kind, in pages. */
export async function* everyTask<State>(
  metadata: Pick<MetadataStore, 'scan'>,
  { kind }: TaskKind<State>,
): AsyncGenerator<Task<State>> {
  const cursor = metadata.scan(tasksOf(kind));
  for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100))
    for (const { row, revision } of page) yield taskOf(row, revision);
}

/** Writes the state of one; refused when anybody changed it since `expect` was read. */
export const putTask = <State>(
  metadata: Pick<MetadataStore, 'commit'>,
  { kind }: TaskKind<State>,
  {
    name,
    state,
    expect,
    expiresAt,
    then = [],
  }: {
    readonly name: string;
    readonly state: State;
    readonly expect: 'absent' | Revision;
    /** Store time from which nobody needs to know any more. */
    readonly expiresAt?: number;
    readonly then?: readonly SideChange[];
  },
): Promise<Outcome<typeof tasks>> =>
  metadata.commit(
    tasksOf(kind),
    [{ put: { kind, name, state }, expect, ...(expiresAt === undefined ? {} : { expiresAt }) }],
    { then },
  );
