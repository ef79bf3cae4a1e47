/** Conditional requests: the grammar of ETag lists, and dates in whole seconds (RFC 9110 §13). */
import { describe, expect, test } from 'vitest';
import { Refusal } from '../../src/base/errors.ts';
import {
  type Conditions,
  checkCopySource,
  checkDelete,
  checkRead,
  checkWrite,
} from '../../src/domain/objects/conditions.ts';

const modified = Date.parse('2026-01-10T10:30:00.500Z');
const second = 1_000;
const now = modified + 60 * second;
const row = { key: 'key', etag: 'abc', modified, size: 5 };

/** The result of a check, or the error code with the condition that the refusal names. */
function outcome(check: () => unknown): unknown {
  try {
    return check();
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    return [refusal.code, refusal.details.elements?.['Condition']].join(' ').trim();
  }
}

describe('an ETag list', () => {
  test.each([
    ['"abc"', true],
    ['abc', true],
    ['*', true],
    [' * ', true],
    ['"*"', false],
    ['"x", *', false],
    [' "x" , "abc" ', true],
    ['"x", W/"abc"', false],
    ['"abcd"', false],
    ['x"abc"', false],
    ['"abc"x', false],
    ['', false],
  ])('%j of If-Match names the object: %s', (ifMatch, expected) => {
    expect(outcome(() => checkRead({ ifMatch }, row, now))).toBe(
      expected ? 'ok' : 'PreconditionFailed If-Match',
    );
  });

  test.each([
    ['W/"abc"', true],
    ['*', true],
    ['"*"', false],
    ['W/*', false],
    ['"x", W/"abc" ', true],
    ['xW/abc', false],
    ['aW/bc', false],
  ])('%j of If-None-Match names the object, weakly: %s', (ifNoneMatch, expected) => {
    expect(checkRead({ ifNoneMatch }, row, now)).toBe(expected ? 'not-modified' : 'ok');
  });
});

test.each<[Conditions, string]>([
  [{}, 'ok'],
  [{ ifModifiedSince: modified }, 'not-modified'],
  [{ ifModifiedSince: modified - 500 }, 'not-modified'],
  [{ ifModifiedSince: modified - second }, 'ok'],
  [{ ifModifiedSince: now + second }, 'ok'],
  [{ ifUnmodifiedSince: modified - 500 }, 'ok'],
  [{ ifUnmodifiedSince: modified - second }, 'PreconditionFailed If-Unmodified-Since'],
  [{ ifMatch: 'abc', ifUnmodifiedSince: modified - second }, 'ok'],
  [{ ifNoneMatch: 'x', ifModifiedSince: modified }, 'ok'],
  [{ ifSize: 1 }, 'ok'],
])('a read on %j is told %s', (conditions, expected) => {
  expect(outcome(() => checkRead(conditions, row, now))).toBe(expected);
});

const ofSource = { now, prefix: 'ofSource' };
test('the source of a copy is refused where a read would be told that nothing changed', () => {
  expect(outcome(() => checkCopySource({ ifNoneMatch: 'abc' }, row, ofSource))).toBe(
    'PreconditionFailed ofSourceIf-None-Match',
  );
  expect(outcome(() => checkCopySource({ ifModifiedSince: modified }, row, ofSource))).toMatch(
    /^PreconditionFailed/,
  );
  expect(outcome(() => checkCopySource({ ifNoneMatch: 'x' }, row, ofSource))).toBeUndefined();
});

test.each<[Conditions, boolean, string | undefined]>([
  [{ ifMatch: '*' }, false, 'NoSuchKey'],
  [{ ifNoneMatch: '*' }, false, undefined],
  [{ ifNoneMatch: '*' }, true, 'PreconditionFailed If-None-Match'],
  [{ ifMatch: 'x' }, true, 'PreconditionFailed If-Match'],
  [{ ifMatch: 'abc' }, true, undefined],
  [{ ifUnmodifiedSince: modified - second }, true, 'PreconditionFailed If-Unmodified-Since'],
])('a write on %j, over an object: %s, is told %s', (conditions, isThere, expected) => {
  expect(outcome(() => checkWrite(conditions, isThere ? row : undefined))).toBe(expected);
});

test.each<[Conditions, boolean, string | undefined]>([
  [{}, false, undefined],
  [{ ifMatch: ' * ' }, false, 'NoSuchKey'],
  [{ ifMatch: 'abc' }, false, 'PreconditionFailed If-Match'],
  [{ ifMatch: 'abc' }, true, undefined],
  [{ ifMatch: 'other' }, true, 'PreconditionFailed If-Match'],
  [{ ifMatch: '"a"bc' }, true, 'PreconditionFailed If-Match'],
  [{ ifMatch: 'a"bc"' }, true, 'PreconditionFailed If-Match'],
  [{ ifUnmodifiedSince: modified - 2 * second }, true, 'PreconditionFailed If-Unmodified-Since'],
  [{ ifNoneMatch: 'x' }, true, undefined],
  [{ ifNoneMatch: 'abc' }, true, 'PreconditionFailed If-None-Match'],
  [{ ifNoneMatch: 'abc' }, false, undefined],
  [{ ifModifiedAt: modified - 500 }, true, undefined],
  [{ ifModifiedAt: modified + second }, true, 'PreconditionFailed If-Match-Last-Modified-Time'],
  [{ ifModifiedAt: modified }, false, undefined],
  [{ ifSize: 5 }, true, undefined],
  [{ ifSize: 4 }, true, 'PreconditionFailed If-Match-Size'],
  [{ ifSize: 5 }, false, undefined],
  [{ ifMatch: 'abc', ifSize: 5 }, false, 'PreconditionFailed If-Match'],
])('a delete on %j, of an object: %s, is told %s', (conditions, isThere, expected) => {
  expect(outcome(() => checkDelete(conditions, isThere ? row : undefined))).toBe(expected);
});
