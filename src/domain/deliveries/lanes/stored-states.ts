/** The targets of a queue that take nothing now, or refuse some objects, stored so that every process can show them. */
import { everyTask, findTask, putTask, putTasks, type TaskKind } from '../../../metadata/background/tasks.ts';
import type { MetadataStore } from '../../../ports/metadata-store.ts';
import type { Refused } from './target-states.ts';

export interface FailingTarget {
  /** Failures since the last delivery; 0 for a target that takes events of other objects. */
  readonly failures: number;
  readonly error: string;
  /** Store time (ms) of the last change. */
  readonly at: number;
  /** The objects that it refuses. */
  readonly refused?: Refused;
}

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'now'>;

const kindOf = (queue: string): TaskKind<FailingTarget> => ({ kind: `failing-targets-${queue}` });
/** A target that is no longer used is forgotten after this time. */
const keptMs = 7 * 24 * 60 * 60 * 1000;

/** Stores the last failure of a target; a concurrent write of the same target may win. */
export async function storeFailure(
  metadata: Metadata,
  queue: string,
  { target, ...failure }: { readonly target: string } & Omit<FailingTarget, 'at'>,
): Promise<void> {
  const at = await metadata.now();
  const found = await findTask(metadata, kindOf(queue), target);
  const state: FailingTarget = { ...failure, at };
  const expect = found?.revision ?? 'absent';
  await putTask(metadata, kindOf(queue), { name: target, state, expect, expiresAt: at + keptMs });
}

/** The target has taken something. */
export async function forgetFailure(metadata: Metadata, queue: string, target: string): Promise<void> {
  const found = await findTask(metadata, kindOf(queue), target);
  if (found === undefined) return;
  await putTasks(metadata, kindOf(queue), {
    changes: [{ remove: { name: target }, expect: found.revision }],
  });
}

export async function listFailing(
  metadata: Pick<MetadataStore, 'scan'>,
  queue: string,
): Promise<ReadonlyMap<string, FailingTarget>> {
  const failing = new Map<string, FailingTarget>();
  for await (const { name, state } of everyTask(metadata, kindOf(queue))) failing.set(name, state);
  return failing;
}
