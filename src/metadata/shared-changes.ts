/**
 * Changes of rows that processes remember where a read of metadata is a round trip. The process that commits one forgets
 * the row, and waits until the other processes of its node have forgotten it or no longer believe it.
 */
import type { Siblings } from '../ports/siblings.ts';

/** `bucket`: about a bucket's name; `account`: about the IAM records of an account. */
export type ChangeTopic = 'bucket' | 'account';
type Forget = (about: string) => void;

interface Sharing {
  readonly siblings: Siblings;
  /** The lifetime of what a process caches. */
  readonly believedMs: number;
}

class Changes {
  readonly forgetting = new Map<ChangeTopic, Forget[]>();
  sharing: Sharing | undefined;

  forget(topic: ChangeTopic, about: string): void {
    for (const forget of this.forgetting.get(topic) ?? []) forget(about);
  }
}
const changesOf = new WeakMap<object, Changes>();

function openChanges(metadata: object): Changes {
  let changes = changesOf.get(metadata);
  if (changes === undefined) {
    changes = new Changes();
    changesOf.set(metadata, changes);
  }
  return changes;
}

/** Calls `forget` for every change through this metadata and, once they are shared, for those of the siblings. */
export function heedChanges(metadata: object, topic: ChangeTopic, forget: Forget): void {
  const { forgetting } = openChanges(metadata);
  forgetting.set(topic, [...(forgetting.get(topic) ?? []), forget]);
}

/** For metadata of which several processes of a node remember rows. */
export function shareChanges(metadata: object, sharing: Sharing): void {
  const changes = openChanges(metadata);
  changes.sharing = sharing;
  for (const topic of ['bucket', 'account'] as const)
    sharing.siblings.heed(topic, (about) => changes.forget(topic, about));
}

/** Awaits a commit, then makes every process of the node forget the row, also where the outcome is unknown. */
export async function announcing<T>(
  metadata: object,
  { topic, about }: { readonly topic: ChangeTopic; readonly about: string },
  commit: Promise<T>,
): Promise<T> {
  try {
    return await commit;
  } finally {
    const changes = changesOf.get(metadata);
    changes?.forget(topic, about);
    if (changes?.sharing !== undefined) {
      const { siblings, believedMs } = changes.sharing;
      await siblings.announce({ topic, about }, believedMs);
    }
  }
}
