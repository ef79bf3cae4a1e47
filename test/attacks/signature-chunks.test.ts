/** Attack group 3 of docs/security.md: a truncated, reordered or forged body in chunks fails before its end. */
import { describe, expect, test } from 'vitest';
import type { RequestSpec, Tamper } from '../support/sign.ts';
import { alice, check, refusal, refusalCode, signAs } from '../support/sign-check.ts';
import type { Chunk } from '../support/sign-chunks.ts';

const both = ['amz', 'store'] as const;
const content = 'abcdefghijklmnopqrstuvwxyz';

describe.each(both)('in the dialect %s', (dialect) => {
  const client = signAs({ dialect });
  const prefix = dialect === 'amz' ? 'x-amz-' : 'x-store-';
  const checksum = `${prefix}checksum-crc32`;
  const put = (
    payload: 'streaming' | 'streaming-trailer' | 'unsigned-trailer',
    tamper: Tamper = {},
    more: RequestSpec = {},
  ) =>
    client.request({
      method: 'PUT',
      path: '/bucket/key',
      body: content,
      chunkSize: 10,
      payload,
      trailers: payload === 'streaming' ? {} : { [checksum]: 'AAAAAA==' },
      tamper,
      ...more,
    });
  const at =
    (change: (chunk: Chunk) => Chunk, index = 0) =>
    (chunks: Chunk[]) =>
      chunks.map((chunk, i) => (i === index ? change(chunk) : chunk));

  describe.each(['streaming', 'streaming-trailer', 'unsigned-trailer'] as const)('%s', (mode) => {
    const signed = mode !== 'unsigned-trailer';

    test.each([1, 3, 1000])('decodes what arrives in pieces of %i bytes', async (pieceSize) => {
      const { content: decoded, payload } = await check(put(mode), { pieceSize });
      expect(Buffer.from(decoded).toString()).toBe(content);
      expect(payload.length).toBe(26);
      expect(payload.announced).toEqual(mode === 'streaming' ? [] : [checksum]);
      expect([...payload.trailers]).toEqual(mode === 'streaming' ? [] : [[checksum, 'AAAAAA==']]);
    });

    test('decodes an empty body', async () => {
      expect((await check(put(mode, {}, { body: '' }))).content.length).toBe(0);
    });

    test.each<[string, string, Tamper]>([
      ['25 bytes promised', 'IncompleteBody', { decodedLength: '25' }],
      ['27 bytes promised', 'IncompleteBody', { decodedLength: '27' }],
      ['nothing promised', 'MissingContentLength', { decodedLength: null }],
      ['a huge promise', 'IncompleteBody', { decodedLength: String(Number.MAX_SAFE_INTEGER) }],
      ['a promise beyond numbers', 'EntityTooLarge', { decodedLength: '18446744073709551616' }],
      ['a negative promise', 'InvalidArgument', { decodedLength: '-26' }],
      ['a promise in hexadecimal', 'InvalidArgument', { decodedLength: '0x1a' }],
      ['an empty promise', 'InvalidArgument', { decodedLength: '' }],
      ['a negative size', 'InvalidRequest', { chunks: at((chunk) => ({ ...chunk, size: '-a' })) }],
      ['an empty size', 'InvalidRequest', { chunks: at((chunk) => ({ ...chunk, size: '' })) }],
      ['a size with 0x', 'InvalidRequest', { chunks: at((chunk) => ({ ...chunk, size: '0xa' })) }],
      ['a size with a blank', 'InvalidRequest', { chunks: at((chunk) => ({ ...chunk, size: ' a' })) }],
      ['a size that is no number', 'InvalidRequest', { chunks: at((chunk) => ({ ...chunk, size: 'g' })) }],
      [
        'a size of 16 EiB',
        'IncompleteBody',
        { chunks: at((chunk) => ({ ...chunk, size: 'ffffffffffffffff' })) },
      ],
      [
        'a size of 17 digits',
        'InvalidRequest',
        { chunks: at((chunk) => ({ ...chunk, size: `0${'f'.repeat(16)}` })) },
      ],
      [
        'a size too small',
        signed ? 'SignatureDoesNotMatch' : 'InvalidRequest',
        { chunks: at((chunk) => ({ ...chunk, size: '9' })) },
      ],
      [
        'a size too large',
        signed ? 'SignatureDoesNotMatch' : 'InvalidRequest',
        { chunks: at((chunk) => ({ ...chunk, size: 'b' })) },
      ],
      [
        'a 64 KiB extension',
        'InvalidRequest',
        { chunks: at((chunk) => ({ ...chunk, size: `a;x=${'y'.repeat(65_536)}` })) },
      ],
      ['a line without end', 'InvalidRequest', { body: () => Buffer.alloc(100_000, 'a') }],
      ['no framing', 'InvalidRequest', { body: () => Buffer.from(`${content}\r\n`.repeat(20)) }],
      [
        'a bare line feed',
        'InvalidRequest',
        { body: (b) => Buffer.from(Buffer.from(b).toString().replace('\r\n', '\n')) },
      ],
      [
        'only an end',
        signed ? 'SignatureDoesNotMatch' : 'IncompleteBody',
        { chunks: (chunks) => chunks.slice(-1) },
      ],
      [
        'no end',
        'IncompleteBody',
        { chunks: (chunks) => chunks.slice(0, -1), trailerLines: () => [], body: (b) => b.subarray(0, -2) },
      ],
      [
        'bytes after the end',
        mode === 'streaming' ? 'InvalidRequest' : 'IncompleteBody',
        { body: (b) => Buffer.concat([b, Buffer.from('more')]) },
      ],
      [
        'a second body after the end',
        mode === 'streaming' ? 'InvalidRequest' : 'MalformedTrailerError',
        { body: (b) => Buffer.concat([b, b]) },
      ],
      [
        '64 KiB after the end',
        'InvalidRequest',
        { body: (b) => Buffer.concat([b, Buffer.alloc(65_536, 'x')]) },
      ],
    ])('refuses %s by %s', async (_, code, tamper) => {
      expect(await refusalCode(put(mode, tamper))).toBe(code);
    });

    test('is refused wherever it is cut off', async () => {
      const whole = put(mode);
      const length = (whole.body as Uint8Array).length;
      for (let keep = 0; keep < length; keep++) {
        const request = put(mode, { body: (body) => body.subarray(0, keep) });
        const headers = request.headers.filter(([name]) => name !== 'content-length');
        expect(await refusalCode(request), `cut to ${keep} of ${length}`).toBe('IncompleteBody');
        expect(await refusalCode({ ...request, headers }), `cut to ${keep}, untold`).toBe('IncompleteBody');
      }
    });

    test('an empty stream is a torn one', async () => {
      const request = put(mode, { body: () => new Uint8Array() });
      expect(await refusalCode(request)).toBe('IncompleteBody');
      expect(await refusalCode({ ...request, body: undefined })).toBe('IncompleteBody');
    });
  });

  describe.each(['streaming', 'streaming-trailer'] as const)('%s, the chain', (mode) => {
    const swap = (chunks: Chunk[]): Chunk[] => [chunks[1], chunks[0], ...chunks.slice(2)] as Chunk[];
    test.each<[string, Tamper]>([
      ['chunks in another order', { chunks: swap }],
      ['a chunk twice', { chunks: ([a, _, ...rest]) => [a, a, ...rest] as Chunk[] }],
      [
        'other content of the same length',
        { chunks: at((chunk) => ({ ...chunk, data: Buffer.alloc(10, 'x') })) },
      ],
      [
        'the end without its signature',
        { chunks: (c) => at((chunk) => ({ ...chunk, signature: '' }), c.length - 1)(c) },
      ],
      ['a zero signature', { chunks: at((chunk) => ({ ...chunk, signature: '0'.repeat(64) })) }],
      [
        'the signature of the next',
        { chunks: (c) => at((chunk) => ({ ...chunk, signature: c[1]?.signature }))(c) },
      ],
      [
        'a signature in capitals',
        { chunks: at((chunk) => ({ ...chunk, signature: chunk.signature?.toUpperCase() })) },
      ],
      [
        'two chunks joined',
        {
          chunks: ([a, b, ...rest]) => [
            { ...(b as Chunk), size: '14', data: Buffer.concat([(a as Chunk).data, (b as Chunk).data]) },
            ...rest,
          ],
        },
      ],
    ])('refuses %s', async (_, tamper) => {
      const refused = await refusal(put(mode, tamper));
      expect(refused.code).toBe('SignatureDoesNotMatch');
      expect(refused.details.elements?.['AWSAccessKeyId']).toBe(alice.accessKey);
      expect(JSON.stringify(refused.details)).not.toContain(alice.secretKey);
    });

    test('refuses chunks without signatures', async () => {
      const chunks = (list: Chunk[]) => list.map((chunk) => ({ ...chunk, signature: undefined }));
      expect(await refusalCode(put(mode, { chunks }))).toBe('InvalidRequest');
    });

    test('refuses the chunks of another request', async () => {
      const other = put(mode, {}, { path: '/bucket/other' });
      expect(await refusalCode(put(mode, { body: () => other.body as Uint8Array }))).toBe(
        'SignatureDoesNotMatch',
      );
    });

    test('refuses chunks that another secret signed', async () => {
      const forged = signAs({ dialect, secretKey: 'guess' }).request({
        method: 'PUT',
        path: '/bucket/key',
        body: content,
        chunkSize: 10,
        payload: mode,
        ...(mode === 'streaming' ? {} : { trailers: { [checksum]: 'AAAAAA==' } }),
      });
      expect(await refusalCode(put(mode, { body: () => forged.body as Uint8Array }))).toBe(
        'SignatureDoesNotMatch',
      );
    });
  });

  describe.each(['streaming-trailer', 'unsigned-trailer'] as const)('%s, the trailers', (mode) => {
    const signed = mode === 'streaming-trailer';
    test.each<[string, string, (lines: string[]) => string[]]>([
      ['missing', 'MalformedTrailerError', (lines) => lines.slice(1)],
      ['all missing', 'MalformedTrailerError', () => []],
      ['twice', 'MalformedTrailerError', (lines) => [lines[0] as string, ...lines]],
      ['unannounced', 'MalformedTrailerError', (lines) => [`${prefix}checksum-sha1:x`, ...lines]],
      ['an unannounced ACL', 'MalformedTrailerError', (lines) => [`${prefix}acl:public-read`, ...lines]],
      ['without a colon', 'MalformedTrailerError', (lines) => ['nonsense', ...lines]],
      ['without a name', 'MalformedTrailerError', (lines) => [':value', ...lines]],
      ['after the signature', 'MalformedTrailerError', (lines) => [...lines, lines[0] as string]],
    ])('refuses one %s by %s', async (_, code, trailerLines) => {
      expect(await refusalCode(put(mode, { trailerLines }))).toBe(code);
    });

    test('one under another value is refused where trailers are signed, else left to the checksum', async () => {
      const request = put(mode, { trailerLines: (lines) => [`${checksum}:AAAAAQ==`, ...lines.slice(1)] });
      if (signed) expect(await refusalCode(request)).toBe('SignatureDoesNotMatch');
      else expect((await check(request)).payload.trailers.get(checksum)).toBe('AAAAAQ==');
    });

    test('blanks and capitals do not matter', async () => {
      const request = put(mode, {
        trailerLines: ([line, ...rest]) => [`${checksum.toUpperCase()}:  ${line?.split(':')[1]} `, ...rest],
      });
      expect((await check(request)).payload.trailers.get(checksum)).toBe('AAAAAA==');
    });

    test('the line ends of minio-go are read', async () => {
      const request = put(mode, { trailerLines: ([line, ...rest]) => [`${line}\n`, ...rest] });
      expect((await check(request)).payload.trailers.get(checksum)).toBe('AAAAAA==');
    });

    test.each([
      ['is no checksum', { trailers: { '*-meta-a': 'b' } }],
      [
        'is named twice',
        {
          trailers: [
            [checksum, 'AAAAAA=='],
            [checksum, 'AAAAAA=='],
          ] as [string, string][],
        },
      ],
      ['is a header already', { headers: { [checksum]: 'AAAAAA==' } }],
      [
        'is of the other dialect',
        { trailers: { [`${dialect === 'amz' ? 'x-store-' : 'x-amz-'}checksum-crc32`]: 'x' } },
      ],
    ])('refuses an announcement that %s', async (_, more) => {
      expect(await refusalCode(put(mode, {}, more))).toBe('InvalidRequest');
    });

    if (signed)
      test.each<[string, string, (lines: string[]) => string[]]>([
        ['no signature', 'MalformedTrailerError', (lines) => lines.slice(0, 1)],
        [
          'a zero signature',
          'SignatureDoesNotMatch',
          ([line]) => [line as string, `${prefix}trailer-signature:${'0'.repeat(64)}`],
        ],
        [
          'an empty signature',
          'SignatureDoesNotMatch',
          ([line]) => [line as string, `${prefix}trailer-signature:`],
        ],
        ['two signatures', 'MalformedTrailerError', (lines) => [...lines, lines[1] as string]],
        ['the signature first', 'MalformedTrailerError', (lines) => lines.toReversed()],
      ])('refuses %s by %s', async (_, code, trailerLines) => {
        expect(await refusalCode(put(mode, { trailerLines }))).toBe(code);
      });
  });
});
