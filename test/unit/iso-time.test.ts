/** Formatted times equal those of `Date`, without the part of a second; dates of headers have the forms of their standards. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isoTime, parseHttpDate } from '../../src/protocol/formats/iso-time.ts';

const ofDate = (ms: number): string => new Date(Math.floor(Math.trunc(ms) / 1000) * 1000).toISOString();

test('any moment is written as Date writes its second', () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e14, max: 8.64e15 }), fc.integer({ min: -2e8, max: 2e8 }), (ms, step) => {
      for (const moment of [ms, Math.min(ms + step, 8.64e15)]) expect(isoTime(moment)).toBe(ofDate(moment));
    }),
  );
});

test.each([0, -1, 1.5, -0.5, 999, 86_399_999, 86_400_000, 1_764_000_000_007, 253_402_300_800_000])(
  '%d, too',
  (ms) => {
    expect(isoTime(ms)).toBe(ofDate(ms));
  },
);

test.each([
  ['Sun, 06 Nov 1994 08:49:37 GMT', '1994-11-06T08:49:37.000Z'],
  ['Sunday, 06-Nov-94 08:49:37 GMT', '1994-11-06T08:49:37.000Z'],
  ['Sun Nov  6 08:49:37 1994', '1994-11-06T08:49:37.000Z'],
  ['Thu Jan 15 00:00:00 1970', '1970-01-15T00:00:00.000Z'],
  ['Thursday, 31-Dec-69 23:59:59 GMT', '2069-12-31T23:59:59.000Z'],
  ['Thu, 29 Feb 2024 00:00:00 GMT', '2024-02-29T00:00:00.000Z'],
])('the HTTP date %j is %s', (text, expected) => {
  expect(new Date(parseHttpDate(text) ?? Number.NaN).toISOString()).toBe(expected);
});

test.each([
  '',
  'garbage 1',
  '7',
  'sun, 06 Nov 1994 08:49:37 GMT',
  'Sun, 6 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 08:49:37',
  'Sun, 06 Nov 1994 08:49:37 EST',
  'Sun, 06 Nov 1994 24:00:00 GMT',
  'Wed, 29 Feb 2023 00:00:00 GMT',
  'Sun, 00 Nov 1994 08:49:37 GMT',
  'Sun Nov 6 08:49:37 1994',
  'Sun Nov  6 08:49:37 1994 GMT',
  '1994-11-06T08:49:37Z',
])('%j is no HTTP date', (text) => {
  expect(parseHttpDate(text)).toBeUndefined();
});

test('an HTTP date without a zone is GMT, whatever the time zone of the server', () => {
  const script = `
    import { parseHttpDate } from ${JSON.stringify(new URL('../../src/protocol/formats/iso-time.ts', import.meta.url).href)};
    console.log(parseHttpDate('Sat Nov 28 23:07:12 2026'), new Date(0).getTimezoneOffset());`;
  const env = { ...process.env, TZ: 'America/Los_Angeles' };
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { env });
  expect(printed.toString().trim()).toBe(`${Date.UTC(2026, 10, 28, 23, 7, 12)} 480`);
});
