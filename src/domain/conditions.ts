/** Conditional requests (RFC 9110 §13.2.2, and the public API's conditional writes). */
import { fail } from '../errors/refusal.ts';
import type { ObjectRow } from '../metadata/tables.ts';

/** ETags are as the client sent them: quoted or not, `*`, a list. Dates are ms since the epoch, seconds precision. */
export interface Conditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
  readonly ifModifiedSince?: number;
  readonly ifUnmodifiedSince?: number;
  /** DeleteObjects states these too. */
  readonly ifSize?: number;
}

const isUnconditional = (conditions: Conditions): boolean => Object.keys(conditions).length === 0;

/** Whether an ETag list names this one; weak marks and quotes do not matter. */
function names(list: string, etag: string): boolean {
  return list.split(',').some((each) => {
    const bare = each
      .trim()
      .replace(/^W\//, '')
      .replace(/^"(.*)"$/, '$1');
    return bare === '*' || bare === etag;
  });
}

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** For reads, in the order of RFC 9110: If-Match masks If-Unmodified-Since, If-None-Match masks If-Modified-Since. */
export function checkRead(
  conditions: Conditions,
  row: Pick<ObjectRow, 'etag' | 'modified'>,
): 'ok' | 'not-modified' {
  if (isUnconditional(conditions)) return 'ok';
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = conditions;
  if (ifMatch !== undefined) {
    if (!names(ifMatch, row.etag)) throw preconditionFailed('If-Match');
  } else if (ifUnmodifiedSince !== undefined && seconds(row.modified) > seconds(ifUnmodifiedSince)) {
    throw preconditionFailed('If-Unmodified-Since');
  }
  if (ifNoneMatch !== undefined) return names(ifNoneMatch, row.etag) ? 'not-modified' : 'ok';
  if (ifModifiedSince !== undefined && seconds(row.modified) <= seconds(ifModifiedSince))
    return 'not-modified';
  return 'ok';
}

/** For the source of a copy, where what would be 304 is 412. */
export function checkCopySource(conditions: Conditions, row: Pick<ObjectRow, 'etag' | 'modified'>): void {
  if (checkRead(conditions, row) === 'not-modified')
    throw preconditionFailed('x-*-copy-source-if-none-match');
}

/**
 * For writes, against the current version (undefined where there is none or it is a delete marker).
 * A write that demands a version and finds none is told 404, as the public API does.
 */
export function checkWrite(
  conditions: Conditions,
  current: Pick<ObjectRow, 'etag' | 'modified' | 'key'> | undefined,
): void {
  const { ifMatch, ifNoneMatch } = conditions;
  if (ifMatch !== undefined) {
    if (current === undefined) throw fail('NoSuchKey');
    if (!names(ifMatch, current.etag)) throw preconditionFailed('If-Match');
  }
  if (ifNoneMatch !== undefined && current !== undefined && names(ifNoneMatch, current.etag)) {
    throw preconditionFailed('If-None-Match');
  }
}

/** For deletes: what is not there cannot match. */
export function checkDelete(
  conditions: Conditions,
  current: Pick<ObjectRow, 'etag' | 'modified' | 'size'> | undefined,
): void {
  const { ifMatch, ifUnmodifiedSince, ifSize } = conditions;
  if (ifMatch !== undefined && (current === undefined || !names(ifMatch, current.etag)))
    throw preconditionFailed('If-Match');
  if (
    ifUnmodifiedSince !== undefined &&
    (current === undefined || seconds(current.modified) !== seconds(ifUnmodifiedSince))
  ) {
    throw preconditionFailed('If-Match-Last-Modified-Time');
  }
  if (ifSize !== undefined && current?.size !== ifSize) throw preconditionFailed('If-Match-Size');
}

const preconditionFailed = (condition: string) =>
  fail('PreconditionFailed', { elements: { Condition: condition } });

/** Whether a write is conditional: then losing a race is told to the client. */
export const isConditional = ({ ifMatch, ifNoneMatch }: Conditions): boolean =>
  ifMatch !== undefined || ifNoneMatch !== undefined;
