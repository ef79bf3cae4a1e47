/** PostObject: the stored object and the reply to a form (public API "POST Object"). */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { openClusters } from '../support/clusters.ts';
import { alice, backends, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, digest64, MiB, md5, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Ask } from '../support/gateway-client.ts';
import { allow, assume, must, trusting } from '../support/iam-users.ts';
import {
  encodeForm,
  type FormPart,
  fieldsOf,
  fileOf,
  multipart,
  signForm,
  signFormV2,
} from '../support/post-form.ts';
import { auditRows, eventsOf } from '../support/recorded.ts';

const post = (world: GatewayWorld, parts: readonly FormPart[], ask: Ask = {}, path = '/bucket') =>
  world.anonymous.post(path, {
    body: encodeForm(parts),
    ...ask,
    headers: { ...multipart(), ...ask.headers },
  });

/** A form with these fields, whose policy requires exactly their values. */
const signed = (fields: Readonly<Record<string, string>>, more: readonly unknown[] = []): FormPart[] => {
  const conditions = Object.entries({ bucket: 'bucket', ...fields }).map(([name, value]) => ({
    [name]: value,
  }));
  return fieldsOf({ ...fields, ...signForm(alice, { conditions: [...conditions, ...more] }) });
};
const result = ({ status, code }: Answer) => [status, code];

describe.each(backends)('on %s', (backend) => {
  test('a form is a fresh write: while all clusters drain it is refused, and stores nothing', async () => {
    const { world, admin } = await openClusters('a', { backend });
    await using _ = world;
    await world.client.put('/bucket');
    await admin.must('POST', '/clusters/a/drain', { mode: 'readonly' });
    const refused = await post(world, [...signed({ key: 'k' }), fileOf(bytesOf(MiB))]);
    expect([...result(refused), refused.header('retry-after')]).toEqual([503, 'DrainRefused', '300']);
    expect((await world.client.get('/bucket/k')).code).toBe('NoSuchKey');
    expect(await world.stored()).toEqual([]);
    await admin.must('POST', '/clusters/a/undrain');
    expect((await post(world, [...signed({ key: 'k' }), fileOf('content')])).status).toBe(204);
  });

  test('a form stores its file under its key, with what its fields say', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const fields = {
      key: 'user/é 1.jpg',
      'Content-Type': 'image/png',
      'Cache-Control': 'max-age=9',
      'Content-Disposition': 'attachment; filename="a.png"',
      'Content-Encoding': 'identity',
      Expires: 'Thu, 01 Dec 2044 16:00:00 GMT',
      'x-amz-meta-Uuid': '14365',
      'x-amz-storage-class': 'STANDARD_IA',
      'x-amz-website-redirect-location': '/other',
      tagging: '<Tagging><TagSet><Tag><Key>a+&#38228;</Key><Value>c d</Value></Tag></TagSet></Tagging>',
    };
    const answer = await post(world, [...signed(fields), fileOf('content')]);
    expect([answer.status, answer.text, answer.header('etag')]).toEqual([204, '', `"${md5('content')}"`]);
    expect(answer.header('location')).toBe('http://localhost/bucket/user%2F%C3%A9%201.jpg');
    const got = await world.client.get('/bucket/user/%C3%A9%201.jpg');
    expect([got.text, got.header('content-type'), got.header('cache-control')]).toEqual([
      'content',
      'image/png',
      'max-age=9',
    ]);
    expect([
      got.header('content-disposition'),
      got.header('expires'),
      got.header('*-meta-uuid'),
      got.header('*-storage-class'),
      got.header('*-website-redirect-location'),
      got.header('*-tagging-count'),
    ]).toEqual([fields['Content-Disposition'], fields.Expires, '14365', 'STANDARD_IA', '/other', '1']);
  });

  test('a large file streams through, and a versioned bucket keeps each', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const content = bytesOf(9 * MiB + 5);
    const first = await post(world, [...signed({ key: 'k' }), fileOf(content)]);
    const second = await post(world, [...signed({ key: 'k' }), fileOf('')]);
    expect([first.status, second.status]).toEqual([204, 204]);
    const got = await world.client.get(`/bucket/k?versionId=${first.header('*-version-id')}`);
    expect(Buffer.compare(got.bytes, content)).toBe(0);
    expect((await world.client.get('/bucket/k')).text).toBe('');
  });

  test('a file outside its length range leaves nothing behind', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const ranged = (size: number, min: number, max: number) =>
      post(world, [...signed({ key: 'k' }, [['content-length-range', min, max]]), fileOf(bytesOf(size))]);
    for (const [size, min, max, code, allowed] of [
      [4, 5, 9, 'EntityTooSmall', ['MinSizeAllowed', '5']],
      [10, 5, 9, 'EntityTooLarge', ['MaxSizeAllowed', '9']],
      [5 * MiB, 5, MiB, 'EntityTooLarge', ['MaxSizeAllowed', String(MiB)]],
    ] as const) {
      const refused = await ranged(size, min, max);
      expect([...result(refused), refused.one(allowed[0])]).toEqual([400, code, allowed[1]]);
    }
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect((await ranged(5, 5, 9)).status).toBe(204);
    expect((await ranged(9, 5, 9)).status).toBe(204);
    expect(await world.usage('bucket')).toEqual({ bytes: 9, objects: 1 });
  });
});

test('version 4 in both dialects and version 2 sign a form; a wrong secret does not', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const conditions = [{ bucket: 'bucket' }, ['eq', '$key', 'k']];
  const send = (fields: Record<string, string>) =>
    post(world, [...fieldsOf({ key: 'k', ...fields }), fileOf('x')]);
  for (const dialect of ['amz', 'store'] as const) {
    const answer = await send(signForm(alice, { conditions, dialect }));
    expect(answer.status).toBe(204);
    expect(answer.headers.some(([name]) => name === `x-${dialect}-request-id`)).toBe(true);
  }
  expect((await send(signFormV2(alice, { conditions }))).status).toBe(204);
  const wrong = { ...alice, secretKey: 'another' };
  expect(result(await send(signForm(wrong, { conditions })))).toEqual([403, 'SignatureDoesNotMatch']);
  expect(result(await send(signFormV2(wrong, { conditions })))).toEqual([403, 'SignatureDoesNotMatch']);
  const unknown = { ...alice, accessKey: 'nobody' };
  expect(result(await send(signForm(unknown, { conditions })))).toEqual([403, 'InvalidAccessKeyId']);
  expect(result(await send(signFormV2(unknown, { conditions })))).toEqual([403, 'InvalidAccessKeyId']);
});

test('version 2 goes with the setting that turns it off', async () => {
  await using world = await openGateway({ settings: { SVC_SIGV2_PRESIGN: 'off' } });
  await world.client.put('/bucket');
  const fields = { key: 'k', ...signFormV2(alice, { conditions: [{ bucket: 'bucket' }, { key: 'k' }] }) };
  expect(result(await post(world, [...fieldsOf(fields), fileOf('x')]))).toEqual([400, 'InvalidRequest']);
});

const setPolicy = async (world: GatewayWorld, ...statements: readonly object[]) => {
  const body = JSON.stringify({ Version: '2012-10-17', Statement: statements });
  expect((await world.client.put('/bucket?policy', { body })).status).toBe(204);
};
const onKeys = (more: object) => ({ Principal: '*', Resource: 'arn:aws:s3:::bucket/*', ...more });
const formOf = (who: typeof bob, fields: Readonly<Record<string, string>> = {}) => {
  const conditions = Object.entries({ bucket: 'bucket', key: 'k', ...fields }).map(([k, v]) => ({ [k]: v }));
  return [...fieldsOf({ key: 'k', ...fields, ...signForm(who, { conditions }) }), fileOf('x')];
};

test('the signer must be allowed to write the object, its tags, its lock and its ACL', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  expect(result(await post(world, formOf(bob)))).toEqual([403, 'AccessDenied']);
  expect((await post(world, formOf(alice))).status).toBe(204);
  await setPolicy(world, onKeys({ Effect: 'Allow', Action: 's3:PutObject' }));
  expect((await post(world, formOf(bob))).status).toBe(204);
  const tagging = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
  expect(result(await post(world, formOf(bob, { tagging })))).toEqual([403, 'AccessDenied']);
});

test('policies see that a request is a form, how it was signed and what its fields say', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const allow = (Condition: object) =>
    setPolicy(world, onKeys({ Effect: 'Allow', Action: 's3:PutObject', Condition }));
  for (const [condition, status] of [
    [{ StringEquals: { 's3:authType': 'POST' } }, 204],
    [{ StringEquals: { 's3:authType': 'REST-HEADER' } }, 403],
    [{ StringEquals: { 's3:signatureversion': 'AWS4-HMAC-SHA256' } }, 204],
    [{ StringEquals: { 's3:x-amz-storage-class': 'STANDARD_IA' } }, 204],
    [{ StringEquals: { 's3:x-amz-storage-class': 'GLACIER' } }, 403],
  ] as const) {
    await allow(condition);
    const form = formOf(bob, { 'x-amz-storage-class': 'STANDARD_IA' });
    expect((await post(world, form)).status, JSON.stringify(condition)).toBe(status);
  }
});

test('an unsigned form writes only where anonymous callers may', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const form = [...fieldsOf({ key: 'k', 'Content-Type': 'text/plain' }), fileOf('x')];
  expect(result(await post(world, form))).toEqual([403, 'AccessDenied']);
  await setPolicy(world, onKeys({ Effect: 'Allow', Action: 's3:PutObject' }));
  expect((await post(world, form)).status).toBe(204);
  expect(result(await post(world, form, {}, '/absent'))).toEqual([404, 'NoSuchBucket']);
});

describe('a successful form is answered', () => {
  const answered = async (fields: Record<string, string>) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    return post(world, [...signed({ key: 'a b/c', ...fields }), fileOf('x')]);
  };
  const etag = `"${md5('x')}"`;

  test('with the status that it asks for, 204 unless it is one of three', async () => {
    for (const [given, status] of [
      ['200', 200],
      ['204', 204],
      ['404', 204],
      ['', 204],
    ] as const)
      expect(result(await answered({ success_action_status: given }))).toEqual([status, '']);
    const created = await answered({ success_action_status: '201' });
    expect([created.status, created.header('content-type')]).toEqual([201, 'application/xml']);
    expect(['Location', 'Bucket', 'Key', 'ETag'].map((name) => created.one(name))).toEqual([
      'http://localhost/bucket/a%20b%2Fc',
      'bucket',
      'a b/c',
      etag,
    ]);
  });

  test('with a redirect that names the stored object, whatever success_action_status is', async () => {
    const query = `bucket=bucket&key=a%20b%2Fc&etag=${encodeURIComponent(etag)}`;
    for (const [url, location] of [
      ['https://app.example/done', `https://app.example/done?${query}`],
      ['http://app.example/done?a=b#top', `http://app.example/done?a=b&${query}#top`],
    ] as const) {
      const answer = await answered({ success_action_redirect: url, success_action_status: '201' });
      expect([answer.status, answer.text, answer.header('location')]).toEqual([303, '', location]);
    }
    expect((await answered({ redirect: 'http://app.example/' })).status).toBe(303);
  });

  test.each([
    'javascript:alert(1)',
    'data:text/html,x',
    '//app.example/done',
    '/done',
    'ftp://app.example/',
    'https://',
    'x',
  ])('as if it had not asked for the redirect to %s', async (url) => {
    const answer = await answered({ success_action_redirect: url });
    expect([answer.status, answer.header('location')]).toEqual([204, 'http://localhost/bucket/a%20b%2Fc']);
  });
});

test('checksums and MD5 of a form are held against its file', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const send = (fields: Record<string, string>) =>
    post(world, [...signed({ key: 'k', ...fields }), fileOf('x')]);
  expect((await send({ 'Content-MD5': digest64('md5', 'x') })).status).toBe(204);
  expect(result(await send({ 'Content-MD5': digest64('md5', 'y') }))).toEqual([400, 'BadDigest']);
  for (const [name, value, wrong] of [
    ['x-amz-checksum-crc32', 'jNwWgw==', 'AAAAAA=='],
    ['x-amz-checksum-xxhash64', 'XIDAloMEESM=', 'AAAAAAAAAAA='],
  ] as const) {
    const right = await send({ [name]: value });
    expect([right.status, right.header(name.replace('x-amz', '*'))]).toEqual([204, value]);
    expect(result(await send({ [name]: wrong }))).toEqual([400, 'BadDigest']);
  }
});

test('a page of an allowed origin can read what its form is answered', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const rule =
    '<CORSRule><AllowedOrigin>https://app.example</AllowedOrigin><AllowedMethod>POST</AllowedMethod></CORSRule>';
  await world.client.put('/bucket?cors', { body: `<CORSConfiguration>${rule}</CORSConfiguration>` });
  const ask = { headers: { origin: 'https://app.example' } };
  for (const parts of [[...signed({ key: 'k' }), fileOf('x')], fieldsOf({ key: 'k' })])
    expect((await post(world, parts, ask)).header('access-control-allow-origin')).toBe('https://app.example');
});

test('a form has one audit row, accepted or refused, with its signer and its key', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const rows = async () => (await auditRows(world.context)).filter(({ action }) => action === 'PostObject');
  const taken = await post(world, formOf(alice));
  expect(await rows()).toMatchObject([
    { id: taken.header('x-amz-request-id'), status: 204, key: 'k', accessKey: alice.accessKey },
  ]);
  const refused = await post(world, formOf({ ...alice, secretKey: 'another' }));
  expect(await rows()).toContainEqual(
    expect.objectContaining({ id: refused.header('x-amz-request-id'), error: 'SignatureDoesNotMatch' }),
  );
  expect(await rows()).toHaveLength(2);
});

test('encryption, lock and ACL are fields of a form as they are headers of a request', async () => {
  await using world = await openGateway({ settings: { SVC_SSE_C_REQUIRE_TLS: 'false' } });
  await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  const until = '2999-01-01T00:00:00.000Z';
  const answer = await post(world, [
    ...signed({
      key: 'k',
      acl: 'public-read',
      'x-amz-server-side-encryption': 'AES256',
      'x-amz-object-lock-mode': 'GOVERNANCE',
      'x-amz-object-lock-retain-until-date': until,
      'x-amz-object-lock-legal-hold': 'ON',
    }),
    fileOf('content'),
  ]);
  expect([answer.status, answer.header('*-server-side-encryption')]).toEqual([204, 'AES256']);
  const head = await world.client.head('/bucket/k');
  expect(
    [
      'server-side-encryption',
      'object-lock-mode',
      'object-lock-retain-until-date',
      'object-lock-legal-hold',
    ].map((name) => head.header(`*-${name}`)),
  ).toEqual(['AES256', 'GOVERNANCE', until, 'ON']);
  expect((await world.anonymous.get('/bucket/k')).text).toBe('content');
  const customer = Buffer.alloc(32, 7);
  const key = {
    'x-amz-server-side-encryption-customer-algorithm': 'AES256',
    'x-amz-server-side-encryption-customer-key': customer.toString('base64'),
    'x-amz-server-side-encryption-customer-key-MD5': Buffer.from(md5(customer), 'hex').toString('base64'),
  };
  expect((await post(world, [...signed({ key: 'c', ...key }), fileOf('hidden')])).status).toBe(204);
  expect((await world.client.get('/bucket/c')).status).toBe(400);
  expect((await world.client.get('/bucket/c', { headers: key })).text).toBe('hidden');
});

test('a form sends ObjectCreated:Post', async () => {
  const sink = JSON.stringify([
    { id: 'jobs', accounts: ['*'], type: 'redis', url: 'redis://example.com', key: 'events' },
  ]);
  await using world = await openGateway({ settings: { SVC_NOTIFY_TARGETS: sink } });
  await world.client.put('/bucket');
  const queue = '<Queue>arn:aws:sqs:default:123456789012:jobs</Queue><Event>s3:ObjectCreated:Post</Event>';
  const body = `<NotificationConfiguration><QueueConfiguration>${queue}</QueueConfiguration></NotificationConfiguration>`;
  expect((await world.client.put('/bucket?notification', { body })).status).toBe(200);
  await post(world, formOf(alice));
  await world.client.put('/bucket/k', { body: 'x' });
  expect((await eventsOf(world.context)).map(({ eventName, s3 }) => [eventName, s3.object.key])).toEqual([
    ['ObjectCreated:Post', 'k'],
  ]);
});

test('a form in a fetch Request works the same', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const web = world.as({ anonymous: true, fetch: true });
  const body = encodeForm(formOf(alice));
  const answer = await web.post('/bucket', { body, headers: multipart() });
  expect([answer.status, answer.header('etag')]).toEqual([204, `"${md5('x')}"`]);
  const refused = await web.post('/bucket', { body: body.subarray(0, -60), headers: multipart() });
  expect(result(refused)).toEqual([400, 'MalformedPOSTRequest']);
});

test('temporary credentials sign forms with their token among the fields, which the policy must allow', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const iam = openActions(world);
  const AssumeRolePolicyDocument = trusting({ AWS: 'alice-account' });
  await must(iam('CreateRole', { RoleName: 'writer', AssumeRolePolicyDocument }));
  const PolicyDocument = allow('s3:PutObject');
  await must(iam('PutRolePolicy', { RoleName: 'writer', PolicyName: 'p', PolicyDocument }));
  const { options } = await assume(world, iam, { role: 'arn:aws:iam::alice-account:role/writer' });
  const { credential, token } = options;
  const send = (sent: string, more: readonly unknown[], sign: typeof signFormV2) => {
    const conditions = [{ bucket: 'bucket' }, { key: 'k' }, ...more];
    const fields = { key: 'k', ...sign(credential, { conditions }), 'x-amz-security-token': sent };
    return post(world, [...fieldsOf(fields), fileOf('x')]);
  };
  const allowed = [['eq', '$x-amz-security-token', token]];
  for (const sign of [signForm, signFormV2]) {
    expect((await send(token, allowed, sign)).status).toBe(204);
    expect(result(await send(token, [], sign))).toEqual([403, 'AccessDenied']);
    expect(result(await send(`${token}x`, allowed, sign))).toEqual([400, 'InvalidToken']);
  }
  const bare = signForm(credential, { conditions: [{ bucket: 'bucket' }, { key: 'k' }] });
  const tokenless = await post(world, [...fieldsOf({ key: 'k', ...bare }), fileOf('x')]);
  expect(tokenless.status).toBe(403);
});
