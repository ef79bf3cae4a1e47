/** Lifecycle rules: which rule applies to a version and when, with the calendar, every condition and the order of precedence. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  actionOnCurrent,
  actionOnNoncurrent,
  findAbort,
  findExpiration,
  findMarkerRemoval,
  type Lifecycle,
  type LifecycleRule,
  type NoncurrentVersion,
  type StoredVersion,
} from '../../src/domain/configurations/lifecycle-rules.ts';
import { formatExpiration } from '../../src/handlers/object/object-headers.ts';

const at = (text: string): number => Date.parse(text);
const day = 86_400_000;
const KiB = 1024;

type Rule = Partial<LifecycleRule>;
const of = (...rules: readonly Rule[]): Lifecycle => ({
  Rule: rules.map((rule, index) => ({
    ID: `r${index}`,
    Status: 'Enabled',
    Transition: [],
    NoncurrentVersionTransition: [],
    ...(rule.Prefix === undefined ? { Filter: {} } : {}),
    ...rule,
  })),
});
const version: StoredVersion = {
  key: 'logs/a',
  size: 1000 * KiB,
  modified: at('2026-01-10T10:30:00Z'),
  tags: [
    ['env', 'test'],
    ['kind', 'log'],
  ],
  storageClass: 'STANDARD',
};
const threeDays = { Expiration: { Days: 3 } } as const;

describe('an expiration', () => {
  test('in days falls on the midnight that follows them, and on no later one', () => {
    expect(findExpiration(of(threeDays), version)).toEqual({ at: at('2026-01-14T00:00:00Z'), rule: 'r0' });
    const midnight = { ...version, modified: at('2026-01-10T00:00:00Z') };
    expect(findExpiration(of(threeDays), midnight)?.at).toBe(at('2026-01-13T00:00:00Z'));
  });

  test('at a date falls on it, however old the version is', () => {
    const past = of({ Expiration: { Date: '2020-01-01T00:00:00.000Z' } });
    expect(findExpiration(past, version)?.at).toBe(at('2020-01-01T00:00:00Z'));
  });

  test('is the earliest of those whose rules apply', () => {
    const rules = of({ Expiration: { Days: 9 } }, { Expiration: { Days: 2 } }, { Expiration: { Days: 5 } });
    expect(findExpiration(rules, version)?.rule).toBe('r1');
    // Of two rules that are due at the same time the first one is named.
    expect(findExpiration(of(threeDays, threeDays), version)?.rule).toBe('r0');
  });

  test('is none where nothing expires, a rule is off, or a marker is what it is about', () => {
    expect(findExpiration(of(), version)).toBeUndefined();
    expect(findExpiration(of({ ...threeDays, Status: 'Disabled' }), version)).toBeUndefined();
    expect(findExpiration(of({ Expiration: { ExpiredObjectDeleteMarker: true } }), version)).toBeUndefined();
    expect(
      findExpiration(of({ AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 } }), version),
    ).toBeUndefined();
  });

  test('is returned in a header with its rule, whose id is escaped', () => {
    expect(formatExpiration({ at: at('2026-01-14T00:00:00Z'), rule: 'a "b", ü' })).toBe(
      'expiry-date="Wed, 14 Jan 2026 00:00:00 GMT", rule-id="a%20%22b%22%2C%20%C3%BC"',
    );
  });
});

describe('a rule applies', () => {
  const applies = (rule: Rule, more: Partial<StoredVersion> = {}): boolean =>
    findExpiration(of({ ...threeDays, ...rule }), { ...version, ...more }) !== undefined;

  test('by prefix, of either version of the API', () => {
    for (const [prefix, expected] of [
      ['', true],
      ['logs/', true],
      ['logs/a', true],
      ['logs/ab', false],
      ['Logs/', false],
    ] as const) {
      expect(applies({ Filter: { Prefix: prefix } })).toBe(expected);
      expect(applies({ Prefix: prefix })).toBe(expected);
    }
  });

  test('by tag, key and value both', () => {
    expect(applies({ Filter: { Tag: { Key: 'env', Value: 'test' } } })).toBe(true);
    expect(applies({ Filter: { Tag: { Key: 'env', Value: 'prod' } } })).toBe(false);
    expect(applies({ Filter: { Tag: { Key: 'test', Value: 'env' } } })).toBe(false);
    expect(applies({ Filter: { Tag: { Key: 'kind', Value: 'test' } } })).toBe(false);
    expect(applies({ Filter: { Tag: { Key: 'env', Value: 'test' } } }, { tags: undefined })).toBe(false);
  });

  test('by size, which must be beyond the bounds', () => {
    const size = 1000 * KiB;
    expect(applies({ Filter: { ObjectSizeGreaterThan: size - 1 } })).toBe(true);
    expect(applies({ Filter: { ObjectSizeGreaterThan: size } })).toBe(false);
    expect(applies({ Filter: { ObjectSizeLessThan: size + 1 } })).toBe(true);
    expect(applies({ Filter: { ObjectSizeLessThan: size } })).toBe(false);
    expect(applies({ Filter: { ObjectSizeGreaterThan: 0 } }, { size: 0 })).toBe(false);
  });

  test('by all of its conditions together', () => {
    const And = {
      Prefix: 'logs/',
      Tag: [
        { Key: 'env', Value: 'test' },
        { Key: 'kind', Value: 'log' },
      ],
      ObjectSizeGreaterThan: 1,
      ObjectSizeLessThan: 2000 * KiB,
    };
    expect(applies({ Filter: { And } })).toBe(true);
    expect(applies({ Filter: { And } }, { key: 'other' })).toBe(false);
    expect(applies({ Filter: { And } }, { tags: [['env', 'test']] })).toBe(false);
    expect(applies({ Filter: { And } }, { size: 1 })).toBe(false);
    expect(applies({ Filter: { And } }, { size: 2000 * KiB })).toBe(false);
  });
});

describe('an upload', () => {
  const upload = { key: 'logs/a', initiated: at('2026-01-10T10:30:00Z') };
  test('is aborted by the first rule that is about its key', () => {
    const rules = of(
      { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } },
      { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 }, Filter: { Prefix: 'logs/' } },
      { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 }, Filter: { Prefix: 'other/' } },
    );
    expect(findAbort(rules, upload)).toEqual({ at: at('2026-01-12T00:00:00Z'), rule: 'r1' });
    expect(findAbort(rules, { ...upload, key: 'k' })).toEqual({ at: at('2026-01-18T00:00:00Z'), rule: 'r0' });
    expect(findAbort(of(threeDays), upload)).toBeUndefined();
  });
});

describe('a delete marker without older versions', () => {
  const marker = { key: 'logs/a', modified: at('2026-01-10T10:30:00Z') };
  test('is removed immediately by its own rule, and else with the days of an expiration', () => {
    expect(findMarkerRemoval(of({ Expiration: { ExpiredObjectDeleteMarker: true } }), marker)?.at).toBe(
      marker.modified,
    );
    expect(
      findMarkerRemoval(of({ Expiration: { ExpiredObjectDeleteMarker: false } }), marker),
    ).toBeUndefined();
    expect(findMarkerRemoval(of(threeDays), marker)?.at).toBe(at('2026-01-14T00:00:00Z'));
    const aborts = { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 } };
    expect(findMarkerRemoval(of(aborts), marker)).toBeUndefined();
  });
  test('stays where a rule filters by tags, a size or another key', () => {
    for (const Filter of [
      { Tag: { Key: 'a', Value: 'b' } },
      { ObjectSizeLessThan: 1 },
      { Prefix: 'other/' },
      { And: { Prefix: 'logs/', Tag: [{ Key: 'a', Value: 'b' }] } },
      { And: { Prefix: 'logs/', Tag: [], ObjectSizeLessThan: 9 } },
      { ObjectSizeGreaterThan: 9 },
    ]) {
      expect(findMarkerRemoval(of({ ...threeDays, Filter }), marker)).toBeUndefined();
    }
  });
});

describe('the latest version', () => {
  const to = (StorageClass: string, Days: number) => ({ StorageClass, Days });
  const cooling = of({ Transition: [to('STANDARD_IA', 1), to('GLACIER', 5)], Expiration: { Days: 9 } });
  const on = (days: number, lifecycle = cooling, more: Partial<StoredVersion> = {}) =>
    actionOnCurrent(lifecycle, { ...version, ...more }, version.modified + days * day);

  test('moves to the coldest class that is due, and at last expires', () => {
    expect(on(0.5)).toBeUndefined();
    expect(on(2)).toEqual({ do: 'transition', rule: 'r0', storageClass: 'STANDARD_IA' });
    expect(on(6)).toEqual({ do: 'transition', rule: 'r0', storageClass: 'GLACIER' });
    expect(on(10)).toEqual({ do: 'expire', rule: 'r0' });
    // An action is due exactly at its time, not later.
    const { at: moment = 0 } = findExpiration(cooling, version) ?? {};
    expect(actionOnCurrent(cooling, version, moment)).toEqual({ do: 'expire', rule: 'r0' });
  });

  test('moves before it gets a delete marker, and is deleted permanently without being moved', () => {
    const both = of({ Expiration: { Days: 3 } }, { Transition: [to('GLACIER', 3)] });
    expect(on(5, both)).toEqual({ do: 'expire', rule: 'r0' });
    const kept = { ...version, isRetained: true };
    const moment = version.modified + 5 * day;
    expect(actionOnCurrent(both, kept, moment)).toMatchObject({ do: 'transition', rule: 'r1' });
    const moved = { ...kept, storageClass: 'GLACIER' };
    expect(actionOnCurrent(both, moved, moment)).toEqual({ do: 'expire', rule: 'r0' });
  });

  test('moves by no rule that is about other objects', () => {
    const others = of({ Transition: [to('GLACIER', 1)], Filter: { Prefix: 'other/' } });
    expect(on(6, others)).toBeUndefined();
  });

  test('never moves to where it is or back', () => {
    expect(on(2, cooling, { storageClass: 'STANDARD_IA' })).toBeUndefined();
    expect(on(2, cooling, { storageClass: 'GLACIER' })).toBeUndefined();
    expect(on(6, cooling, { storageClass: 'STANDARD_IA' })).toMatchObject({ storageClass: 'GLACIER' });
  });

  test('is not moved while small, unless a rule speaks of its size or the bucket says so for archives', () => {
    const small = { size: 128 * KiB - 1 };
    expect(on(6, cooling, small)).toBeUndefined();
    expect(on(6, cooling, { size: 128 * KiB })).toBeDefined();
    const sized = of({ Transition: [to('STANDARD_IA', 1)], Filter: { ObjectSizeGreaterThan: 1 } });
    expect(on(6, sized, small)).toMatchObject({ storageClass: 'STANDARD_IA' });
    const bounded = of({ Transition: [to('STANDARD_IA', 1)], Filter: { ObjectSizeLessThan: 1000 * KiB } });
    expect(on(6, bounded, small)).toMatchObject({ storageClass: 'STANDARD_IA' });
    const varies: Lifecycle = { ...cooling, minimumSize: 'varies_by_storage_class' };
    expect(on(2, varies, small)).toBeUndefined();
    expect(on(6, varies, small)).toMatchObject({ storageClass: 'GLACIER' });
    const deep = {
      ...of({ Transition: [to('DEEP_ARCHIVE', 1)] }),
      minimumSize: 'varies_by_storage_class',
    } as const;
    expect(on(2, deep, small)).toMatchObject({ storageClass: 'DEEP_ARCHIVE' });
    expect(on(10, cooling, small)).toEqual({ do: 'expire', rule: 'r0' });
  });

  test('moves at a date of a rule', () => {
    const dated = of({ Transition: [{ StorageClass: 'GLACIER_IR', Date: '2026-02-01T00:00:00.000Z' }] });
    expect(actionOnCurrent(dated, version, at('2026-01-31T23:59:59Z'))).toBeUndefined();
    expect(actionOnCurrent(dated, version, at('2026-02-01T00:00:00Z'))).toMatchObject({
      storageClass: 'GLACIER_IR',
    });
  });
});

describe('a noncurrent version', () => {
  const old: NoncurrentVersion = { ...version, since: at('2026-03-01T12:00:00Z'), newer: 2 };
  const ten = { NoncurrentVersionExpiration: { NoncurrentDays: 10 } };

  test('is counted from the version that replaced it, not from its own creation', () => {
    expect(actionOnNoncurrent(of(ten), old, at('2026-03-11T23:59:59Z'))).toBeUndefined();
    expect(actionOnNoncurrent(of(ten), old, at('2026-03-12T00:00:00Z'))).toEqual({
      do: 'expire',
      rule: 'r0',
    });
    expect(actionOnNoncurrent(of(threeDays), old, at('2030-01-01'))).toBeUndefined();
  });

  test('is left alone by a rule that is about other objects, and is not moved while small', () => {
    const later = at('2027-01-01');
    const move = { NoncurrentVersionTransition: [{ NoncurrentDays: 0, StorageClass: 'GLACIER' }] };
    for (const rule of [ten, move]) {
      expect(actionOnNoncurrent(of(rule), old, later)).toBeDefined();
      expect(actionOnNoncurrent(of({ ...rule, Filter: { Prefix: 'other/' } }), old, later)).toBeUndefined();
    }
    const small = { ...old, size: 128 * KiB - 1 };
    expect(actionOnNoncurrent(of(move), small, later)).toBeUndefined();
    const varies: Lifecycle = { ...of(move), minimumSize: 'varies_by_storage_class' };
    expect(actionOnNoncurrent(varies, small, later)).toMatchObject({ storageClass: 'GLACIER' });
  });

  test('is kept among the newest that a rule keeps', () => {
    const keeping = (NewerNoncurrentVersions: number) =>
      of({ NoncurrentVersionExpiration: { NoncurrentDays: 1, NewerNoncurrentVersions } });
    const later = at('2027-01-01');
    expect(actionOnNoncurrent(keeping(3), old, later)).toBeUndefined();
    expect(actionOnNoncurrent(keeping(2), old, later)).toBeDefined();
    expect(actionOnNoncurrent(keeping(1), { ...old, newer: 0 }, later)).toBeUndefined();
    expect(actionOnNoncurrent(keeping(1), { ...old, newer: 1 }, later)).toBeDefined();
  });

  test('of all a key has, as many stay as a rule keeps', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 0, max: 200 }), (keep, count) => {
        const rules = of({
          NoncurrentVersionExpiration: { NoncurrentDays: 1, NewerNoncurrentVersions: keep },
        });
        const kept = Array.from({ length: count }, (_, newer) =>
          actionOnNoncurrent(rules, { ...old, newer }, at('2027-01-01')),
        ).filter((action) => action === undefined);
        expect(kept).toHaveLength(Math.min(keep, count));
      }),
    );
  });

  test('moves through the classes of its own transitions and expires before it moves', () => {
    const rules = of({
      NoncurrentVersionTransition: [
        { NoncurrentDays: 0, StorageClass: 'STANDARD_IA' },
        { NoncurrentDays: 5, StorageClass: 'GLACIER', NewerNoncurrentVersions: 2 },
      ],
      ...ten,
    });
    expect(actionOnNoncurrent(rules, old, at('2026-03-02T00:00:00Z'))).toMatchObject({
      storageClass: 'STANDARD_IA',
    });
    expect(actionOnNoncurrent(rules, old, at('2026-03-08T00:00:00Z'))).toMatchObject({
      storageClass: 'GLACIER',
    });
    expect(actionOnNoncurrent(rules, { ...old, newer: 1 }, at('2026-03-08T00:00:00Z'))).toMatchObject({
      storageClass: 'STANDARD_IA',
    });
    expect(actionOnNoncurrent(rules, old, at('2026-03-20T00:00:00Z'))).toEqual({ do: 'expire', rule: 'r0' });
  });
});
