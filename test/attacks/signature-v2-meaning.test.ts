/**
 * Attack group 17 of docs/security.md: one version-2 signature fits requests with one effect only. The holder of a presigned URL chooses
 * the body and the plain headers, as with version 4; the signer determines everything else.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readSigV2 } from '../../src/auth/sigv2.ts';
import { Refusal } from '../../src/base/errors.ts';
import { amz } from '../../src/protocol/dialect.ts';
import { Query, WireHeaders } from '../../src/protocol/wire.ts';
import { ownHeaders } from '../../src/request/parameters.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { signer } from '../support/sign.ts';

type Pair = readonly [string, string];

/** Few names and values, so that many requests have the same text to sign. Each has confused some parser. */
const names = [
  'x-amz-acl', 'X-Amz-Acl', 'x-amz-meta-a', 'X-AMZ-META-A', 'x-amz-meta-a:b', 'x-amz-copy-source', 'content-type', 'Content-Type', 'content-md5',
  'versionId', 'versionid', 'acl', 'tagging', 'response-content-type', 'uploadId', 'prefix', 'list-type', 'x-amz-date', 'x-amz-security-token',
  'x-amz-server-side-encryption-customer-key', 'x-amz-checksum-sha256',
]; // biome-ignore format: a list of names
const values = [
  '', 'a', 'b', ' a', 'a ', 'a\u00a0', 'a  b', 'a b', 'a,b', 'a:b', 'b:c', 'a&acl', 'a&versionId=b', 'b&versionId=a', 'a\nx-amz-acl:b', 'a\nx-amz-meta-a:b', '\u00e9', '\u00c3\u00a9', 'a=b',
]; // biome-ignore format: a list of values
const pair = fc.tuple(fc.constantFrom(...names), fc.constantFrom(...values));
const request = fc.record({
  method: fc.constantFrom('GET', 'PUT'),
  path: fc.constantFrom('/b/k', '/b/k%3Facl', '/b'),
  query: fc.array(pair, { maxLength: 3 }),
  headers: fc.array(pair, { maxLength: 2 }),
});
type Spec = typeof request extends fc.Arbitrary<infer T> ? T : never;

/** True for a header field that can be sent: no line breaks, and no blanks around the value. */
const onWire = ([name, value]: Pair): boolean =>
  /^[\t\x20-\x7e\x80-\xff]*$/.test(value) && !name.includes(':');

/** The text that is signed, and the meaning that the gateway reads; undefined for a refused request. */
function meaningOf({ method, path, query: pairs, headers: sent }: Spec): Pair | undefined {
  const raw = pairs
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&');
  const query = new Query(raw);
  const flat = sent.filter(onWire).flatMap(([name, value]) => [name, value.replace(/^[ \t]+|[ \t]+$/g, '')]);
  const wire = {
    method,
    target: `${path}?${raw}`,
    headers: new WireHeaders(flat),
    remote: '',
    secure: false,
  };
  try {
    const { hoisted, stringToSign } = readSigV2(wire, query);
    const headers = wire.headers.with(hoisted);
    const own = [...ownHeaders({ ...wire, headers }, query, amz)].sort();
    const asked = names
      .filter((name) => !/^(x-amz-|content-)/i.test(name))
      .map((name) => query.get(name) ?? null);
    const obeyed = [
      method,
      path,
      own,
      headers.get('content-type') || undefined,
      headers.get('content-md5'),
      asked,
    ];
    return [Buffer.from(stringToSign('1', path)).toString('latin1'), JSON.stringify(obeyed)];
  } catch (cause) {
    if (cause instanceof Refusal) return undefined;
    throw cause;
  }
}

test('no two requests that differ in what is obeyed have the same version-2 string to sign', () => {
  const meanings = new Map<string, string>();
  let accepted = 0;
  let shared = 0;
  fc.assert(
    fc.property(request, (spec) => {
      const found = meaningOf(spec);
      if (found === undefined) return;
      accepted += 1;
      const [text, meaning] = found;
      const known = meanings.get(text);
      if (known !== undefined) shared += 1;
      // `?acl` and `?acl=` have the same text and the same meaning.
      expect(meaning, text).toBe(known ?? meaning);
      meanings.set(text, meaning);
    }),
    { numRuns: 20_000 },
  );
  // Enough requests must be accepted and share a text; otherwise the test would prove nothing.
  expect(accepted).toBeGreaterThan(2_000);
  expect(shared).toBeGreaterThan(500);
});

test('a copy source in front of a presigned one, in another case, copies nothing', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/secret', { body: 'secret' });
  await world.client.put('/bucket/open', { body: 'open' });
  const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });
  const signed = sign.presignV2({
    method: 'PUT',
    path: '/bucket/copy',
    query: { 'x-amz-copy-source': '/bucket/open' },
  });
  const altered = signed.target.replace('?', '?X-Amz-Copy-Source=/bucket/secret&');
  const refused = await world.client.sendRaw({ ...signed, target: altered });
  expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
  expect((await world.client.get('/bucket/copy')).status).toBe(404);
  expect((await world.client.sendRaw(signed)).status).toBe(200);
  expect((await world.client.get('/bucket/copy')).text).toBe('open');
});

test('a type that was moved into the query is the type of the object', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });
  const { headers, ...signed } = sign.presignV2({
    method: 'PUT',
    path: '/bucket/key',
    headers: { 'content-type': 'text/html', 'x-amz-meta-name': 'J\u00c3\u00bcrgen' },
    body: 'x',
    tamper: { stringToSign: (text) => Buffer.from(text, 'latin1').toString('utf8') },
  });
  const moved = {
    ...signed,
    headers: headers.filter(([name]) => name === 'host' || name === 'content-length'),
    target: `${signed.target}&content-type=text%2Fhtml&x-amz-meta-name=J%C3%BCrgen`,
  };
  expect((await world.client.sendRaw(moved)).status).toBe(200);
  const head = await world.client.head('/bucket/key');
  expect(head.header('content-type')).toBe('text/html');
  expect(head.header('*-meta-name')).toBe('=?UTF-8?Q?J=C3=BCrgen?=');
});

test('a version-2 query is refused for an action form, because it does not cover the body', async () => {
  await using world = await openGateway();
  const answer = await world.client.presignedV2('POST', '/', {
    body: 'Action=CreateUser&Version=2010-05-08&UserName=eve',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
});

test('under a mount point a signature is valid for one address', async () => {
  await using world = await openGateway({ basePath: '/s3' });
  for (const bucket of ['bbb', 's3x']) expect((await world.client.put(`/s3/${bucket}`)).status).toBe(200);
  await world.client.put('/s3/bbb/k', { body: 'one' });
  await world.client.put('/s3/bbb/s3/k', { body: 'other' });
  expect((await world.client.presignedV2('GET', '/s3/bbb/k')).text).toBe('one');
  const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });
  const short = sign.presignV2({ path: '/bbb/k' });
  expect((await world.client.sendRaw({ ...short, target: `/s3${short.target}` })).text).toBe('one');
  // Signed under the mount for bucket `bbb`. Read without the mount, the path would name a bucket called like the mount.
  const whole = sign.presignV2({ path: '/s3/bbb/k' });
  expect((await world.client.sendRaw({ ...whole, target: `/s3${whole.target}` })).code).toBe(
    'SignatureDoesNotMatch',
  );
});
