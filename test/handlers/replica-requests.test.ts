/** The requests by which another site brings its versions. */
import { expect, test } from 'vitest';
import { encodeReplica } from '../../src/metadata/objects/properties.ts';
import { findSite } from '../../src/metadata/site.ts';
import { policyOf } from '../support/access.ts';
import { faulty } from '../support/faulty.ts';
import { digest64, md5 } from '../support/gateway-bodies.ts';
import { auditRows, eventsOf, inShort, tickingClock } from '../support/recorded.ts';
import {
  documentOf,
  joined,
  markerAt,
  openSite,
  rowsOf,
  sendObject,
  sendState,
  versionAt,
  written,
} from '../support/replicas.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('ReplicateObject keeps version id, ETag, time, headers, tags and checksum, and says REPLICA', async () => {
  await using source = await openSite();
  await using target = await openSite();
  const put = await source.client.put('/bucket/key', {
    body: 'content',
    headers: {
      '*-meta-a': 'b',
      '*-tagging': 't=1',
      'content-type': 'text/x',
      '*-checksum-sha256': digest64('sha256', 'content'),
    },
  });
  expect(put.status, put.text).toBe(200);
  const [row] = await rowsOf(source.context, 'bucket', 'key');
  if (row === undefined) throw new Error('no row');
  const document = await documentOf(source.context, row);
  const sent = await sendObject(target.client, '/bucket/key', document, 'content');
  expect([sent.status, sent.header('*-replica-outcome')], sent.text).toEqual([200, 'stored']);
  expect(sent.header('*-replica-site')).toBe(await findSite(target.context));
  const got = await target.client.get('/bucket/key', { headers: { '*-checksum-mode': 'ENABLED' } });
  const kept = await source.client.get('/bucket/key', { headers: { '*-checksum-mode': 'ENABLED' } });
  for (const name of [
    '*-version-id',
    'etag',
    'last-modified',
    '*-meta-a',
    'content-type',
    '*-checksum-sha256',
    '*-tagging-count',
  ])
    expect([name, got.header(name)]).toEqual([name, kept.header(name)]);
  expect(got.text).toBe('content');
  expect(got.header('*-replication-status')).toBe('REPLICA');
  const again = await sendObject(target.client, '/bucket/key', document, 'content');
  expect([again.status, again.header('*-replica-outcome')]).toEqual([200, 'present']);
  expect(await target.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
});

test('GetReplicaSite tells the id of the site, and whether the bucket takes replicas', async () => {
  await using site = await openSite();
  const told = await site.client.get('/bucket?replica');
  expect(JSON.parse(told.text)).toEqual({
    protocol: 1,
    site: await findSite(site.context),
    versioning: 'Enabled',
    objectLock: false,
    owner: 'alice-account',
  });
  expect((await site.client.get('/missing?replica')).code).toBe('NoSuchBucket');
  expect((await site.bob.get('/bucket?replica')).code).toBe('AccessDenied');
  expect((await site.anonymous.get('/bucket?replica')).code).toBe('AccessDenied');
});

test('ReplicateDelete removes a version permanently, and promotes the next one', async () => {
  await using site = await openSite();
  const first = await site.client.put('/bucket/key', { body: 'one' });
  const second = await site.client.put('/bucket/key', { body: 'two' });
  const path = `/bucket/key?replica=${second.header('*-version-id')}`;
  const gone = await site.client.delete(path);
  expect([gone.status, gone.header('*-replica-outcome')], gone.text).toEqual([204, 'stored']);
  expect((await site.client.get('/bucket/key')).header('*-version-id')).toBe(first.header('*-version-id'));
  expect((await site.client.delete(path)).header('*-replica-outcome')).toBe('present');
  expect((await site.client.delete('/bucket/key?replica=null')).code).toBe('InvalidArgument');
});

test('a version that was removed permanently is not brought back, however it is sent, unless that is asked for', async () => {
  await using site = await openSite();
  const { client } = site;
  const document = written('content');
  const { version } = document;
  await sendObject(client, '/bucket/key', document, 'content');
  await client.delete(`/bucket/key?versionId=${version}`);
  const again = await sendObject(client, '/bucket/key', document, 'content');
  expect([again.status, again.header('*-replica-outcome')], again.text).toEqual([200, 'removed']);
  const state = await sendState(client, '/bucket/key', document);
  expect([state.status, state.header('*-replica-outcome')], state.text).toEqual([200, 'removed']);
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  const headers = { '*-replica-restore': 'true' };
  const body = encodeReplica(document);
  // The tombstone is gone, so the content is asked for.
  expect((await client.put(`/bucket/key?replica-state=${version}`, { body, headers })).code).toBe(
    'NoSuchVersion',
  );
  const restored = await sendObject(client, '/bucket/key', document, 'content');
  expect(restored.header('*-replica-outcome')).toBe('stored');
  expect((await client.get('/bucket/key')).text).toBe('content');
  await site.gc();
  expect(await site.stored()).toHaveLength(1);
});

test('a removal that arrives before its version keeps it away, a delete marker too', async () => {
  await using site = await openSite();
  const { client } = site;
  const document = written('content');
  const marker = markerAt(versionAt(Date.now() - 5));
  for (const { version } of [document, marker]) {
    const removed = await client.delete(`/bucket/key?replica=${version}`);
    expect([removed.status, removed.header('*-replica-outcome')]).toEqual([204, 'present']);
  }
  const sent = await sendObject(client, '/bucket/key', document, 'content');
  expect(sent.header('*-replica-outcome')).toBe('removed');
  const marked = await sendState(client, '/bucket/key', marker);
  expect(marked.header('*-replica-outcome')).toBe('removed');
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
});

test('a version and its removal that arrive at the same moment leave nothing', async () => {
  let removing: Promise<unknown> | undefined;
  await using site = await openSite({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          // The version was not there when the removal looked, and its commit follows.
          if (at.table.name === 'objects' && removing === undefined) {
            removing = site.client.delete(`/bucket/key?replica=${document.version}`);
            await removing;
          }
          return context.metadata.commit(at, changes, options);
        },
      }),
    }),
  });
  const document = written('content');
  const sent = await sendObject(site.client, '/bucket/key', document, 'content');
  expect([sent.status, sent.header('*-replica-outcome')], sent.text).toEqual([200, 'removed']);
  expect((await site.client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  expect(await site.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
  await site.gc();
  expect(await site.stored()).toEqual([]);
});

test('a tombstone ends after its retention', async () => {
  const clock = virtualClock(Date.now());
  await using site = await openSite({ clock, settings: { SVC_REPLICATION_TOMBSTONES: '1d' } });
  const document = written('content');
  await sendObject(site.client, '/bucket/key', document, 'content');
  await site.client.delete(`/bucket/key?versionId=${document.version}`);
  clock.jump(25 * 3_600_000);
  const again = await sendObject(site.client, '/bucket/key', document, 'content');
  expect(again.header('*-replica-outcome')).toBe('stored');
});

test('a content that is not the described one is refused, and nothing is stored', async () => {
  await using site = await openSite();
  const checksum = { algorithm: 'SHA256', type: 'FULL_OBJECT', value: digest64('sha256', 'other') } as const;
  const refusals = [
    [written('content', { size: 6 }), 'InvalidRequest'],
    [written('content', { size: 8 }), 'InvalidRequest'],
    [written('content', { etag: md5('other') }), 'BadDigest'],
    [written('content', { checksum }), 'BadDigest'],
  ] as const;
  for (const [document, code] of refusals)
    expect((await sendObject(site.client, '/bucket/key', document, 'content')).code).toBe(code);
  expect((await site.client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  await site.gc();
  expect(await site.stored()).toEqual([]);
  const right = written('content', { checksum: { ...checksum, value: digest64('sha256', 'content') } });
  expect((await sendObject(site.client, '/bucket/key', right, 'content')).status).toBe(200);
});

test('a document that is malformed, or a request that contradicts it, is refused with the place', async () => {
  await using site = await openSite();
  const { client } = site;
  const document = written('x');
  const send = (change: object) => sendObject(client, '/bucket/key', { ...document, ...change }, 'x');
  const refusals: readonly (readonly [object, string, string])[] = [
    [{ size: -1 }, 'MalformedJSON', 'size'],
    [{ surplus: 1 }, 'MalformedJSON', 'surplus'],
    [{ etag: '"x"' }, 'MalformedJSON', 'etag'],
    [{ trace: [] }, 'MalformedJSON', 'trace'],
    [{ stamp: 'zz' }, 'MalformedJSON', 'stamp'],
    [{ stamp: `${'f'.repeat(16)}-a` }, 'InvalidArgument', 'clock'],
    [{ modified: Date.now() + 48 * 3_600_000 }, 'InvalidArgument', 'clock'],
    [{ owner: 'a\u0000b' }, 'MalformedJSON', 'owner'],
    [{ lock: { mode: 'COMPLIANCE', retainUntil: 9e15 } }, 'MalformedJSON', 'retainUntil'],
    [{ encryption: { by: 'provider', keyId: 'a b' } }, 'MalformedJSON', 'keyId'],
    [{ lock: { mode: 'COMPLIANCE' } }, 'MalformedJSON', 'retainUntil'],
    [{ acl: [{ grantee: { is: 'user' }, permission: 'READ' }] }, 'MalformedJSON', 'grantee'],
    [{ headers: { user: { a: 'x\r\ny: z' } } }, 'MalformedJSON', 'headers.user.a'],
    [{ headers: { user: { 'a: b': 'x' } } }, 'InvalidArgument', 'a: b'],
    [{ headers: { system: { 'x-other': 'x' } } }, 'InvalidArgument', 'x-other'],
    [{ headers: { tags: [['aws:t', 'x']] } }, 'InvalidTag', 'aws:t'],
    [{ headers: { user: { a: 'x'.repeat(3000) } } }, 'MetadataTooLarge', '2048'],
    [{ storageClass: 'NONE' }, 'InvalidStorageClass', 'NONE'],
  ];
  for (const [change, code, place] of refusals) {
    const answer = await send(change);
    expect([change, answer.code], answer.text).toEqual([change, code]);
    expect(answer.text).toContain(place);
  }
  const body = joined(document, 'x');
  const length = String(encodeReplica(document).length);
  const put = (query: string, headers: Record<string, string>) =>
    client.put(`/bucket/key?replica=${query}`, { body, headers });
  expect((await put(document.version, {})).code).toBe('InvalidArgument');
  for (const wrong of ['0', '-1', '9999999', 'x'])
    expect((await put(document.version, { '*-replica-document-length': wrong })).code).toBe(
      'InvalidArgument',
    );
  expect((await put(document.version, { '*-replica-document-length': '200000' })).code).toBe(
    'IncompleteBody',
  );
  expect((await put(versionAt(1), { '*-replica-document-length': length })).code).toBe('InvalidArgument');
  const sum = digest64('md5', body);
  const claimed = { '*-replica-document-length': length, 'content-md5': sum };
  expect((await put(document.version, claimed)).code).toBe('InvalidRequest');
  const marker = markerAt(document.version);
  expect((await sendObject(client, '/bucket/key', marker, '')).code).toBe('InvalidArgument');
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
});

test('a bucket without versioning takes no replica, and no site takes a version of the day after tomorrow', async () => {
  await using site = await openSite();
  await site.client.put('/plain');
  const document = written('x');
  expect((await sendObject(site.client, '/plain/key', document, 'x')).code).toBe('InvalidBucketState');
  expect((await sendState(site.client, '/plain/key', markerAt(versionAt(1)))).code).toBe(
    'InvalidBucketState',
  );
  const ahead = versionAt(Date.now() + 25 * 3_600_000);
  const refused = await sendObject(site.client, '/bucket/key', written('x', { version: ahead }), 'x');
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('clock')]);
  const near = versionAt(Date.now() + 23 * 3_600_000);
  await sendObject(site.client, '/bucket/key', written('near', { version: near }), 'near');
  const local = await site.client.put('/bucket/key', { body: 'local' });
  expect((local.header('*-version-id') ?? '') > near).toBe(true);
  expect((await site.client.get('/bucket/key')).text).toBe('local');
});

test('the state of a replica that makes its row too long is refused', async () => {
  await using site = await openSite();
  const user = { a: 'x'.repeat(2000) };
  const grants = Array.from({ length: 100 }, (_, n) => ({
    grantee: { is: 'user', id: `${n}`.padStart(250, 'a') } as const,
    permission: 'READ' as const,
  }));
  const document = written('x', { headers: { user }, acl: grants });
  expect((await sendObject(site.client, '/bucket/key', document, 'x')).code).toBe('InvalidRequest');
  expect(
    (await sendObject(site.client, '/bucket/key', { ...document, acl: grants.slice(0, 20) }, 'x')).status,
  ).toBe(200);
  const stamp = `${versionAt(Date.now() + 1000).slice(0, 16)}-a`;
  expect((await sendState(site.client, '/bucket/key', { ...document, stamp })).code).toBe('InvalidRequest');
  const marker = { ...markerAt(versionAt(5)), headers: { user: { a: 'x'.repeat(8000) } } };
  expect((await sendState(site.client, '/bucket/key', marker)).status).toBe(200);
  const [, row] = await rowsOf(site.context, 'bucket', 'key');
  expect([row?.marker, row?.headers]).toEqual([true, {}]);
});

test('another content under the id of a version that exists is refused, and the version stays', async () => {
  await using site = await openSite();
  const document = written('first');
  await sendObject(site.client, '/bucket/key', document, 'first');
  const other = written('other', { version: document.version });
  const refused = await sendObject(site.client, '/bucket/key', other, 'other');
  expect([refused.status, refused.code], refused.text).toEqual([409, 'OperationAborted']);
  expect(refused.text).toContain('another content');
  const marker = await sendState(site.client, '/bucket/key', markerAt(document.version));
  expect(marker.status).toBe(409);
  expect((await site.client.get('/bucket/key')).text).toBe('first');
});

test('each replica request needs its own permission', async () => {
  await using site = await openSite();
  const { client, bob } = site;
  const tagged = written('x', { headers: { tags: [['t', '1']] } });
  const marker = markerAt(versionAt(5));
  let at = 100;
  const nextVersion = () => {
    at += 1;
    return versionAt(at);
  };
  const later = { ...tagged, stamp: `${versionAt(Date.now() + 1000).slice(0, 16)}-far` };
  const ask = {
    plain: () => sendObject(bob, '/bucket/plain', written('x', { version: versionAt(1) }), 'x'),
    tagged: () => sendObject(bob, '/bucket/others', { ...tagged, version: nextVersion() }, 'x'),
    upload: () =>
      bob.post(`/bucket/plain?uploads&replica=${versionAt(2)}`, {
        body: encodeReplica(written('x', { version: versionAt(2) })),
      }),
    state: () => sendState(bob, '/bucket/tagged', later),
    marker: () => sendState(bob, '/bucket/marker', marker),
    remove: () => bob.delete(`/bucket/plain?replica=${versionAt(1)}`),
    site: () => bob.get('/bucket?replica'),
  } as const;
  const rights: Readonly<Record<string, readonly string[]>> = {
    's3:ReplicateObject': ['plain', 'upload', 'site'],
    's3:ReplicateObject s3:ReplicateTags': ['plain', 'tagged', 'upload', 'state', 'site'],
    's3:ReplicateObject s3:ReplicateDelete': ['plain', 'upload', 'marker', 'remove', 'site'],
    's3:ReplicateDelete': ['remove'],
    's3:PutObject s3:DeleteObjectVersion s3:PutObjectTagging': [],
  };
  await sendObject(client, '/bucket/tagged', tagged, 'x');
  for (const [actions, allowed] of Object.entries(rights)) {
    const Principal = { AWS: 'bob-account' };
    const Resource = 'arn:aws:s3:::bucket/*';
    const body = policyOf({ Principal, Action: actions.split(' '), Resource });
    const put = await client.put('/bucket?policy', { body });
    expect(put.status, put.text).toBe(204);
    for (const [name, send] of Object.entries(ask)) {
      const { code } = await send();
      expect([actions, name, code === 'AccessDenied']).toEqual([actions, name, !allowed.includes(name)]);
    }
  }
});

test('replica requests send the events of what they change, and each has an audit row', async () => {
  const sinks = JSON.stringify([
    { id: 'jobs', accounts: ['*'], type: 'redis', url: 'redis://example.com', key: 'events' },
  ]);
  await using site = await openSite({ settings: { SVC_NOTIFY_TARGETS: sinks }, clock: tickingClock() });
  const { client, context } = site;
  const kinds = ['ObjectCreated', 'ObjectRemoved', 'ObjectTagging'].map(
    (kind) => `<Event>s3:${kind}:*</Event>`,
  );
  await client.put('/bucket?notification', {
    body: `<NotificationConfiguration><QueueConfiguration>${kinds.join('')}<Queue>arn:aws:sqs:default:123456789012:jobs</Queue></QueueConfiguration></NotificationConfiguration>`,
  });
  const document = written('x', { version: versionAt(1000) });
  const path = '/bucket/key';
  await sendObject(client, path, document, 'x');
  await sendState(client, path, {
    ...document,
    headers: { tags: [['t', '1']] },
    stamp: `${versionAt(2000).slice(0, 16)}-a`,
  });
  await sendState(client, path, markerAt(versionAt(3000)));
  await client.delete(`${path}?replica=${document.version}`);
  await sendState(client, path, markerAt(versionAt(3000)));
  expect((await eventsOf(context)).map(({ eventName }) => eventName)).toEqual([
    'ObjectCreated:Put',
    'ObjectRemoved:DeleteMarkerCreated',
    'ObjectRemoved:Delete',
  ]);
  const audited = (await auditRows(context)).map(inShort).filter((row) => row.startsWith('Replicate'));
  expect(audited).toEqual([
    'ReplicateObject bucket:bucket/key 200',
    'ReplicateState bucket:bucket/key 200',
    'ReplicateState bucket:bucket/key 200',
    'ReplicateDelete bucket:bucket/key 204',
    'ReplicateState bucket:bucket/key 200',
  ]);
});
