/** Both hashers against published vectors and against each other. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { portableHasher } from '../../src/backends/crypto/portable.ts';
import type { HashName } from '../../src/ports/cryptography.ts';

const hashers = { node: nodeHasher(), portable: portableHasher() };
const bytes = (text: string) => new TextEncoder().encode(text);
const hex = (digest: Uint8Array) => Buffer.from(digest).toString('hex');

/** RFC 1321, FIPS 180, the CRC catalogue's check values, RFC 3720 B.4 and the NVMe specification. */
const vectors: readonly (readonly [HashName, Uint8Array, string])[] = [
  ['md5', bytes(''), 'd41d8cd98f00b204e9800998ecf8427e'],
  ['md5', bytes('message digest'), 'f96b697d7cb7938d525a2f31aaf161d0'],
  ['sha1', bytes('abc'), 'a9993e364706816aba3e25717850c26c9cd0d89d'],
  ['sha256', bytes('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
  [
    'sha512',
    bytes('abc'),
    'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
  ],
  ['crc32', bytes('123456789'), 'cbf43926'],
  ['crc32', bytes(''), '00000000'],
  ['crc32c', bytes('123456789'), 'e3069283'],
  ['crc32c', new Uint8Array(32), '8a9136aa'],
  ['crc32c', new Uint8Array(32).fill(0xff), '62a8ab43'],
  ['crc32c', Uint8Array.from({ length: 32 }, (_, n) => n), '46dd794e'],
  ['xxhash64', bytes('hello world'), '45ab6734b21e6968'],
  ['xxhash3', bytes(''), '2d06800538d394c2'],
  ['xxhash128', bytes(''), '99aa06d3014798d86001c324468d497f'],
  ['crc64nvme', bytes('123456789'), 'ae8b14860a799888'],
  ['crc64nvme', bytes(''), '0000000000000000'],
  ['crc64nvme', new Uint8Array(4096), '6482d367eb22b64e'],
  ['crc64nvme', new Uint8Array(4096).fill(0xff), 'c0ddba7302eca3ac'],
  ['crc64nvme', Uint8Array.from({ length: 4096 }, (_, n) => n & 0xff), '3e729f5f6750449c'],
];

describe.each(Object.entries(hashers))('the %s hasher', (_, hasher) => {
  test.each(vectors)('gives the published digest: %s of %o', (name, input, digest) => {
    expect(hex(hasher.once(name, input))).toBe(digest);
    const hash = hasher.create(name);
    for (const byte of input) hash.update(Uint8Array.of(byte));
    expect(hex(hash.digest())).toBe(digest);
  });

  test('gives the published HMACs', () => {
    // RFC 4231 case 2 and RFC 2202 case 2.
    const data = 'what do ya want for nothing?';
    const sha256 = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843';
    expect(hex(hasher.hmacSha256(bytes('Jefe'), data))).toBe(sha256);
    expect(hex(hasher.hmacSha256(bytes('Jefe'), bytes(data)))).toBe(sha256);
    expect(hex(hasher.hmacSha1(bytes('Jefe'), data))).toBe('effcdf6ae5eb2fa2d27416d5f184df9c259a7c79');
  });

  test('hashes a text as UTF-8', () => {
    expect(hasher.sha256Hex('é€😀')).toBe(hex(hasher.once('sha256', bytes('é€😀'))));
  });
});

test('both hashers agree on any bytes, however they are cut and aligned', () => {
  const names: readonly HashName[] = [
    'md5',
    'sha1',
    'sha256',
    'sha512',
    'crc32',
    'crc32c',
    'crc64nvme',
    'xxhash64',
    'xxhash3',
    'xxhash128',
  ];
  const pieces = fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 8 });
  fc.assert(
    fc.property(pieces, fc.constantFrom(...names), fc.nat(7), (parts, name, shift) => {
      const whole = new Uint8Array([...new Uint8Array(shift), ...parts.flatMap((part) => [...part])]);
      const input = whole.subarray(shift);
      const expected = hex(hashers.node.once(name, input));
      for (const hasher of Object.values(hashers)) {
        const hash = hasher.create(name);
        for (const part of parts) hash.update(part);
        expect(hex(hash.digest())).toBe(expected);
        expect(hex(hasher.once(name, input))).toBe(expected);
      }
    }),
  );
});
