/** Headers of replies are printable ASCII, whatever an object was stored with: many clients cannot read any other byte. @storage */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { byteString } from '../../src/base/text/utf8.ts';
import { asciiHeader, encodeWords } from '../../src/protocol/wire.ts';
import { backends, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

/** Decodes as RFC 2047 says; blanks between two encoded words mean nothing. */
function decodeWords(value: string): string {
  const joined = value.replace(/(=\?UTF-8\?[QB]\?[^?]*\?=)\s+(?==\?UTF-8\?)/g, '$1');
  const bytes = joined.replace(/=\?UTF-8\?([QB])\?([^?]*)\?=/g, (_, kind: string, body: string) =>
    kind === 'B'
      ? Buffer.from(body, 'base64').toString('latin1')
      : body
          .replaceAll('_', ' ')
          .replace(/=([0-9A-F]{2})/g, (_whole, digits: string) =>
            String.fromCharCode(Number.parseInt(digits, 16)),
          ),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** Clients sign the text whose bytes they send. */
const tamper = { canonicalRequest: (text: string) => Buffer.from(text, 'latin1').toString('utf8') };
const printable = /^[\t\x20-\x7e]*$/;
const expectPrintable = ({ headers }: Answer): void => {
  for (const [name, value] of headers) expect(value, name).toMatch(printable);
};
const texts = ['é', 'naïve café', '日本語のファイル名'.repeat(9), '👍🏾 ok', 'Ω'.repeat(200), 'a=?b?_é'];

describe.each(backends)('on %s', (backend) => {
  test('user metadata beyond ASCII returns in encoded words of RFC 2047', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    for (const [index, text] of texts.entries()) {
      const path = `/bucket/${index}`;
      expect(
        (await world.client.put(path, { body: 'x', tamper, headers: { '*-meta-text': byteString(text) } }))
          .status,
      ).toBe(200);
      for (const method of ['GET', 'HEAD']) {
        const shown = await world.client.send(method, path);
        expectPrintable(shown);
        const value = shown.header('*-meta-text') ?? '';
        for (const word of value.split(' ')) {
          expect(word).toMatch(
            /^=\?UTF-8\?(Q\?[!-<>@-~]*|B\?[A-Za-z0-9+/]*={0,2})\?=$|^=\?UTF-8\?Q\?[!-~]*\?=$/,
          );
          expect(word.length).toBeLessThanOrEqual(75);
        }
        expect(decodeWords(value)).toBe(text);
      }
      const copied = await world.client.put('/bucket/copy', { headers: { '*-copy-source': path } });
      expect(copied.status).toBe(200);
      expect(decodeWords((await world.client.head('/bucket/copy')).header('*-meta-text') ?? '')).toBe(text);
    }
  });

  test('user metadata in ASCII, and encoded words that a client sent, return as they were sent', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    for (const value of ['a value, with blanks', '=?UTF-8?B?w6k=?=', '=?UTF-8?Q?caf=C3=A9?=', '=?x']) {
      await world.client.put('/bucket/key', { body: 'x', headers: { '*-meta-text': value } });
      expect((await world.client.head('/bucket/key')).header('*-meta-text')).toBe(value);
    }
  });

  test('bytes that are no UTF-8 are read as Latin-1', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x', headers: { '*-meta-text': 'caf\xe9' } });
    expect((await world.client.head('/bucket/key')).header('*-meta-text')).toBe('=?UTF-8?Q?caf=C3=A9?=');
  });

  test('the other headers of an object are printable ASCII too, stored or as overrides', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    const names = [
      'cache-control',
      'content-disposition',
      'content-encoding',
      'content-language',
      'content-type',
    ];
    for (const text of texts.map((each) => each.slice(0, 60))) {
      const value = byteString(`x; filename="${text}"; ${text}`);
      const stored = Object.fromEntries([...names, 'expires'].map((name) => [name, value]));
      const redirect = byteString(`/x${text}`);
      const headers = { ...stored, '*-website-redirect-location': redirect };
      expect((await client.put('/bucket/key', { body: 'x', headers, tamper })).status).toBe(200);
      const got = await client.get('/bucket/key');
      expectPrintable(got);
      expect(new URL(got.header('*-website-redirect-location') ?? '', 'http://h').href).toContain(
        encodeURI(text).slice(0, 9),
      );
      expectPrintable(await client.get('/bucket/key', { headers: { 'if-none-match': '*' } }));
      const query = Object.fromEntries(
        [...names, 'expires'].map((name) => [`response-${name}`, `x; filename="${text}"`]),
      );
      for (const shown of [
        await client.get('/bucket/key', { query }),
        await client.presigned('GET', '/bucket/key', { query }),
        await world.as({ fetch: true }).get('/bucket/key', { query }),
      ]) {
        expect(shown.status).toBe(200);
        expectPrintable(shown);
        const extended = /filename\*=UTF-8''([^;]*)$/.exec(shown.header('content-disposition') ?? '')?.[1];
        expect(decodeURIComponent(extended ?? '')).toBe(text);
      }
    }
  });
});

test('an empty override replaces nothing', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x', headers: { 'content-type': 'a/b' } });
  const query = { 'response-content-type': '', 'response-content-disposition': '', 'response-expires': '' };
  const got = await world.client.get('/bucket/key', { query });
  expect([got.status, got.header('content-type'), got.header('content-disposition')]).toEqual([
    200,
    'a/b',
    undefined,
  ]);
});

test('a file name has a fallback in ASCII, and the extended form that a client sent stays', () => {
  for (const [sent, shown] of [
    ['attachment; filename="é.txt"', `attachment; filename="_.txt"; filename*=UTF-8''%C3%A9.txt`],
    [
      'attachment; filename=日本.txt',
      `attachment; filename="__.txt"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt`,
    ],
    [
      `attachment; filename="é \\"x\\".txt"; filename*=UTF-8''%C3%A9.txt`,
      `attachment; filename="_ \\"x\\".txt"; filename*=UTF-8''%C3%A9.txt`,
    ],
    ['attachment; filename="a.txt"', 'attachment; filename="a.txt"'],
    ['no-cache é', 'no-cache %C3%A9'],
    ['text/plain; charset=utf-8', 'text/plain; charset=utf-8'],
  ] as const)
    expect(asciiHeader(byteString(sent))).toBe(shown);
});

test('any text survives the encoding, and any bytes become printable', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), (text) => {
      fc.pre(!printable.test(text));
      expect(decodeWords(encodeWords(byteString(text)))).toBe(text);
      // A form has texts, not bytes: characters beyond a byte are no bytes of another text.
      if (/[^\0-\xff]/.test(text)) expect(decodeWords(encodeWords(text))).toBe(text);
    }),
  );
  const bytes = fc.array(fc.integer({ min: 0, max: 255 })).map((all) => String.fromCharCode(...all));
  fc.assert(
    fc.property(bytes, (value) => {
      expect(encodeWords(value)).toMatch(printable);
      expect(asciiHeader(value)).toMatch(printable);
    }),
  );
});
