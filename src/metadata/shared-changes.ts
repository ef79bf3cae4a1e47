/**
 * Invalidates cached rows, for metadata where a read is a round trip. The process that commits a change drops the row from its
 * caches, and waits until the other processes of its node have dropped it or their cached rows have expired.
 */
import type { Siblings } from '../ports/siblings.ts';

/** `bucket`: about a bucket's name; `account`: about the IAM records of an account. */
type ChangeTopic = 'bucket' | 'account';
type Forget = (about: string) => void;

interface Sharing {
  readonly siblings: Siblings;
  /** The lifetime of what a process caches. */
  readonly cacheTtlMs: number;
  /** What the processes cache. */
  readonly topics: readonly ChangeTopic[];
}

class Changes {
  readonly forgetting = new Map<ChangeTopic, Forget[]>();
  sharing: Sharing | undefined;

  forget(topic: ChangeTopic, about: string): void {
    for (const forget of this.forgetting.get(topic) ?? []) forget(about);
  }
}
const changesByStore = new WeakMap<object, Changes>();

/** A view of a store shares the changes of the store. */
const underlyingStore = (metadata: { readonly behind?: object }): object => metadata.behind ?? metadata;

function openChanges(metadata: object): Changes {
  const store = underlyingStore(metadata);
  let changes = changesByStore.get(store);
  if (changes === undefined) {
    changes = new Changes();
    changesByStore.set(store, changes);
  }
  return changes;
}

/** Calls `forget` for every change through this metadata and, after `shareChanges`, for the changes of sibling processes. */
export function subscribeToChanges(metadata: object, topic: ChangeTopic, forget: Forget): void {
  const { forgetting } = openChanges(metadata);
  forgetting.set(topic, [...(forgetting.get(topic) ?? []), forget]);
}

/** Call it for metadata whose rows several processes of a node cache. */
export function shareChanges(metadata: object, sharing: Sharing): void {
  const changes = openChanges(metadata);
  changes.sharing = sharing;
  for (const topic of sharing.topics)
    sharing.siblings.subscribe(topic, (about) => changes.forget(topic, about));
}

/** Awaits a commit, then makes every process of the node drop the cached row, also when the outcome is unknown. */
export async function announcing<T>(
  metadata: object,
  { topic, about }: { readonly topic: ChangeTopic; readonly about: string },
  commit: Promise<T>,
): Promise<T> {
  try {
    return await commit;
  } finally {
    const changes = changesByStore.get(underlyingStore(metadata));
    changes?.forget(topic, about);
    if (changes?.sharing?.topics.includes(topic)) {
      const { siblings, cacheTtlMs } = changes.sharing;
      await siblings.announce({ topic, about }, cacheTtlMs);
    }
  }
}
