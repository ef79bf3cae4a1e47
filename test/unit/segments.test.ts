/** Encrypted contents: every range decrypts, and moved, truncated or changed segments are refused. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nodeCipher, nodeHasher } from '../../src/backends/crypto/node.ts';
import { portableCipher } from '../../src/backends/crypto/portable.ts';
import { deriveEtag, extentKey } from '../../src/domain/content/extent-keys.ts';
import {
  contentBytes,
  decryptedSize,
  decryptSegments,
  encryptedSize,
  encryptSegments,
  segmentBytes,
} from '../../src/domain/content/segments.ts';
import type { Encryption } from '../../src/metadata/objects/properties.ts';
import { type Cipher, type CipherKey, tagBytes } from '../../src/ports/cryptography.ts';

const secret = Buffer.alloc(32, 7);
const ciphers: readonly (readonly [string, Cipher])[] = [
  ['native', nodeCipher()],
  ['portable', portableCipher()],
];

const contentOf = (size: number): Buffer => {
  const content = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) content[at] = (at * 31 + (at >> 8)) & 0xff;
  return content;
};

/** Yields arrays of the given lengths in turn, and overwrites each one when it is no longer valid. */
async function* inPieces(content: Uint8Array, lengths: readonly number[]): AsyncGenerator<Uint8Array> {
  const given: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < content.length; turn += 1) {
    const piece = Uint8Array.from(content.subarray(at, at + (lengths[turn % lengths.length] ?? 1)));
    at += piece.length;
    given.push(piece);
    given.at(-3)?.fill(0xee);
    yield piece;
  }
}

async function gather(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of source) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

const encrypt = (content: Uint8Array, key: CipherKey, lengths: readonly number[] = [65_536]) =>
  gather(encryptSegments(inPieces(content, lengths), key));

interface Range {
  readonly start: number;
  readonly end: number;
}
function decrypt(
  stored: Uint8Array,
  key: CipherKey,
  { start, end, size = stored.length, lengths = [262_144] }: Range & { size?: number; lengths?: number[] },
): Promise<Buffer> {
  const read = (range: Range) => inPieces(stored.subarray(range.start, range.end + 1), lengths);
  return gather(decryptSegments({ size, read }, key, { start, end }));
}

const sizes = [
  1,
  15,
  16,
  17,
  4096,
  contentBytes - 1,
  contentBytes,
  contentBytes + 1,
  3 * contentBytes,
  700_001,
];

describe.each(ciphers)('with the %s cipher', (_, cipher) => {
  test('a content is decrypted in arrays of any size', async () => {
    const key = await cipher.ready(secret);
    const length = fc.integer({ min: 1, max: 150_000 });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 400_000 }),
        fc.array(length, { minLength: 1, maxLength: 4 }),
        fc.array(length, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.nat(),
        async (size, incoming, outgoing, one, other) => {
          const content = contentOf(size);
          const stored = await encrypt(content, key, incoming);
          const [start = 0, end = 0] = [one % size, other % size].toSorted((a, b) => a - b);
          const found = await decrypt(stored, key, { start, end, lengths: outgoing });
          return stored.length === encryptedSize(size) && found.equals(content.subarray(start, end + 1));
        },
      ),
      { numRuns: 40 },
    );
  });

  test.each(sizes)('sizes are a pure function both ways: %i', async (size) => {
    const key = await cipher.ready(secret);
    const stored = await encrypt(contentOf(size), key);
    expect(stored.length).toBe(encryptedSize(size));
    expect(decryptedSize(stored.length)).toBe(size);
  });
});

test('an empty content is stored as nothing', async () => {
  const key = await nodeCipher().ready(secret);
  expect(await encrypt(new Uint8Array(0), key)).toHaveLength(0);
  expect([encryptedSize(0), decryptedSize(0)]).toEqual([0, 0]);
});

test('what one cipher encrypted the other decrypts', async () => {
  const content = contentOf(150_000);
  const [native, portable] = await Promise.all(ciphers.map(([, cipher]) => cipher.ready(secret)));
  const stored = await encrypt(content, native as CipherKey);
  expect(stored).toEqual(await encrypt(content, portable as CipherKey));
  const whole = { start: 0, end: content.length - 1 };
  expect(await decrypt(stored, portable as CipherKey, whole)).toEqual(content);
});

test('the stored bytes show nothing of the content, nor that two segments are alike', async () => {
  const key = await nodeCipher().ready(secret);
  const stored = await encrypt(Buffer.alloc(3 * contentBytes, 'a secret line. '), key);
  expect(stored.includes('secret')).toBe(false);
  const segments = [0, 1, 2].map((i) =>
    stored.subarray(i * segmentBytes, (i + 1) * segmentBytes).toString('hex'),
  );
  expect(new Set(segments).size).toBe(3);
});

test('no nonce is used twice under a key, and only the last segment has the last mark', async () => {
  const seen: string[] = [];
  const key: CipherKey = {
    encrypt: async (_, { nonce }) => void seen.push(Buffer.from(nonce).toString('hex')),
    decrypt: async () => true,
  };
  await encrypt(contentOf(5 * contentBytes), key);
  expect(new Set(seen).size).toBe(5);
  expect(seen.map((nonce) => nonce.slice(-2))).toEqual(['00', '00', '00', '00', '01']);
});

test('a range reads the segments that it touches and no more', async () => {
  const key = await nodeCipher().ready(secret);
  const size = 40 * contentBytes + 5;
  const stored = await encrypt(contentOf(size), key);
  const asked: Range[] = [];
  const read = (range: Range) => {
    asked.push(range);
    return inPieces(stored.subarray(range.start, range.end + 1), [262_144]);
  };
  for (const start of [0, contentBytes - 1, 17 * contentBytes + 9, size - 4096])
    await gather(decryptSegments({ size: stored.length, read }, key, { start, end: start + 4095 }));
  expect(asked.map(({ start, end }) => end - start + 1)).toEqual([
    segmentBytes,
    2 * segmentBytes,
    segmentBytes,
    segmentBytes + 5 + tagBytes,
  ]);
});

describe('altered content is not returned', () => {
  const content = contentOf(4 * contentBytes + 100);
  const whole = { start: 0, end: content.length - 1 };
  const segment = (stored: Buffer, at: number) => stored.subarray(at * segmentBytes, (at + 1) * segmentBytes);
  const changes: Readonly<Record<string, (stored: Buffer) => Buffer>> = {
    'a flipped bit': (stored) => {
      stored[3 * segmentBytes + 17] = (stored[3 * segmentBytes + 17] as number) ^ 4;
      return stored;
    },
    'two segments swapped': (stored) => Buffer.concat([0, 2, 1, 3, 4].map((at) => segment(stored, at))),
    'a segment repeated': (stored) => Buffer.concat([0, 1, 1, 3, 4].map((at) => segment(stored, at))),
    'the end cut off at a segment': (stored) => stored.subarray(0, 4 * segmentBytes),
    'the end cut off inside a segment': (stored) => stored.subarray(0, 3 * segmentBytes + 500),
    'the end cut off to less than a tag': (stored) => stored.subarray(0, 3 * segmentBytes + 9),
    'a segment appended': (stored) =>
      Buffer.concat([stored.subarray(0, 4 * segmentBytes), segment(stored, 0)]),
    'the last segment moved to the front': (stored) => segment(stored, 4),
  };
  test.each(Object.keys(changes))('%s', async (name) => {
    const key = await nodeCipher().ready(secret);
    const stored = (changes[name] as (stored: Buffer) => Buffer)(await encrypt(content, key));
    await expect(decrypt(stored, key, whole)).rejects.toThrow('is not authentic');
  });

  test('a store that returns less or more than requested', async () => {
    const key = await nodeCipher().ready(secret);
    const stored = await encrypt(content, key);
    const size = stored.length;
    await expect(decrypt(stored.subarray(0, size - 5), key, { ...whole, size })).rejects.toThrow(
      '5 bytes are missing',
    );
    const read = () => inPieces(Buffer.concat([stored, stored]), [262_144]);
    await expect(gather(decryptSegments({ size, read }, key, whole))).rejects.toThrow('too many');
  });

  test('another bucket, key, write or part, though the object key be the same', async () => {
    const ctx = { cipher: nodeCipher(), hasher: nodeHasher() };
    const place = { bucketId: 'bucket', key: 'some/key', id: 'op.1', part: 0 };
    const stored = await encrypt(content, await extentKey(ctx, { bytes: secret }, place));
    expect(await decrypt(stored, await extentKey(ctx, { bytes: secret }, place), whole)).toEqual(content);
    const others = [
      { ...place, bucketId: 'other' },
      { ...place, key: 'some/other' },
      { ...place, id: 'op.2' },
      { ...place, part: 1 },
      { bucketId: 'bucket', id: 'op.1\0', key: '0\0some/key', part: 0 },
    ];
    for (const other of others) {
      const key = await extentKey(ctx, { bytes: secret }, other);
      await expect(decrypt(stored, key, whole)).rejects.toThrow('is not authentic');
    }
  });
});

test('the ETag that replaces the MD5 has its length, is equal for equal contents, and reveals nothing about them', () => {
  const ctx = { hasher: nodeHasher() };
  const md5 = 'd41d8cd98f00b204e9800998ecf8427e';
  const of = (encryption: Encryption, bytes = secret) => deriveEtag(ctx, { bytes, encryption }, md5);
  const byCustomer = { by: 'customer', keyMd5: '', wrapped: '' } as const;
  const etag = of(byCustomer);
  expect(etag).toMatch(/^[0-9a-f]{32}$/);
  expect(etag).not.toBe(md5);
  expect(of(byCustomer)).toBe(etag);
  expect(of({ by: 'provider', keyId: 'k', wrapped: '' })).toBe(etag);
  expect(of(byCustomer, Buffer.alloc(32, 8))).not.toBe(etag);
  expect(of({ by: 'service', wrapped: '' })).toBe(md5);
});

test('a long content leaves the reader a short last array, which later reads do not overwrite', async () => {
  const key = await nodeCipher().ready(secret);
  const content = contentOf(9 * contentBytes + 100);
  const stored = await encrypt(content, key);
  const read = (range: Range) => inPieces(stored.subarray(range.start, range.end + 1), [262_144]);
  const readWhole = async (): Promise<Uint8Array[]> => {
    const arrays: Uint8Array[] = [];
    const range = { start: 0, end: content.length - 1 };
    for await (const piece of decryptSegments({ size: stored.length, read }, key, range)) arrays.push(piece);
    return arrays;
  };
  const arrays = await readWhole();
  const last = arrays.at(-1) as Uint8Array;
  await readWhole();
  expect(arrays.reduce((sum, { length }) => sum + length, 0)).toBe(content.length);
  expect(last).toEqual(new Uint8Array(content.subarray(-last.length)));
  expect(last.buffer.byteLength).toBeLessThanOrEqual(4096);
});
