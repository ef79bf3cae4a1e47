/** Signing keys and the comparison of signatures. */
import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { SigningKeys } from '../../../src/auth/verify-signature.ts';
import { nodeHasher } from '../../../src/backends/crypto/node.ts';
import { areEqual, equalsHex, toHex } from '../../../src/base/text/hex.ts';
import { parseTimestamp, toTimestamp } from '../../../src/protocol/formats/iso-time.ts';

const bytes = Uint8Array.from({ length: 32 }, (_, i) => i * 8);
const hex = Buffer.from(bytes).toString('hex');

test('a signature is its lower-case hexadecimal digits and nothing else', () => {
  expect(toHex(bytes)).toBe(hex);
  expect(equalsHex(bytes, hex)).toBe(true);
  for (const wrong of [
    '',
    hex.slice(2),
    `${hex}00`,
    hex.toUpperCase(),
    `${hex.slice(0, -1)}g`,
    hex.replace('8', '9'),
  ])
    expect(equalsHex(bytes, wrong), wrong).toBe(false);
});

test('byte arrays are equal when length and content are', () => {
  expect(areEqual(bytes, Uint8Array.from(bytes))).toBe(true);
  expect(areEqual(bytes, bytes.subarray(1))).toBe(false);
  expect(areEqual(bytes, bytes.toReversed())).toBe(false);
});

test('remembered keys stay within their bound, the oldest going first', () => {
  const keys = new SigningKeys();
  for (let i = 0; i < 5000; i++) keys.remember(`name ${i}`, bytes);
  expect(keys.get('name 0')).toBeUndefined();
  expect(keys.get('name 903')).toBeUndefined();
  expect(keys.get('name 904')).toBe(bytes);
  expect(keys.get('name 4999')).toBe(bytes);
});

describe('timestamps', () => {
  test.each(['20261121T120000Z', '19700101T000000Z'])('%s is one', (text) => {
    expect(toTimestamp(text)).toBe(text);
  });
  test.each([
    '20261121T120000',
    '20261121 120000Z',
    '20261321T120000Z',
    '20261100T120000Z',
    '20261121T240000Z',
    '20261121T126000Z',
    '20261121T120060Z',
    '2026112aT120000Z',
    '+0261121T120000Z',
    '20261121T120000Z,20261121T120000Z',
    '',
  ])('"%s" is none', (text) => {
    expect(parseTimestamp(text)).toBeUndefined();
  });
  test('an HTTP date becomes one', () => {
    for (const zone of ['GMT', 'UTC', '+0000'])
      expect(toTimestamp(`Fri, 24 May 2013 00:00:00 ${zone}`)).toBe('20130524T000000Z');
  });
  test.each(['garbage 1', '2013-05-24', 'Fri, 24 May 2013 00:00:00', 'Fri, 31 Feb 2013 00:00:00 GMT'])(
    '%s is no date of a header',
    (text) => {
      expect(toTimestamp(text)).toBeUndefined();
    },
  );
  test('asctime is GMT', () => {
    expect(toTimestamp('Fri May 24 00:00:00 2013')).toBe('20130524T000000Z');
  });
});

test('the native HMAC is that of node:crypto, for keys and texts of every length class', () => {
  const hasher = nodeHasher();
  for (const name of ['sha1', 'sha256'] as const)
    for (const keyLength of [0, 1, 20, 32, 63, 64, 65, 200])
      for (const data of ['', 'a', 'é'.repeat(99), 'x'.repeat(5000), new Uint8Array(4000).fill(3)]) {
        const key = new Uint8Array(keyLength).fill(200);
        const made = name === 'sha1' ? hasher.hmacSha1(key, data) : hasher.hmacSha256(key, data);
        expect(toHex(made)).toBe(createHmac(name, key).update(data).digest('hex'));
      }
});
