/** Attack group 5 of docs/security.md: policies of forms, and forms that break them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { alice } from '../support/gateway.ts';
import { fieldsOf, fileOf, policyText, signFormV2, signPolicyV2 } from '../support/post-form.ts';
import { anyKey, bucket, covered, type FormWorld, form, openFormWorld, sign } from './form-world.ts';

let { world, post, refuses } = {} as FormWorld;
beforeAll(async () => {
  ({ world, post, refuses } = await openFormWorld());
});
afterAll(() => world.close());

describe('the policy', () => {
  const failed = 'Invalid according to Policy: Policy Condition failed: ';
  test('that has expired, or has no expiration, or one in another zone than UTC, is refused', async () => {
    await refuses(
      post(form({}, { expiration: new Date(Date.now() - 1000).toISOString() })),
      403,
      'AccessDenied',
      /^Invalid according to Policy: Policy expired\.$/,
    );
    for (const expiration of [
      '2044-01-01 00:00:00',
      '2044-01-01T00:00:00+02:00',
      '2044-01-01 00:00:00+00:00',
      '2044-13-01T00:00:00Z',
      '2044-02-30T00:00:00Z',
      '',
      'x',
    ])
      await refuses(post(form({}, { expiration })), 400, 'InvalidPolicyDocument');
  });

  test('that names no bucket signs for none (CVE-2023-43040)', async () => {
    const extra = /^Invalid according to Policy: Extra input fields: bucket$/;
    await refuses(post(form({}, { conditions: [anyKey] })), 403, 'AccessDenied', extra);
  });

  test('for another bucket is refused, whatever bucket the form or the path names (GHSA-w5fh)', async () => {
    const toOther = { conditions: [{ bucket: 'other' }, anyKey] };
    await refuses(post(form({}, toOther)), 403, 'AccessDenied', failed);
    await refuses(post(form({ bucket: 'other' }, toOther)), 403, 'AccessDenied', failed);
    await refuses(post(form({ bucket: 'other' })), 403, 'AccessDenied');
    await refuses(post(form({ BuckeT: 'other' }, toOther)), 403, 'AccessDenied', failed);
    await refuses(post(form({ bucket: 'bucket' }), '/other'), 403, 'AccessDenied', failed);
    for (const loose of [
      ['starts-with', '$bucket', ''],
      ['starts-with', '$bucket', 'buck'],
    ])
      await refuses(post(form({}, { conditions: [loose, anyKey] })), 403, 'AccessDenied', failed);
  });

  test('that does not speak of the key, or of another, signs none', async () => {
    await refuses(post(form({}, { conditions: [bucket] })), 403, 'AccessDenied', 'Extra input fields: key$');
    for (const condition of [
      { key: 'K' },
      ['eq', '$key', 'k/'],
      ['starts-with', '$key', 'user/'],
      { key: '' },
    ])
      await refuses(post(form({}, { conditions: [bucket, condition] })), 403, 'AccessDenied', failed);
  });

  test('must be satisfied in each of its conditions', async () => {
    const conditions = [bucket, anyKey, { key: 'other' }];
    await refuses(post(form({}, { conditions })), 403, 'AccessDenied', /\["eq", "\$key", "other"\]$/);
    await refuses(post(form({}, { conditions: [...covered, { absent: 'x' }] })), 403, 'AccessDenied', failed);
    await refuses(
      post(form({ Key2: 'y' }, { conditions: [...covered, ['eq', '$key2', 'Y']] })),
      403,
      'AccessDenied',
      failed,
    );
  });

  test('with starts-with must be satisfied by every member of a list', async () => {
    const conditions = [...covered, ['starts-with', '$Content-Type', 'image/']];
    await refuses(
      post(form({ 'Content-Type': 'image/png,text/html' }, { conditions })),
      403,
      'AccessDenied',
      failed,
    );
    await refuses(post(form({ 'Content-Type': 'text/html' }, { conditions })), 403, 'AccessDenied', failed);
    for (const name of ['x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-security-token'])
      await refuses(
        post(form({}, { conditions: [...covered, ['starts-with', `$${name}`, '']] })),
        403,
        'AccessDenied',
        failed,
      );
  });

  test('covers fields that mean nothing here by starts-with, as upload scripts write it', async () => {
    const named = ['name', 'Filename', 'utf8', 'success_action_status', 'x-amz-storage-class'];
    const conditions = [...covered, ...named.map((name) => ['starts-with', `$${name}`, ''])];
    const fields = {
      name: 'photo.jpg',
      Filename: 'photo.jpg',
      utf8: '✓',
      success_action_status: '201',
      'x-amz-storage-class': 'GLACIER',
    };
    const stored = await post(form(fields, { conditions }));
    expect([stored.status, stored.one('Key')]).toEqual([201, 'k']);
    await world.client.delete('/bucket/k');
    await refuses(
      post(form(fields, { conditions: [...conditions, ['starts-with', '$name', 'x']] })),
      403,
      'AccessDenied',
      failed,
    );
    await refuses(
      post(form({ ...fields, name2: '' }, { conditions })),
      403,
      'AccessDenied',
      /Extra input fields: name2$/,
    );
  });

  test('may have an expiration with the offset of UTC, and lengths as texts', async () => {
    const conditions = [...covered, ['content-length-range', '1', '10']];
    for (const expiration of ['2044-01-01T00:00:00+00:00', '2044-01-01T00:00:00.123456+00:00'])
      expect((await post(form({}, { conditions, expiration }))).status).toBe(204);
    await world.client.delete('/bucket/k');
    await refuses(
      post(form({}, { conditions, expiration: '2014-01-01T00:00:00+00:00' })),
      403,
      'AccessDenied',
    );
    const short = [...covered, ['content-length-range', '1', '3']];
    await refuses(post(form({}, { conditions: short })), 400, 'EntityTooLarge');
    await refuses(
      post(form({}, { conditions: [...covered, ['content-length-range', '100', '300']] })),
      400,
      'EntityTooSmall',
    );
  });

  test('is about the fields with the name of the file in them', async () => {
    const variable = '$' + '{filename}';
    const conditions = [...covered, { 'x-amz-meta-name': 'photo.jpg' }];
    expect((await post(form({ 'x-amz-meta-name': variable }, { conditions }))).status).toBe(204);
    expect((await world.client.head('/bucket/k')).header('*-meta-name')).toBe('photo.jpg');
    await world.client.delete('/bucket/k');
    const unnamed = [...covered, { 'x-amz-meta-name': variable }];
    await refuses(
      post(form({ 'x-amz-meta-name': variable }, { conditions: unnamed })),
      403,
      'AccessDenied',
      failed,
    );
  });

  test('must mention every field except the signature and ignored ones', async () => {
    for (const [name, value] of [
      ['acl', 'public-read'],
      ['success_action_redirect', 'https://evil.example'],
      ['x-amz-meta-a', 'b'],
      ['x-amz-storage-class', 'GLACIER'],
      ['tagging', '<Tagging/>'],
      ['x-amz-object-lock-mode', 'COMPLIANCE'],
      ['x-amz-security-token', 'x'],
      ['X-AMZ-ACL', 'public-read'],
      ['x-store-acl', 'public-read'],
      ['nonsense', ''],
    ] as const) {
      const code = name === 'x-amz-security-token' ? 'InvalidToken' : 'AccessDenied';
      await refuses(post(form({ [name]: value })), code === 'AccessDenied' ? 403 : 400, code);
    }
    const v2 = (fields: Record<string, string>) =>
      post([
        ...fieldsOf({ key: 'k', ...fields, ...signFormV2(alice, { conditions: covered }) }),
        fileOf('x'),
      ]);
    await refuses(v2({ acl: 'private' }), 403, 'AccessDenied', 'Extra input fields: acl$');
    expect((await post(form({ 'x-ignore-a': 'b' }))).status).toBe(204);
    expect((await v2({ 'X-Ignore-B': 'c' })).status).toBe(204);
    await world.client.delete('/bucket/k');
  });

  test('matches names without regard to case, and values with', async () => {
    const conditions = [{ bUcKeT: 'bucket' }, ['StArTs-WiTh', '$KeY', 'k'], { aCl: 'private' }];
    expect((await post(form({ AcL: 'private' }, { conditions }))).status).toBe(204);
    await world.client.delete('/bucket/k');
    await refuses(post(form({ acl: 'Private' }, { conditions })), 403, 'AccessDenied', failed);
  });

  test.each([
    ['no base64', undefined, '%%%'],
    ['no UTF-8', undefined, Buffer.from([0x7b, 0xff, 0x7d]).toString('base64')],
    ['no JSON', '{"expiration":', undefined],
    ['no object', '[]', undefined],
    ['nothing', 'null', undefined],
    ['ever deeper', '['.repeat(9000), undefined],
    ['no expiration', JSON.stringify({ conditions: covered }), undefined],
    ['no text for an expiration', JSON.stringify({ expiration: 1, conditions: covered }), undefined],
    ['no conditions', JSON.stringify({ expiration: '2044-01-01T00:00:00Z' }), undefined],
    [
      'conditions by another name',
      JSON.stringify({ expiration: '2044-01-01T00:00:00Z', CONDITIONS: covered }),
      undefined,
    ],
    ...[
      {},
      { bucket: 'bucket', key: 'k' },
      { bucket: 1 },
      null,
      'bucket',
      [],
      ['eq', '$key'],
      ['eq', 'key', 'k'],
      ['eq', '$key', 'k', 'k'],
      ['eq', '$key', 1],
      ['ne', '$key', 'x'],
      ['content-length-range', 0],
      ['content-length-range', -1, 0],
      ['content-length-range', '0', '-9'],
      ['content-length-range', '', '9'],
      ['content-length-range', '0', '1e3'],
      ['content-length-range', '0', '99999999999999999'],
      ['content-length-range', 0, 1.5],
      ['content-length-range', 0, 1e300],
      ['__proto__', '$key', 'k'],
    ].map(
      (condition) =>
        [
          `a condition of ${JSON.stringify(condition)}`,
          policyText({ conditions: [...covered, condition] }),
          undefined,
        ] as const,
    ),
  ] as const)('that is %s is refused', async (_, policy, raw) => {
    const fields = raw === undefined ? sign({ policy: policy ?? '' }) : signPolicyV2(alice, raw);
    await refuses(post([...fieldsOf({ key: 'k', ...fields }), fileOf('x')]), 400, 'InvalidPolicyDocument');
  });
});
