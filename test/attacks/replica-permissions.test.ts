/**
 * Replica requests are no way around the public actions that they imply, nor around the checks of the headers that a
 * document stands for.
 */
import { describe, expect, test } from 'vitest';
import type { ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import { everyone, grantsIn, policyOf } from '../support/access.ts';
import { encryptingSettings, keyOf, writeKeyFile } from '../support/encryption.ts';
import { digest64, md5, setVersioning } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { configuration, defaultRule, openLocked } from '../support/locks.ts';
import {
  markerAt,
  openSite,
  rowsOf,
  sendObject,
  sendState,
  versionAt,
  written,
} from '../support/replicas.ts';

const replicating = ['s3:ReplicateObject', 's3:ReplicateDelete', 's3:ReplicateTags'];
const Principal = { AWS: 'bob-account' };
const Resource = 'arn:aws:s3:::bucket/*';

/** Bob may send replicas and do `also`, and is denied the actions of `deny`. */
async function permit(
  owner: Client,
  { also = [], deny = [], when }: { also?: string[]; deny?: string[]; when?: object } = {},
): Promise<void> {
  const allow = { Principal, Action: [...replicating, ...also], Resource };
  const denial = {
    Effect: 'Deny',
    Principal,
    Action: deny,
    Resource,
    ...(when && { Condition: when }),
  } as const;
  const body = policyOf(allow, ...(deny.length === 0 ? [] : [denial]));
  const put = await owner.put('/bucket?policy', { body });
  expect(put.status, put.text).toBe(204);
}

const later = (document: ReplicaDocument, more: Partial<ReplicaDocument>, ms = 0): ReplicaDocument => ({
  ...document,
  stamp: `${versionAt(Date.now() + ms).slice(0, 16)}-far`,
  ...more,
});
const openAcl = (owner: string) =>
  [
    { grantee: { is: 'user', id: owner }, permission: 'FULL_CONTROL' },
    { grantee: { is: 'group', group: 'AllUsers' }, permission: 'READ' },
  ] as const;

describe('a replica of a new version is judged by the public actions that it implies:', () => {
  const tags = { tags: [['t', '1']] } as const;
  const cases: readonly (readonly [string, string, Partial<ReplicaDocument>])[] = [
    ['its content', 's3:PutObject', {}],
    ['its tags', 's3:PutObjectTagging', { headers: tags }],
    ['its ACL', 's3:PutObjectAcl', { acl: openAcl('alice-account') }],
  ];
  test.each(cases)('%s, by a Deny of %s', async (_, action, more) => {
    await using site = await openSite();
    const { client, bob } = site;
    const document = written('x', more);
    await permit(client, { also: ['s3:PutObjectAcl'], deny: [action] });
    const refused = await sendObject(bob, '/bucket/key', document, 'x');
    expect([refused.status, refused.code], refused.text).toEqual([403, 'AccessDenied']);
    const begun = await bob.post(`/bucket/key?uploads&replica=${document.version}`, {
      body: JSON.stringify(document),
    });
    expect([begun.status, begun.code], begun.text).toEqual([403, 'AccessDenied']);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
    await permit(client, { also: ['s3:PutObjectAcl'] });
    expect((await sendObject(bob, '/bucket/key', document, 'x')).status).toBe(200);
  });

  test('an ACL that another account opens needs s3:PutObjectAcl', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    await permit(client);
    const document = written('x', { acl: openAcl('alice-account') });
    expect((await sendObject(bob, '/bucket/key', document, 'x')).code).toBe('AccessDenied');
    await permit(client, { also: ['s3:PutObjectAcl'] });
    expect((await sendObject(bob, '/bucket/key', document, 'x')).status).toBe(200);
  });

  test.each([
    ['retention', 's3:PutObjectRetention', { mode: 'COMPLIANCE', retainUntil: Date.UTC(9999, 0, 1) }],
    ['legal hold', 's3:PutObjectLegalHold', { legalHold: true }],
  ] as const)('its %s needs %s, also of an upload in parts', async (_, action, lock) => {
    await using site = await openLocked();
    const { client, bob, clock } = site;
    const document = written('x', { version: versionAt(clock.now() - 9000), lock });
    const begin = () =>
      bob.post(`/bucket/key?uploads&replica=${document.version}`, { body: JSON.stringify(document) });
    await permit(client);
    expect((await sendObject(bob, '/bucket/key', document, 'x')).code).toBe('AccessDenied');
    expect((await begin()).code).toBe('AccessDenied');
    await permit(client, { also: [action], deny: [action] });
    expect((await sendObject(bob, '/bucket/key', document, 'x')).code).toBe('AccessDenied');
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
    await permit(client, { also: [action] });
    expect((await begin()).status).toBe(200);
    expect((await sendObject(bob, '/bucket/key', document, 'x')).status).toBe(200);
  });

  test('conditions of a Deny see the facts of the document, as those of the headers of PutObject', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    const conditions: readonly (readonly [object, Partial<ReplicaDocument>])[] = [
      [{ StringEquals: { 's3:x-amz-storage-class': 'GLACIER' } }, { storageClass: 'GLACIER' }],
      [{ StringEquals: { 's3:RequestObjectTag/t': '1' } }, { headers: { tags: [['t', '1']] } }],
      [
        { StringLike: { 's3:x-amz-website-redirect-location': '*' } },
        { headers: { system: { 'website-redirect-location': '/a' } } },
      ],
      [{ StringLike: { 's3:x-amz-grant-read': '*AllUsers*' } }, { acl: openAcl('alice-account') }],
    ];
    for (const [when, more] of conditions) {
      await permit(client, { also: ['s3:PutObjectAcl'], deny: ['s3:PutObject'], when });
      const version = versionAt(Date.now() - 5000);
      const refused = await sendObject(bob, '/bucket/key', written('x', { version, ...more }), 'x');
      expect([more, refused.code], refused.text).toEqual([more, 'AccessDenied']);
      expect((await sendObject(bob, '/bucket/key', written('x', { version }), 'x')).status).toBe(200);
      await client.delete(`/bucket/key?versionId=${version}`);
    }
  });
});

describe('a changed state of a replica is judged by the public actions that it implies:', () => {
  test('tags are neither changed nor dropped under a Deny, by either request', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    const document = written('x', { version: versionAt(Date.now() - 9000), headers: { tags: [['t', '1']] } });
    await sendObject(client, '/bucket/key', document, 'x');
    const steps = [
      ['s3:PutObjectTagging', { headers: { tags: [['t', '2']] } }],
      ['s3:PutObjectVersionTagging', { headers: { tags: [['t', '2']] } }],
      ['s3:DeleteObjectTagging', { headers: {} }],
      ['s3:DeleteObjectVersionTagging', { headers: {} }],
    ] as const;
    for (const [action, more] of steps) {
      await permit(client, { deny: [action] });
      const changed = later(document, more);
      expect([action, (await sendState(bob, '/bucket/key', changed)).code]).toEqual([action, 'AccessDenied']);
      expect((await sendObject(bob, '/bucket/key', changed, 'x')).code).toBe('AccessDenied');
    }
    await permit(client, { deny: ['s3:ReplicateTags'] });
    expect((await sendObject(bob, '/bucket/key', later(document, { headers: {} }), 'x')).code).toBe(
      'AccessDenied',
    );
    expect((await client.get('/bucket/key?tagging')).all('Value')).toEqual(['1']);
    await permit(client);
    expect((await sendState(bob, '/bucket/key', later(document, { headers: {} }))).status).toBe(200);
    expect((await client.get('/bucket/key?tagging')).all('Value')).toEqual([]);
  });

  test('an ACL is neither opened nor closed without s3:PutObjectVersionAcl, or under a Deny', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    const document = written('x', { version: versionAt(Date.now() - 9000) });
    await sendObject(client, '/bucket/key', document, 'x');
    const opened = () => later(document, { acl: openAcl('alice-account') });
    const also = ['s3:PutObjectVersionAcl'];
    await permit(client);
    expect((await sendState(bob, '/bucket/key', opened())).code).toBe('AccessDenied');
    for (const action of ['s3:PutObjectVersionAcl', 's3:PutObjectAcl']) {
      await permit(client, { also, deny: [action] });
      expect((await sendState(bob, '/bucket/key', opened())).code).toBe('AccessDenied');
      expect((await sendObject(bob, '/bucket/key', opened(), 'x')).code).toBe('AccessDenied');
    }
    expect((await site.anonymous.get('/bucket/key')).status).toBe(403);
    await permit(client, { also });
    expect((await sendState(bob, '/bucket/key', opened())).status).toBe(200);
    expect(grantsIn(await client.get('/bucket/key?acl'))).toContain(`${everyone} READ`);
    await permit(client);
    expect((await sendState(bob, '/bucket/key', later(document, {}, 1000))).code).toBe('AccessDenied');
    expect(grantsIn(await client.get('/bucket/key?acl'))).toContain(`${everyone} READ`);
  });

  test('a legal hold is never lifted, nor set under a Deny of s3:PutObjectLegalHold', async () => {
    await using site = await openLocked();
    const { client, bob, clock } = site;
    const document = written('x', { version: versionAt(clock.now() - 9000), lock: { legalHold: true } });
    await sendObject(client, '/bucket/key', document, 'x');
    const stamp = () => `${versionAt(clock.now()).slice(0, 16)}-far`;
    const { lock: _, ...without } = document;
    const also = ['s3:PutObjectLegalHold', 's3:PutObjectRetention', 's3:BypassGovernanceRetention'];
    await permit(client, { also });
    for (const state of [{ ...document, lock: { legalHold: false } }, without]) {
      clock.jump(1000);
      await sendState(bob, '/bucket/key', { ...state, stamp: stamp() });
      await sendObject(bob, '/bucket/key', { ...state, stamp: stamp() }, 'x');
      expect((await client.get('/bucket/key?legal-hold')).one('Status')).toBe('ON');
    }
    const free = written('y', { version: versionAt(clock.now() - 8000) });
    await sendObject(client, '/bucket/free', free, 'y');
    await permit(client, { also, deny: ['s3:PutObjectLegalHold'] });
    const held = { ...free, lock: { legalHold: true }, stamp: stamp() };
    expect((await sendState(bob, '/bucket/free', held)).code).toBe('AccessDenied');
  });

  test('a retention is extended only with s3:PutObjectRetention, and changes its mode only with the bypass', async () => {
    await using site = await openLocked();
    const { client, bob, clock, inDays } = site;
    const governed = { mode: 'GOVERNANCE', retainUntil: inDays(5) } as const;
    const document = written('x', { version: versionAt(clock.now() - 9000), lock: governed });
    await sendObject(client, '/bucket/key', document, 'x');
    const send = (lock: ReplicaDocument['lock']) => {
      clock.jump(1000);
      const stamp = `${versionAt(clock.now()).slice(0, 16)}-far`;
      return sendState(bob, '/bucket/key', { ...document, ...(lock && { lock }), stamp });
    };
    const longer = { mode: 'GOVERNANCE', retainUntil: inDays(9) } as const;
    const strict = { mode: 'COMPLIANCE', retainUntil: inDays(9) } as const;
    const shown = async () => (await client.get('/bucket/key?retention')).one('Mode');
    await permit(client);
    expect((await send(longer)).code).toBe('AccessDenied');
    await permit(client, {
      also: ['s3:PutObjectRetention'],
      deny: ['s3:PutObjectRetention'],
      when: { NumericGreaterThan: { 's3:object-lock-remaining-retention-days': '6' } },
    });
    expect((await send(longer)).code).toBe('AccessDenied');
    await permit(client, { also: ['s3:PutObjectRetention'] });
    expect((await send(longer)).status).toBe(200);
    expect((await send(strict)).code).toBe('AccessDenied');
    expect(await shown()).toBe('GOVERNANCE');
    await permit(client, { also: ['s3:PutObjectRetention', 's3:BypassGovernanceRetention'] });
    expect((await send(strict)).status).toBe(200);
    expect(await shown()).toBe('COMPLIANCE');
  });
});

describe('a replica removes nothing under a Deny:', () => {
  test('a version under a Deny of s3:DeleteObjectVersion, with and without a condition on its id', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    const put = await client.put('/bucket/key', { body: 'x' });
    const id = put.header('*-version-id') ?? '';
    for (const when of [undefined, { StringEquals: { 's3:VersionId': id } }]) {
      await permit(client, { deny: ['s3:DeleteObjectVersion'], ...(when && { when }) });
      expect((await bob.delete(`/bucket/key?replica=${id}`)).code).toBe('AccessDenied');
      expect((await client.get('/bucket/key')).text).toBe('x');
    }
    await permit(client);
    expect((await bob.delete(`/bucket/key?replica=${id}`)).status).toBe(204);
  });

  test('an object under a Deny of s3:DeleteObject: no delete marker arrives', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    await client.put('/bucket/key', { body: 'x' });
    const marker = markerAt(versionAt(Date.now() + 1000));
    await permit(client, { deny: ['s3:DeleteObject'] });
    expect((await sendState(bob, '/bucket/key', marker)).code).toBe('AccessDenied');
    expect((await client.get('/bucket/key')).text).toBe('x');
    await permit(client);
    expect((await sendState(bob, '/bucket/key', marker)).status).toBe(200);
  });

  test('a null version that a newer null version would replace, without s3:ReplicateDelete or under a Deny', async () => {
    await using site = await openSite();
    const { client, bob } = site;
    await client.put('/plain');
    await setVersioning(client, 'bucket', 'Suspended');
    await client.put('/bucket/key', { body: 'old' });
    await setVersioning(client, 'bucket', 'Enabled');
    const next = written('new', { version: versionAt(Date.now() + 60_000), isNull: true });
    await permit(client, { deny: ['s3:DeleteObjectVersion'] });
    expect((await sendObject(bob, '/bucket/key', next, 'new')).code).toBe('AccessDenied');
    await permit(client, { deny: ['s3:ReplicateDelete'] });
    expect((await sendObject(bob, '/bucket/key', next, 'new')).code).toBe('AccessDenied');
    expect((await client.get('/bucket/key?versionId=null')).text).toBe('old');
    await permit(client);
    expect((await sendObject(bob, '/bucket/key', next, 'new')).status).toBe(200);
    expect((await client.get('/bucket/key?versionId=null')).text).toBe('new');
  });
});

test('a lock that has ended, or is weaker, does not escape the default retention of the bucket', async () => {
  await using site = await openLocked();
  const { client, clock, inDays } = site;
  await client.put('/bucket?object-lock', {
    body: configuration(defaultRule('COMPLIANCE', '<Days>10</Days>')),
  });
  const locks: Readonly<Record<string, ReplicaDocument['lock']>> = {
    ended: { mode: 'GOVERNANCE', retainUntil: clock.now() - 1000 },
    weaker: { mode: 'GOVERNANCE', retainUntil: inDays(20) },
    shorter: { mode: 'COMPLIANCE', retainUntil: inDays(1) },
  };
  const parts = async (key: string, document: ReplicaDocument) => {
    const begun = await client.post(`/bucket/${key}?uploads&replica=${document.version}`, {
      body: JSON.stringify(document),
    });
    const uploadId = begun.one('UploadId') ?? '';
    const part = await client.put(`/bucket/${key}?partNumber=1&uploadId=${uploadId}`, { body: 'x' });
    const list = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.header('etag')}</ETag></Part></CompleteMultipartUpload>`;
    return client.post(`/bucket/${key}?uploadId=${uploadId}`, { body: list });
  };
  for (const [name, lock] of Object.entries(locks)) {
    if (lock === undefined) continue;
    const version = versionAt(clock.now() - 9000);
    await sendObject(client, `/bucket/${name}`, written('x', { version, lock }), 'x');
    const etag = `${md5(Buffer.from(md5('x'), 'hex'))}-1`;
    const done = await parts(`${name}-parts`, written('x', { version, lock, etag }));
    expect(done.status, done.text).toBe(200);
    for (const key of [name, `${name}-parts`]) {
      const shown = await client.get(`/bucket/${key}?retention`);
      expect([key, shown.one('Mode')]).toEqual([key, 'COMPLIANCE']);
      expect(Date.parse(shown.one('RetainUntilDate') ?? '')).toBeGreaterThanOrEqual(inDays(10) - 60_000);
    }
  }
});

describe('what a document says about the content is verified, or marked:', () => {
  test('an ETag of parts that came in one piece is marked, and others are refused where they are wrong', async () => {
    await using site = await openSite();
    const { client } = site;
    const forged = written('x', { etag: `${md5('other')}-3` });
    const sent = await sendObject(client, '/bucket/key', forged, 'x');
    expect(sent.status, sent.text).toBe(200);
    expect((await client.head('/bucket/key')).header('*-replica-etag')).toBe('unverified');
    const [row] = await rowsOf(site.context, 'bucket', 'key');
    expect(row?.etagUnverified).toBe(true);
    await sendObject(client, '/bucket/other', written('x'), 'x');
    expect((await client.head('/bucket/other')).header('*-replica-etag')).toBeUndefined();
  });

  test('a checksum that cannot be computed is refused', async () => {
    await using site = await openSite();
    const { client } = site;
    const value = digest64('sha256', 'other');
    const composite = { algorithm: 'SHA256', type: 'COMPOSITE', value: `${value}-3` } as const;
    const etag = `${md5('other')}-3`;
    const refused = await sendObject(client, '/bucket/key', written('x', { etag, checksum: composite }), 'x');
    expect([refused.status, refused.code], refused.text).toEqual([400, 'InvalidRequest']);
    const whole = { algorithm: 'SHA256', type: 'FULL_OBJECT', value } as const;
    const document = written('x', { etag: `${md5(Buffer.from(md5('x'), 'hex'))}-1`, checksum: whole });
    const begun = await client.post(`/bucket/key?uploads&replica=${document.version}`, {
      body: JSON.stringify(document),
    });
    if (begun.status === 200) {
      const uploadId = begun.one('UploadId') ?? '';
      const part = await client.put(`/bucket/key?partNumber=1&uploadId=${uploadId}`, { body: 'x' });
      const list = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.header('etag')}</ETag></Part></CompleteMultipartUpload>`;
      const done = await client.post(`/bucket/key?uploadId=${uploadId}`, { body: list });
      expect([done.status, done.code], done.text).toEqual([400, 'BadDigest']);
    } else expect(begun.status).toBe(400);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  });
});

test('a replica is encrypted by keys of the account of its bucket, and not by those of the account that sends it', async () => {
  const key = (seed: number) => keyOf(seed).toString('base64');
  const SVC_HSM_KEYS_FILE = await writeKeyFile({
    bobs: { key: key(1), accounts: ['bob-account'] },
    shared: { key: key(2), accounts: ['bob-account', 'alice-account'] },
  });
  await using site = await openSite({ settings: { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE } });
  await permit(site.client);
  const send = (keyId: string, version: string) => {
    const encryption = { by: 'provider', keyId } as const;
    return sendObject(site.bob, '/bucket/key', written('x', { version, encryption }), 'x');
  };
  const refused = await send('bobs', versionAt(Date.now() - 5000));
  expect([refused.status, refused.code], refused.text).toEqual([403, 'AccessDenied']);
  expect((await send('shared', versionAt(Date.now() - 4000))).status).toBe(200);
});

test('facts of a document pass the checks of the headers that they stand for', async () => {
  await using site = await openSite();
  const { client } = site;
  const refusals: readonly (readonly [ReplicaDocument['headers'], string])[] = [
    [{ system: { 'website-redirect-location': 'javascript:alert(1)' } }, 'InvalidRedirectLocation'],
    [{ system: { 'website-redirect-location': `/${'a'.repeat(2048)}` } }, 'InvalidRedirectLocation'],
    [{ tags: Array.from({ length: 11 }, (_, n) => [`t${n}`, 'x'] as const) }, 'BadRequest'],
    [{ user: { A: 'x' } }, 'InvalidArgument'],
    [{ system: { 'content-type': 'x'.repeat(8190) } }, 'RequestHeaderSectionTooLarge'],
  ];
  for (const [headers, code] of refusals) {
    const document = written('x', { headers });
    const sent = await sendObject(client, '/bucket/key', document, 'x');
    expect([headers, sent.code], sent.text).toEqual([headers, code]);
    const begun = await client.post(`/bucket/key?uploads&replica=${document.version}`, {
      body: JSON.stringify(document),
    });
    expect(begun.code).toBe(code);
  }
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  // As PutObject stores them: the framing of a request is no encoding, and an empty value is none.
  const system = { 'content-encoding': 'gzip,aws-chunked', 'content-language': '' };
  await sendObject(client, '/bucket/key', written('x', { headers: { system } }), 'x');
  const [row] = await rowsOf(site.context, 'bucket', 'key');
  expect(row?.headers).toEqual({ system: { 'content-encoding': 'gzip' } });
});
