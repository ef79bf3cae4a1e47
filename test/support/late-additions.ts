/**
 * A model of a store whose counter additions are not in the transaction of their commit, over memory: if a gateway is killed in between,
 * they are made when its attempt is settled.
 */
import type { AnyTable, At, MetadataStore, SideChange } from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

export interface LateAdditions<Store> {
  /** The store of the processes that are not killed. */
  readonly metadata: Store;
  /** The store of a process that is killed after each commit, before its additions. */
  readonly dying: Store;
  /** Makes the missing additions, as the sweep does after the lease of the killed process has expired. */
  settle(): Promise<void>;
}

export function lateAdditions<Store extends MetadataStore>(inner: Store): LateAdditions<Store> {
  let pending: SideChange[] = [];
  const hasPendingAdditions = async <T extends AnyTable>(at: At<T>): Promise<boolean> =>
    pending.some((change) => JSON.stringify(change.at) === JSON.stringify(at));
  const commit: MetadataStore['commit'] = (at, changes, options = {}) => {
    const { then = [] } = options;
    const others = then.filter((change) => !('add' in change));
    const isApplied = inner.commit(at, changes, { ...options, then: others });
    return isApplied.then((outcome) => {
      if (outcome.applied) pending.push(...then.filter((change) => 'add' in change));
      return outcome;
    });
  };
  return {
    metadata: faulty(inner, { hasPendingAdditions } as Partial<Store>),
    dying: faulty(inner, { hasPendingAdditions, commit } as Partial<Store>),
    async settle() {
      const missing = pending;
      pending = [];
      await inner.apply(missing);
    },
  };
}
