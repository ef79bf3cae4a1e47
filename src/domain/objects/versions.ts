/**
 * Pure functions that plan the changes of a key's rows for a write or delete.
 *
 * A key has exactly one head: its newest version, either live (in the live space) or a delete marker (in the history space).
 * Every plan writes the head at its revision, or checks that there is none, so of two concurrent writers of a key only one
 * commits.
 */

import { memoizeLast } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import { toHex, toUpperHex } from '../../base/text/hex.ts';
import { historyAt, liveHeadAt, markerHeadAt } from '../../metadata/objects/objects.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../../metadata/tables.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Change, SideChange, SortOf, Stored } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';

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

const positionOf = (row: ObjectRow): SortOf<typeof objects> => ({
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

function asHead(row: ObjectRow, nullVersion: string | undefined): ObjectRow {
  const head: ObjectRow = { ...row, space: row.marker ? historySpace : liveSpace, slot: headSlot };
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
  const unplaced: ObjectRow = { ...fresh, space: liveSpace, slot: headSlot, version, isNull };
  const next = asHead(unplaced, isNull ? undefined : nullBehind(head?.row));
  const changes: Change<typeof objects>[] = [];

  if (head !== undefined && head.row.space === next.space) changes.push({ put: next, expect: head.revision });
  else {
    changes.push({ put: next, expect: 'absent' });
    if (head !== undefined) changes.push({ remove: positionOf(head.row), expect: head.revision });
    // Without a check a concurrent writer could create a head in the other space.
    else if (bucket.versioning !== '')
      changes.push({ check: headPosition(next.key, !next.marker), expect: 'absent' });
  }
  const replaced = head !== undefined && isNull && head.row.isNull;
  if (head !== undefined && !replaced)
    changes.push({ put: asHistory(head.row, fresh.modified), expect: 'absent' });
  if (isNull && oldNull !== undefined)
    changes.push({ remove: positionOf(oldNull.row), expect: oldNull.revision });

  const gone = [replaced ? head.row : undefined, isNull ? oldNull?.row : undefined].filter(
    (row) => row !== undefined,
  );
  const before = [head?.row, isNull ? oldNull?.row : undefined].filter((row) => row !== undefined);
  return { changes, before, gone, fresh: next };
}

/** Without versioning a delete removes the object. */
export const planRemoval = (head: Stored<ObjectRow>): Plan => ({
  changes: [{ remove: positionOf(head.row), expect: head.revision }],
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
    const changes: Change<typeof objects>[] = [{ remove: positionOf(target.row), expect: target.revision }];
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
    changes.push({ remove: positionOf(head.row), expect: head.revision });
    changes.push({ put: promoted, expect: 'absent' });
  }
  return { changes, before: [head.row, next.row], gone: [head.row] };
}

// Version ids: unique text in the order of time; an id never sorts before the version that it succeeds.

/** 12 hex digits of milliseconds, 4 of sequence, 16 of randomness. */
const orderedDigits = 16;

const timeText = memoizeLast((ms: number) => `${ms.toString(16).padStart(12, '0')}0000`);

/**
 * @param previous the latest version of the key: the new one sorts after it even if this process's clock runs behind the one that
 *   drew it
 */
export function drawVersion(
  ctx: { readonly clock: Clock; readonly random: Random },
  previous?: string,
): string {
  const now = timeText(ctx.clock.now());
  const ordered =
    previous === undefined || now > previous.slice(0, orderedDigits) ? now : successor(previous);
  return ordered + toHex(ctx.random.bytes(8));
}

/** The part of a version id that orders it among those of its key, without the part that makes it unique. */
export const orderOf = (version: string): string => version.slice(0, orderedDigits);

/** The version id that a write drew before its bytes were stored, unless the latest version of the key has a later one. */
export const versionFor = (
  ctx: { readonly clock: Clock; readonly random: Random },
  wanted: string | undefined,
  { behind: previous }: { readonly behind: string | undefined },
): string =>
  wanted !== undefined && (previous === undefined || orderOf(wanted) > orderOf(previous))
    ? wanted
    : drawVersion(ctx, previous);

const successor = (version: string): string =>
  (BigInt(`0x${version.slice(0, orderedDigits)}`) + 1n).toString(16).padStart(orderedDigits, '0');

/** A version id that sorts ahead of another. */
export const versionBefore = (ctx: { readonly random: Random }, next: string): string =>
  (BigInt(`0x${orderOf(next)}`) - 1n).toString(16).padStart(orderedDigits, '0') + toHex(ctx.random.bytes(8));

/** When a version or upload id was drawn, in ms since the epoch. */
export const timeOf = (version: string): number => Number.parseInt(version.slice(0, 12), 16);

/** Whether a text has the form of a version id; `null` names the null version. */
export const isVersionId = (text: string): boolean => text === 'null' || /^[0-9a-f]{32}$/.test(text);

/** @throws InvalidArgument, in the public service's words */
export function assertVersionId(text: string | undefined): void {
  if (text === undefined || isVersionId(text)) return;
  throw fail('InvalidArgument', {
    message: text === '' ? 'Version id cannot be the empty string' : 'Invalid version id specified',
    elements: { ArgumentName: 'versionId', ArgumentValue: text },
  });
}

/** Upload ids are drawn like version ids. */
export const isUploadId = (text: string): boolean => /^[0-9a-f]{32}$/.test(text);

/** A fresh identifier of 128 random bits, for buckets and requests. */
export const drawId = (random: Random): string => toHex(random.bytes(16));

/** In the form of the public service: 16 upper-case hex digits. */
export const drawRequestId = (random: Random): string => toUpperHex(random.bytes(8));
