/** Documents without `encoding-type` are well-formed XML, whatever the request named: those of errors, and of uploads. */
import { XMLValidator } from 'fast-xml-parser';
import { describe, expect, test } from 'vitest';
import { parseText } from '../../src/protocol/formats/xml-parse.ts';
import { openActions } from '../support/actions.ts';
import { openGateway } from '../support/gateway.ts';

/** XML 1.0 has no place for most control characters, not even as references. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const forbidden = /&#x(?:[0-8bcef]|1[0-9a-f]|fff[ef]);|[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/i;
const expectParseable = (text: string): void => {
  expect(text).not.toMatch(forbidden);
  expect(XMLValidator.validate(text)).toBe(true);
  expect(() => parseText(text)).not.toThrow();
};

describe('an error about a name with control characters', () => {
  test('is well-formed, with the characters percent-encoded', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    const missing = await client.get('/bucket/a%01b%1Fc%EF%BF%BEd%09e');
    expect([missing.status, missing.code, missing.one('Key')]).toEqual([
      404,
      'NoSuchKey',
      'a%01b%1Fc%EF%BF%BEd\te',
    ]);
    expectParseable(missing.text);
    const query = { versionId: '\u0001\u0002' };
    const uploadId = { uploadId: '\u0003' };
    for (const refused of [
      await client.get('/bucket/key', { query }),
      await client.get('/bucket/a%01', { query: uploadId }),
      await client.get('/bucket', { query: { 'encoding-type': '\u0001' } }),
      await client.get('/bucket', { query: { 'max-keys': '\u0001' } }),
      await client.get('/b%01ucket'),
      await client.put('/b%01ucket'),
      await client.get('/bucket/key', {
        query: { '\u0001': 'a\u0002' },
        tamper: { signature: () => '0'.repeat(64) },
      }),
      await client.put('/bucket/key', { query: { versionId: '\uffff' }, body: 'x' }),
    ]) {
      expect(refused.status).toBeGreaterThanOrEqual(400);
      expectParseable(refused.text);
    }
  });

  test('of IAM and STS is well-formed too', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    for (const refused of [
      await iam('GetUser', { UserName: 'a\u0001' }),
      await iam('No\u0001Such', {}),
      await iam('GetUser', { 'a\u0001': 'b' }),
      await iam('PutUserPolicy', { UserName: 'a', PolicyName: 'p', PolicyDocument: '{"\u0001":1}' }),
    ]) {
      expect(refused.status).toBeGreaterThanOrEqual(400);
      expectParseable(refused.text);
    }
  });
});

describe('an upload of a key with characters that XML cannot have', () => {
  test('has replies without the key, which every parser reads; the object has it', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    for (const key of ['a%01b', 'a%1F', 'a%EF%BF%BE', 'a%EF%BF%BF']) {
      const path = `/bucket/${key}`;
      const created = await client.post(`${path}?uploads`);
      expectParseable(created.text);
      expect([created.status, created.one('Key')]).toEqual([200, undefined]);
      const query = { uploadId: created.one('UploadId') ?? '' };
      const part = await client.put(path, { query: { ...query, partNumber: '1' }, body: 'x' });
      const parts = await client.get(path, { query });
      expectParseable(parts.text);
      expect([parts.one('Key'), parts.one('PartNumber')]).toEqual([undefined, '1']);
      const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.header('etag')}</ETag></Part></CompleteMultipartUpload>`;
      const completed = await client.post(path, { query, body });
      expectParseable(completed.text);
      expect([completed.status, completed.one('Key')]).toEqual([200, undefined]);
      expect(completed.one('Location')).toContain(path);
      expect((await client.get(path)).text).toBe('x');
    }
    expect((await client.post('/bucket/a%09%C3%A9?uploads')).one('Key')).toBe('a\t\u00e9');
  });
});
