/** Conditional requests (RFC 9110 §13.2.2, and the public API's conditional writes). */
import { fail } from '../../base/errors.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';

/** ETags are as the client sent them: quoted or not, `*`, a list. Dates are ms since the epoch, seconds precision. */
export interface Conditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
  readonly ifModifiedSince?: number;
  readonly ifUnmodifiedSince?: number;
  /** For deletes only: the exact size, and the exact second of the last change. */
  readonly ifSize?: number;
  readonly ifModifiedAt?: number;
  /** Of writes and deletes: the head that was read for the permission to compare, or for a check ahead of the body. */
  readonly seen?: SeenHead;
}

/** A head as it was read, so that the operation need not read it again. Its commit states its revision. */
export interface ReadHead {
  readonly head: Stored<ObjectRow> | undefined;
}

interface SeenHead extends ReadHead {
  /** Asks for the permission to compare with a head that has replaced it; absent where none is needed. @throws AccessDenied */
  assertMayCompare?(head: Stored<ObjectRow> | undefined): Promise<void>;
}

/**
 * Whether an ETag list contains this one, with or without quotes, or is `*`, which is an ETag like any other in quotes or in a list.
 * If-Match compares strongly: weak ETags never match.
 */
function names(list: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (isAnyEtag(list)) return true;
  return list.split(',').some((each) => {
    const tag = comparison === 'weak' ? each.trim().replace(/^W\//, '') : each.trim();
    return tag.replace(/^"(.*)"$/, '$1') === etag;
  });
}

/** Whether the header asks only that a version exists. */
export const isAnyEtag = (list: string): boolean => list.trim() === '*';

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** For reads, in the order of RFC 9110: If-Match masks If-Unmodified-Since, If-None-Match masks If-Modified-Since. */
export function checkRead(
  conditions: Conditions,
  row: Pick<ObjectRow, 'etag' | 'modified'>,
  now: number,
): 'ok' | 'not-modified' {
  checkUnchanged(conditions, row);
  return findUnmodified(conditions, row, now) === undefined ? 'ok' : 'not-modified';
}

/** The condition that holds a read back, because the client has the version already. A date in the future says nothing (public API). */
function findUnmodified(
  { ifNoneMatch, ifModifiedSince }: Conditions,
  row: Pick<ObjectRow, 'etag' | 'modified'>,
  now: number,
): 'If-None-Match' | 'If-Modified-Since' | undefined {
  if (ifNoneMatch !== undefined) return names(ifNoneMatch, row.etag, 'weak') ? 'If-None-Match' : undefined;
  if (ifModifiedSince === undefined || ifModifiedSince > now) return undefined;
  return seconds(row.modified) <= seconds(ifModifiedSince) ? 'If-Modified-Since' : undefined;
}

/** The conditions that every method has: the client acts on the version that it knows. */
function checkUnchanged(
  { ifMatch, ifUnmodifiedSince }: Conditions,
  row: Pick<ObjectRow, 'etag' | 'modified'>,
  prefix = '',
): void {
  if (ifMatch !== undefined) {
    if (!names(ifMatch, row.etag, 'strong')) throw preconditionFailed(`${prefix}If-Match`);
  } else if (ifUnmodifiedSince !== undefined && seconds(row.modified) > seconds(ifUnmodifiedSince)) {
    throw preconditionFailed(`${prefix}If-Unmodified-Since`);
  }
}

/** For the source of a copy: a result that would be 304 in a read is 412. @param prefix of the names of its conditions in a refusal */
export function checkCopySource(
  conditions: Conditions,
  row: Pick<ObjectRow, 'etag' | 'modified'>,
  { now, prefix }: { readonly now: number; readonly prefix: string },
): void {
  checkUnchanged(conditions, row, prefix);
  const unmodified = findUnmodified(conditions, row, now);
  if (unmodified !== undefined) throw preconditionFailed(`${prefix}${unmodified}`);
}

/**
 * For writes, against the current version (undefined when there is none or it is a delete marker).
 * A write that demands a version and finds none is 404, as in the public API.
 */
export function checkWrite(
  conditions: Conditions,
  current: Pick<ObjectRow, 'etag' | 'modified' | 'key'> | undefined,
): void {
  const { ifMatch, ifNoneMatch } = conditions;
  if (current === undefined) {
    if (ifMatch !== undefined) throw fail('NoSuchKey');
    return;
  }
  checkUnchanged(conditions, current);
  if (ifNoneMatch !== undefined && names(ifNoneMatch, current.etag, 'weak'))
    throw preconditionFailed('If-None-Match');
}

/**
 * Conditions of a delete: a missing object has no ETag that could match; `If-Match: *` requires it to exist and is answered 404. Time and
 * size hold where there is none (public API).
 */
export function checkDelete(
  conditions: Conditions,
  current: Pick<ObjectRow, 'etag' | 'modified' | 'size'> | undefined,
): void {
  const { ifMatch, ifNoneMatch, ifModifiedAt, ifSize } = conditions;
  if (current !== undefined) checkUnchanged(conditions, current);
  else if (ifMatch !== undefined)
    throw isAnyEtag(ifMatch) ? fail('NoSuchKey') : preconditionFailed('If-Match');
  if (current === undefined) return;
  if (ifNoneMatch !== undefined && names(ifNoneMatch, current.etag, 'weak'))
    throw preconditionFailed('If-None-Match');
  checkSecond('If-Match-Last-Modified-Time', current.modified, ifModifiedAt);
  if (ifSize !== undefined && current.size !== ifSize) throw preconditionFailed('If-Match-Size');
}

/** @throws PreconditionFailed where the time that the client knows is another second */
export function checkSecond(condition: string, time: number, known: number | undefined): void {
  if (known !== undefined && seconds(time) !== seconds(known)) throw preconditionFailed(condition);
}

/** For the commit: checks the head that it replaces, with which the caller must be allowed to compare. @throws AccessDenied too */
export async function checkCommit(
  conditions: Conditions,
  head: Stored<ObjectRow> | undefined,
  check: typeof checkWrite | typeof checkDelete,
): Promise<void> {
  const { seen } = conditions;
  if (seen !== undefined && seen.head?.revision !== head?.revision) await seen.assertMayCompare?.(head);
  check(conditions, presentRow(head));
}

/** Undefined where there is no object: no head, or a delete marker. */
export const presentRow = (head: Stored<ObjectRow> | undefined): ObjectRow | undefined =>
  head?.row.marker ? undefined : head?.row;

const preconditionFailed = (condition: string) =>
  fail('PreconditionFailed', { elements: { Condition: condition } });
