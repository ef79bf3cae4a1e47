/** The states of a cluster and what moves it between them, as data. */
import type { ClusterState } from '../../../ports/storage/cluster-states.ts';

type Moves = { readonly [From in ClusterState]?: ClusterState };

/** A trigger applies only in the states that it lists. Draining a cluster that drains already is not an error. */
export const transitions = {
  activate: { pending: 'live' },
  weight: { live: 'live' },
  'drain readonly': { live: 'draining_readonly', draining_readonly: 'draining_readonly' },
  'drain evacuate': { live: 'evacuating', draining_readonly: 'evacuating', evacuating: 'evacuating' },
  undrain: { draining_readonly: 'live', evacuating: 'live' },
  /** The settings leave it out, and nothing is on it. */
  deregister: { pending: 'removed', evacuating: 'removed' },
  /** The settings list it again. */
  relist: { removed: 'pending' },
} as const satisfies Readonly<Record<string, Moves>>;

export type Trigger = keyof typeof transitions;

/** The state that it leads to; undefined where it does not apply. */
export function moved(from: ClusterState, trigger: Trigger): ClusterState | undefined {
  const moves: Moves = transitions[trigger];
  return moves[from];
}

/** The states in which a trigger applies. */
export const statesFor = (trigger: Trigger): readonly string[] => Object.keys(transitions[trigger]);

/** The default weight of a cluster. */
export const defaultWeight = 100;
