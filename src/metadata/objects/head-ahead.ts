/**
 * Reads the head of a key in parallel with the row of its bucket. The first read of the head gets the result; later ones ask the
 * store. The announcements of `shared-changes.ts` do not pass through this store: use it for object operations only.
 */
import type { Clock } from '../../ports/clock.ts';
import type { AnyTable, At, MetadataStore, SortOf, Stored } from '../../ports/metadata-store.ts';
import { type BucketRow, headSlot, liveSpace, type ObjectRow, objects } from '../tables.ts';
import { findLiveHead } from './objects.ts';

/** A head that was requested longer ago is read again: another client may have replaced it during a slow upload. */
const freshMs = 1_000;

export interface HeadAhead {
  /** The bucket that the name belonged to at the read. The head is valid for this bucket only. */
  readonly bucketId: string;
  readonly key: string;
  /** Rejects when the read failed. */
  readonly head: Promise<Stored<ObjectRow> | undefined>;
  /** By the monotonic clock (ms). */
  readonly askedAt: number;
}

type Ctx = { readonly metadata: MetadataStore; readonly clock: Pick<Clock, 'elapsed'> };

/** Begins the read. */
export function askAhead({ metadata, clock }: Ctx, bucket: BucketRow, key: string): HeadAhead {
  const head = findLiveHead(metadata, bucket, key);
  // Ignore the failure here, because the ordinary read that follows will fail too and report it.
  head.catch(() => {});
  return { bucketId: bucket.id, key, head, askedAt: clock.elapsed() };
}

/**
 * The same store; its first read of that head gets the result of the read that has begun.
 * @param isAbsenceKnown whether to return an absent head too. Writes may, because their commit checks it; reads must read again.
 */
export function withHeadAhead(
  { metadata, clock }: Ctx,
  { bucketId, key, head, askedAt }: HeadAhead,
  { isAbsenceKnown }: { readonly isAbsenceKnown: boolean },
): MetadataStore {
  let isTaken = false;
  const isHead = (at: At<AnyTable>, sort: object): boolean => {
    if (isTaken || at.table !== objects || (at.in as { bucketId?: string }).bucketId !== bucketId)
      return false;
    const asked = sort as SortOf<typeof objects>;
    return asked.space === liveSpace && asked.key === key && asked.slot === headSlot;
  };
  const get = async (at: At<AnyTable>, sort: never): Promise<unknown> => {
    if (isHead(at, sort)) {
      isTaken = true;
      if (clock.elapsed() - askedAt >= freshMs) return metadata.get(at, sort);
      const found = await head.then(
        (row) => ({ row }),
        () => undefined,
      );
      if (found !== undefined && (found.row !== undefined || isAbsenceKnown)) return found.row;
    }
    return metadata.get(at, sort);
  };
  return new Proxy(metadata, {
    get(store, name) {
      if (name === 'get') return get;
      const member: unknown = Reflect.get(store, name);
      return typeof member === 'function' ? member.bind(store) : member;
    },
  });
}
