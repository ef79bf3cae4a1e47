/** The state machine of a cluster, as a table of triggers. */
import type { ClusterState } from '../../../ports/storage/cluster-states.ts';

type Moves = { readonly [From in ClusterState]?: ClusterState };

/** A trigger applies only in the states that it lists. Draining a cluster that drains already is not an error. */
export const transitions = {
  activate: { pending: 'live' },
  weight: { live: 'live' },
  'drain readonly': { live: 'draining_readonly', draining_readonly: 'draining_readonly' },
  'drain evacuate': { live: 'evacuating', draining_readonly: 'evacuating', evacuating: 'evacuating' },
  undrain: { draining_readonly: 'live', evacuating: 'live' },
  /** The settings no longer list the cluster, and it is empty. */
  deregister: { pending: 'removed', evacuating: 'removed' },
  /** The settings list it again. */
  relist: { removed: 'pending' },
} as const satisfies Readonly<Record<string, Moves>>;

export type Trigger = keyof typeof transitions;

/** The new state; undefined when the trigger does not apply in this state. */
export function moved(from: ClusterState, trigger: Trigger): ClusterState | undefined {
  const moves: Moves = transitions[trigger];
  return moves[from];
}

/** The states in which a trigger applies. */
export const statesFor = (trigger: Trigger): readonly string[] => Object.keys(transitions[trigger]);

/** The default weight of a cluster. */
export const defaultWeight = 100;
