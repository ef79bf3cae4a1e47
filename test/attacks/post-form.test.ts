/** Attack group 5 of docs/security.md: forms with other fields than those that were signed. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { alice } from '../support/gateway.ts';
import { bytesOf } from '../support/gateway-bodies.ts';
import {
  boundary,
  encodeForm,
  fieldsOf,
  fileOf,
  multipart,
  policyText,
  signForm,
  signFormV2,
} from '../support/post-form.ts';
import { anyKey, bucket, covered, type FormWorld, form, openFormWorld, sign } from './form-world.ts';

let { world, send, post, refuses } = {} as FormWorld;
beforeAll(async () => {
  ({ world, send, post, refuses } = await openFormWorld());
});
afterAll(() => world.close());

test('a form that was not altered is accepted', async () => {
  expect((await post(form())).status).toBe(204);
  expect((await world.client.get('/bucket/k')).text).toBe('content');
  expect((await world.client.delete('/bucket/k')).status).toBe(204);
});

describe('the signature', () => {
  const broken = (change: (fields: Record<string, string>) => Record<string, string | undefined>) => {
    const fields = Object.entries(change(sign())).filter(([, value]) => value !== undefined);
    return post([
      ...fieldsOf({ key: 'k', ...(Object.fromEntries(fields) as Record<string, string>) }),
      fileOf('x'),
    ]);
  };
  const without = (name: string) => broken((fields) => ({ ...fields, [name]: undefined }));

  test('covers the whole policy, and the day, region and service of its credential', async () => {
    const { policy = '', 'x-amz-credential': credential = '' } = sign();
    const other = Buffer.from(policyText({ conditions: [bucket, anyKey, {}] })).toString('base64');
    await refuses(
      broken((f) => ({ ...f, policy: other })),
      403,
      'SignatureDoesNotMatch',
    );
    await refuses(
      broken((f) => ({ ...f, policy: `${policy}=` })),
      403,
      'SignatureDoesNotMatch',
    );
    await refuses(
      broken((f) => ({ ...f, 'x-amz-signature': '0'.repeat(64) })),
      403,
      'SignatureDoesNotMatch',
    );
    await refuses(
      broken((f) => ({ ...f, 'x-amz-signature': '' })),
      403,
      'SignatureDoesNotMatch',
    );
    await refuses(
      broken((f) => ({ ...f, 'x-amz-credential': credential.replace('us-east-1', 'eu-west-1') })),
      403,
      'SignatureDoesNotMatch',
    );
    for (const bad of [
      '',
      'x',
      credential.replace('/s3/', '/iam/'),
      credential.replace('aws4', 'store4'),
      credential.replace(/\/\d{8}/, '/20200101'),
    ])
      await refuses(
        broken((f) => ({ ...f, 'x-amz-credential': bad })),
        400,
        'InvalidArgument',
      );
    await refuses(
      broken((f) => ({ ...f, 'x-amz-algorithm': 'STORE4-HMAC-SHA256' })),
      400,
      'InvalidArgument',
    );
    await refuses(
      broken((f) => ({ ...f, 'x-amz-date': 'today' })),
      400,
      'InvalidArgument',
    );
  });

  test('names the field that is malformed', async () => {
    for (const [field, value, argument] of [
      ['x-amz-algorithm', 'x', 'X-Amz-Algorithm'],
      ['x-amz-date', 'today', 'X-Amz-Date'],
      ['x-amz-credential', 'no slashes', 'x-amz-credential'],
    ] as const) {
      const refused = await broken((f) => ({ ...f, [field]: value }));
      expect([refused.code, refused.one('ArgumentName'), refused.one('ArgumentValue')]).toEqual([
        'InvalidArgument',
        argument,
        value,
      ]);
    }
  });

  test('lacks none of its fields', async () => {
    for (const name of ['policy', 'x-amz-signature', 'x-amz-algorithm', 'x-amz-credential', 'x-amz-date'])
      await refuses(without(name), 400, 'InvalidArgument', `must contain a field named '${name}'`);
    await refuses(
      post([...fieldsOf({ key: 'k', policy: 'x' }), fileOf('x')]),
      400,
      'InvalidArgument',
      'awsaccesskeyid',
    );
    await refuses(
      post([...fieldsOf({ key: 'k', AWSAccessKeyId: 'x', policy: 'x' }), fileOf('x')]),
      400,
      'InvalidArgument',
      'signature',
    );
  });

  test('is one: not two versions, not two dialects, not also of the request', async () => {
    const v2 = signFormV2(alice, { conditions: covered });
    await refuses(
      broken((f) => ({ ...v2, ...f })),
      400,
      'InvalidArgument',
    );
    await refuses(
      broken((f) => ({ ...signForm(alice, { conditions: covered, dialect: 'store' }), ...f })),
      400,
      'InvalidArgument',
    );
    const body = encodeForm(form());
    await refuses(world.client.post('/bucket', { body, headers: multipart() }), 400, 'InvalidArgument');
    await refuses(
      world.client.presigned('POST', '/bucket', { body, headers: multipart() }),
      400,
      'InvalidArgument',
    );
  });

  test('is not replaced by headers, which do not describe the stored object', async () => {
    const headers = {
      ...multipart(),
      'x-amz-acl': 'public-read',
      'x-amz-meta-a': 'b',
      'x-amz-storage-class': 'GLACIER',
      'cache-control': 'max-age=0',
      'content-disposition': 'attachment',
      'if-none-match': '*',
    };
    for (let round = 0; round < 2; round += 1)
      expect((await send(encodeForm(form()), headers)).status).toBe(204);
    const got = await world.client.get('/bucket/k');
    const names = ['content-type', 'cache-control', 'content-disposition', '*-meta-a', '*-storage-class'];
    expect(names.map((name) => got.header(name))).toEqual([
      'binary/octet-stream',
      ...Array(4).fill(undefined),
    ]);
    await world.client.delete('/bucket/k');
  });
});

describe('the body', () => {
  test('is a form', async () => {
    const body = encodeForm(form());
    expect((await world.client.post('/bucket')).code).toBe('PreconditionFailed');
    const enclosure = 'Bucket POST must be of the enclosure-type multipart/form-data';
    for (const type of [
      'application/json',
      'multipart/mixed; boundary=x',
      'application/x-www-form-urlencoded',
    ]) {
      const refused = await send(body, { 'content-type': type });
      expect([refused.status, refused.code, refused.one('Condition')]).toEqual([
        412,
        'PreconditionFailed',
        enclosure,
      ]);
    }
    for (const type of [
      'multipart/form-data',
      'multipart/form-data; boundary=""',
      'multipart/form-data; boundary=other',
    ])
      await refuses(send(body, { 'content-type': type }), 400, 'MalformedPOSTRequest');
    await refuses(send('', multipart()), 400, 'MalformedPOSTRequest');
  });

  test('has one key and one file, and the file comes last', async () => {
    const signature = fieldsOf(sign());
    await refuses(post([...signature, fileOf('x')]), 400, 'InvalidArgument', "field named 'key'");
    await refuses(
      post([...fieldsOf({ key: '' }), ...signature, fileOf('x')]),
      400,
      'InvalidArgument',
      "field named 'key'",
    );
    await refuses(
      post([fileOf('x'), ...fieldsOf({ key: 'k' }), ...signature]),
      400,
      'InvalidArgument',
      "field named 'key'",
    );
    await refuses(post([...fieldsOf({ key: 'k' }), fileOf('x'), ...signature]), 403, 'AccessDenied');
    await refuses(
      post([...fieldsOf({ key: 'k' }), ...signature]),
      400,
      'InvalidArgument',
      'exactly one file',
    );
    await refuses(post([...form(), fileOf('second')]), 400, 'InvalidArgument', 'exactly one file');
    await refuses(
      post([...fieldsOf({ key: 'x' }), ...form()]),
      400,
      'InvalidArgument',
      'key was given more than once',
    );
    await refuses(
      post([...fieldsOf({ Policy: 'x' }), ...form()]),
      400,
      'InvalidArgument',
      'policy was given more than once',
    );
    await refuses(
      post(
        form(
          { acl: 'private', 'x-amz-acl': 'public-read' },
          { conditions: [...covered, { acl: 'private' }, { 'x-amz-acl': 'public-read' }] },
        ),
      ),
      400,
      'InvalidArgument',
    );
  });

  test('keeps to its bounds', async () => {
    const huge = { 'x-ignore-a': 'x'.repeat(21 * 1024) };
    await refuses(post(form(huge)), 400, 'MaxPostPreDataLengthExceededError');
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`x-ignore-${i}`, '']));
    await refuses(post(form(many)), 400, 'MaxPostPreDataLengthExceededError');
    await refuses(post(form({ key: 'k'.repeat(1025) })), 400, 'KeyTooLongError');
    await refuses(post(form({ key: 'a\0b' })), 400, 'InvalidArgument');
    const endless = async function* () {
      yield Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="key"\r\n\r\n`);
      for (;;) yield bytesOf(1000);
    };
    const headers = { ...multipart(), 'transfer-encoding': 'chunked' };
    await refuses(
      world.anonymous.post('/bucket', { body: 'x', headers, arriving: endless, unsignedHeaders: {} }),
      400,
      'IncompleteBody',
    );
  });

  test('that is torn leaves no object and no bytes', async () => {
    await world.gc();
    const before = await world.stored();
    const body = encodeForm([...fieldsOf({ key: 'k', ...sign() }), fileOf(bytesOf(100_000))]);
    for (const end of [body.length - 4, body.length - 40, body.length - 50_000])
      await refuses(send(body.subarray(0, end)), 400, 'MalformedPOSTRequest');
    await world.gc();
    expect(await world.stored()).toEqual(before);
  });

  test('has values that a header can carry', async () => {
    for (const value of ['a\r\nSet-Cookie: b', 'a\0', 'a\nb'])
      await refuses(
        post(
          form({ 'x-amz-meta-a': value }, { conditions: [...covered, ['starts-with', '$x-amz-meta-a', '']] }),
        ),
        400,
        'InvalidArgument',
      );
    await refuses(
      post(
        form({ 'x-amz-meta-a b': 'c' }, { conditions: [...covered, ['starts-with', '$x-amz-meta-a b', '']] }),
      ),
      400,
      'InvalidArgument',
    );
  });

  test('has tags that are XML, and no entities', async () => {
    const tagging = (text: string) =>
      post(form({ tagging: text }, { conditions: [...covered, { tagging: text }] }));
    await refuses(tagging('a=b'), 400, 'MalformedXML');
    await refuses(tagging('<!DOCTYPE a [<!ENTITY b "c">]><Tagging/>'), 400, 'MalformedXML');
  });
});

test('a form that is damaged anywhere is refused, or means what was signed', async () => {
  const whole = Buffer.from(
    encodeForm(form({ 'x-amz-meta-a': 'b' }, { conditions: [...covered, { 'x-amz-meta-a': 'b' }] })),
  );
  const damage = fc.record({
    at: fc.nat(whole.length - 1),
    byte: fc.nat(255),
    cut: fc.nat(9),
    kind: fc.constantFrom('set', 'cut', 'twice'),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(damage, { minLength: 1, maxLength: 3 }), async (damages) => {
      let body = whole;
      for (const { at, byte, cut, kind } of damages) {
        const [before, after] = [body.subarray(0, at), body.subarray(at)];
        if (kind === 'set') body = Buffer.concat([before, Buffer.from([byte]), after.subarray(1)]);
        else if (kind === 'cut') body = Buffer.concat([before, after.subarray(cut)]);
        else body = Buffer.concat([before, after.subarray(0, cut), after]);
      }
      const answer = await send(body);
      if (answer.status !== 204) {
        expect([400, 403, 412]).toContain(answer.status);
        return;
      }
      const key = decodeURIComponent(answer.header('location')?.replace(/^.*\/bucket\//, '') ?? '');
      const got = await world.client.get(`/bucket/${encodeURIComponent(key)}`);
      expect([got.status, got.header('x-amz-meta-a')]).toEqual([200, 'b']);
    }),
    { numRuns: 300 },
  );
});
