/** A multipart object's checksum from its parts' checksums. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import {
  type CrcName,
  type checksumFacts,
  combineCrcs,
  compositeChecksum,
} from '../../src/domain/content/digests.ts';

const hasher = nodeHasher();
const hex = (digest: Uint8Array) => Buffer.from(digest).toString('hex');

describe.each<CrcName>(['crc32', 'crc32c', 'crc64nvme'])('%s', (name) => {
  test('combines to the checksum of the whole, for any parts, empty ones too', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 6 }), (parts) => {
        const whole = hasher.once(name, new Uint8Array(parts.flatMap((part) => [...part])));
        const sums = parts.map((part) => ({ digest: hasher.once(name, part), size: part.length }));
        expect(hex(combineCrcs(name, sums))).toBe(hex(whole));
      }),
    );
  });

  test('combines two long ones', () => {
    const a = new Uint8Array(5 * 1024 * 1024 + 3).fill(7);
    const b = new Uint8Array(6 * 1024 * 1024 + 1).fill(9);
    const hash = hasher.create(name);
    hash.update(a);
    hash.update(b);
    const sums = [a, b].map((part) => ({ digest: hasher.once(name, part), size: part.length }));
    const combined = combineCrcs(name, sums);
    expect(hex(combined)).toBe(hex(hash.digest()));
  });

  test('combines lengths beyond 32 bits', () => {
    // Appending zeros in steps of powers of two gives the same CRC as appending them together.
    const crc = hasher.once(name, Uint8Array.of(1, 2, 3));
    const none = new Uint8Array(crc.length);
    const half = 3 * 2 ** 31;
    const first = { digest: crc, size: 3 };
    const zeros = (size: number) => ({ digest: none, size });
    const twice = combineCrcs(name, [first, zeros(half), zeros(half)]);
    expect(hex(combineCrcs(name, [first, zeros(2 * half)]))).toBe(hex(twice));
  });
});

test('a composite checksum is the hash of the digests and the number of parts', () => {
  const digests = ['one', 'two'].map((text) => hasher.once('sha256', new TextEncoder().encode(text)));
  const expected = Buffer.from(hasher.once('sha256', Buffer.concat(digests))).toString('base64');
  expect(compositeChecksum(hasher, 'sha256', digests)).toBe(`${expected}-2`);
});

test('an algorithm that is no CRC cannot have the type FULL_OBJECT', () => {
  const facts: (typeof checksumFacts)['SHA512'][] = [
    { hash: 'crc32', bytes: 4, types: ['FULL_OBJECT'], fallback: 'FULL_OBJECT' },
    { hash: 'sha512', bytes: 64, types: ['COMPOSITE'], fallback: 'COMPOSITE' },
    // @ts-expect-error A FULL_OBJECT checksum cannot be computed from digests.
    { hash: 'sha512', bytes: 64, types: ['COMPOSITE', 'FULL_OBJECT'], fallback: 'COMPOSITE' },
  ];
  expect(facts.length).toBe(3);
  expect(() => combineCrcs('sha512', [])).toThrow('a sha512 does not follow from those of the parts');
});
