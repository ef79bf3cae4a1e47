/**
 * Pure functions that plan the changes of a key's rows for a write or delete.
 *
 * A key has exactly one head: its newest version, either live (in the live space) or a delete marker (in the history space).
 * Every plan that adds a version, or removes the head, writes the head at its revision, or checks that there is none: so
 * of two concurrent ones only one commits. A check of the head's revision is not enough, because it leaves the revision as it is.
 */

import { historyAt, liveHeadAt, markerHeadAt } from '../../metadata/objects/objects.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../../metadata/tables.ts';
import type { Change, SideChange, SortOf, Stored } from '../../ports/metadata-store.ts';

/** A version as the writer knows it, before its place is decided. */
export type FreshVersion = Omit<ObjectRow, 'space' | 'slot' | 'version' | 'isNull' | 'nullVersion'>;

export interface Plan {
  readonly changes: readonly Change<typeof objects>[];
  /** The rows that the plan replaces or removes, as they were. */
  readonly before: readonly ObjectRow[];
  /** Versions that the plan removes: their bytes go to the deletion queue. */
  readonly gone: readonly ObjectRow[];
  /** The new version, if the plan adds one: at the head, or a replica in the history. */
  readonly fresh?: ObjectRow;
  /** The version after the plan changed its tags, ACL or lock. */
  readonly amended?: ObjectRow;
  /** The same version before. */
  readonly former?: ObjectRow;
  /** Side changes that are committed together with the plan. */
  readonly then?: readonly SideChange[];
}

const rowPosition = (row: ObjectRow): SortOf<typeof objects> => ({
  space: row.space,
  key: row.key,
  slot: row.slot,
});
const headPosition = (key: string, marker: boolean): SortOf<typeof objects> =>
  marker ? markerHeadAt(key) : liveHeadAt(key);

/** The row as the history stores it: without the note about the null version, which only heads have. */
function asHistory({ nullVersion: _, ...row }: ObjectRow, noncurrentSince: number): ObjectRow {
  return { ...row, space: historySpace, slot: row.version, noncurrentSince };
}

const headSpace = ({ marker }: Pick<ObjectRow, 'marker'>) => (marker ? historySpace : liveSpace);

function asHead(row: ObjectRow, nullVersion: string | undefined): ObjectRow {
  const head: ObjectRow = { ...row, space: headSpace(row), slot: headSlot };
  return head.nullVersion === nullVersion ? head : withNullVersion(head, nullVersion);
}

/** A version of the history that becomes the head again. */
const asCurrent = ({ noncurrentSince: _, ...row }: ObjectRow): ObjectRow => row;

function withNullVersion({ nullVersion: _, ...head }: ObjectRow, nullVersion: string | undefined): ObjectRow {
  return nullVersion === undefined ? head : { ...head, nullVersion };
}

/** The place of the null version, seen from a head that becomes history. */
const nullBehind = (head: ObjectRow | undefined): string | undefined =>
  head?.isNull ? head.version : head?.nullVersion;

/**
 * A new version (an object or a delete marker) becomes the head.
 * @param oldNull the null version in the history, which a new null version replaces
 */
export function planNewVersion(
  bucket: BucketRow,
  head: Stored<ObjectRow> | undefined,
  oldNull: Stored<ObjectRow> | undefined,
  {
    fresh,
    version,
    isNull = bucket.versioning !== 'Enabled',
  }: { readonly fresh: FreshVersion; readonly version: string; readonly isNull?: boolean },
): Plan {
  const placed: ObjectRow = { ...fresh, space: headSpace(fresh), slot: headSlot, version, isNull };
  const nullVersion = isNull ? undefined : nullBehind(head?.row);
  const next = nullVersion === undefined ? placed : { ...placed, nullVersion };
  const changes: Change<typeof objects>[] = [];

  if (head !== undefined && head.row.space === next.space) changes.push({ put: next, expect: head.revision });
  else {
    changes.push({ put: next, expect: 'absent' });
    if (head !== undefined) changes.push({ remove: rowPosition(head.row), expect: head.revision });
    // Without a check a concurrent writer could create a head in the other space.
    else if (bucket.versioning !== '')
      changes.push({ check: headPosition(next.key, !next.marker), expect: 'absent' });
  }
  const replaced = isNull && head?.row.isNull ? head.row : undefined;
  if (head !== undefined && replaced === undefined)
    changes.push({ put: asHistory(head.row, fresh.modified), expect: 'absent' });
  if (isNull && oldNull !== undefined)
    changes.push({ remove: rowPosition(oldNull.row), expect: oldNull.revision });

  const formerNull = isNull ? oldNull?.row : undefined;
  return {
    changes,
    before: listPresent(head?.row, formerNull),
    gone: listPresent(replaced, formerNull),
    fresh: next,
  };
}

function listPresent(first: ObjectRow | undefined, second: ObjectRow | undefined): readonly ObjectRow[] {
  if (first === undefined) return second === undefined ? [] : [second];
  return second === undefined ? [first] : [first, second];
}

/** Without versioning a delete removes the object. */
export const planRemoval = (head: Stored<ObjectRow>): Plan => ({
  changes: [{ remove: rowPosition(head.row), expect: head.revision }],
  before: [head.row],
  gone: [head.row],
});

/**
 * Removes one version permanently; if it was the head, the next one takes its place.
 * @param next the newest version in the history, needed when `target` is the head
 */
export function planRemoveVersion(
  head: Stored<ObjectRow>,
  target: Stored<ObjectRow>,
  next: Stored<ObjectRow> | undefined,
): Plan {
  if (target.row.slot !== headSlot) {
    const changes: Change<typeof objects>[] = [{ remove: rowPosition(target.row), expect: target.revision }];
    const before = target.row.isNull ? [target.row, head.row] : [target.row];
    if (target.row.isNull) changes.push({ put: asHead(head.row, undefined), expect: head.revision });
    return { changes, before, gone: [target.row] };
  }
  if (next === undefined) return planRemoval(head);

  const promoted = asHead(asCurrent(next.row), next.row.isNull ? undefined : head.row.nullVersion);
  const changes: Change<typeof objects>[] = [
    { remove: historyAt(next.row.key, next.row.version), expect: next.revision },
  ];
  if (promoted.space === head.row.space) changes.push({ put: promoted, expect: head.revision });
  else {
    changes.push({ remove: rowPosition(head.row), expect: head.revision });
    changes.push({ put: promoted, expect: 'absent' });
  }
  return { changes, before: [head.row, next.row], gone: [head.row] };
}

/** Whether another site may have the version. */
export const wasSent = ({ replication }: Pick<ObjectRow, 'replication'>): boolean =>
  replication !== undefined;
