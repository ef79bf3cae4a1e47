/** Replicated versions that arrive in parts, and replicated versions that are encrypted. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { encodeReplica, type ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import { encryptingSettings, provider, service } from '../support/encryption.ts';
import { complete, createUpload, digest64, md5, putPart } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { documentOf, openSite, rowsOf, sendObject, versionAt, written } from '../support/replicas.ts';

/** The headers that show a key provider's encryption. */
const [method, keyId] = Object.keys(provider('any')) as [string, string];

const large = 'p'.repeat(5 * 1024 * 1024);
const parts = [large, 'last'];
const etag = `${createHash('md5')
  .update(Buffer.concat(parts.map((part) => createHash('md5').update(part).digest())))
  .digest('hex')}-2`;

const begin = async (client: Client, document: ReplicaDocument): Promise<string> => {
  const created = await client.post(`/bucket/key?uploads&replica=${document.version}`, {
    body: encodeReplica(document),
  });
  expect(created.status, created.text).toBe(200);
  return created.one('UploadId') ?? '';
};

async function send(client: Client, document: ReplicaDocument, contents: readonly string[]) {
  const uploadId = await begin(client, document);
  const sent = [];
  for (const [n, body] of contents.entries())
    sent.push(await putPart(client, '/bucket/key', { uploadId, number: n + 1, body }));
  return complete(client, '/bucket/key', { uploadId, parts: sent });
}

const described = (more: Partial<ReplicaDocument> = {}): ReplicaDocument =>
  written('', { version: versionAt(Date.now() - 9000), size: large.length + 4, etag, ...more });

test('ReplicateUpload keeps version id and ETag, also for a version that is older than the current one', async () => {
  await using site = await openSite();
  const { client } = site;
  const local = await client.put('/bucket/key', { body: 'local' });
  const document = described({ headers: { user: { a: 'b' }, tags: [['t', '1']] } });
  const done = await send(client, document, parts);
  expect(done.status, done.text).toBe(200);
  expect(done.one('ETag')).toBe(`"${etag}"`);
  const got = await client.get(`/bucket/key?versionId=${document.version}`);
  expect([got.header('etag'), got.header('*-replication-status'), got.bytes.length]).toEqual([
    `"${etag}"`,
    'REPLICA',
    document.size,
  ]);
  expect(got.header('*-meta-a')).toBe('b');
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([
    local.header('*-version-id'),
    document.version,
  ]);
  // A repeated upload of the version changes nothing, and its bytes are removed.
  const again = await send(client, document, parts);
  expect(again.status, again.text).toBe(200);
  await site.gc();
  expect((await client.get(`/bucket/key?versionId=${document.version}`)).bytes.length).toBe(document.size);
  const stored = await site.stored();
  expect((await site.owned('bucket')).toSorted()).toEqual([...stored].toSorted());
  expect(await site.usage('bucket')).toEqual({ bytes: 5 + document.size, objects: 2 });
});

test('CompleteMultipartUpload of a replica refuses parts that make another content', async () => {
  await using site = await openSite();
  const { client } = site;
  const wrong = await send(client, described(), [large, 'tsal']);
  expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
  const short = await send(client, described(), [large]);
  expect([short.status, short.code]).toEqual([400, 'BadDigest']);
  const value = digest64('sha256', 'x');
  const checksum = { algorithm: 'SHA256', type: 'COMPOSITE', value: `${value}-2` } as const;
  const other = await send(client, described({ checksum }), parts);
  expect([other.status, other.code], other.text).toEqual([400, 'BadDigest']);
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  const refused = await site.bob.post(`/bucket/key?uploads&replica=${described().version}`, {
    body: encodeReplica(described()),
  });
  expect(refused.code).toBe('AccessDenied');
});

test('the content of a replica is encrypted as its document or its bucket says, and keeps its ETag', async () => {
  await using site = await openSite({ settings: await encryptingSettings() });
  const { client } = site;
  const asked = (document: ReplicaDocument) => sendObject(client, '/bucket/key', document, 'content');
  const shown = async () => {
    const got = await client.get('/bucket/key');
    return [got.text, got.header('etag'), got.header(method), got.header(keyId)];
  };
  const plain = `"${md5('content')}"`;
  const at = (n: number) => ({ version: versionAt(Date.now() - 9000 + n) });
  expect((await asked(written('content', at(1)))).status).toBe(200);
  expect(await shown()).toEqual(['content', plain, undefined, undefined]);
  await asked(written('content', { ...at(2), encryption: { by: 'gateway' } }));
  expect(await shown()).toEqual(['content', plain, service[method], undefined]);
  // The source derived this ETag from its own key, so it is no MD5.
  const derived = { etag: md5('derived'), encryption: { by: 'provider', keyId: 'second' } } as const;
  const sent = await asked(written('content', { ...at(3), ...derived }));
  expect(sent.status, sent.text).toBe(200);
  expect(await shown()).toEqual(['content', `"${derived.etag}"`, 'aws:kms', 'second']);
  const missing = { ...at(4), ...derived, encryption: { by: 'provider', keyId: 'missing' } } as const;
  expect((await asked(written('content', missing))).status).toBe(400);
  const rule =
    '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>first</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>';
  await client.put('/bucket?encryption', { body: rule });
  await asked(written('content', at(5)));
  expect(await shown()).toEqual(['content', plain, 'aws:kms', 'first']);
  const document = described({ ...at(6) });
  const done = await send(client, document, parts);
  expect(done.one('ETag'), done.text).toBe(`"${etag}"`);
  const got = await client.get('/bucket/key');
  expect([got.bytes.length, got.header(method)]).toEqual([document.size, 'aws:kms']);
});

test('a completed multipart version arrives with its checksum at another site', async () => {
  await using source = await openSite();
  await using target = await openSite();
  const headers = { '*-checksum-algorithm': 'SHA256' };
  const uploadId = await createUpload(source.client, '/bucket/key', { headers });
  const more = `<ChecksumSHA256>${digest64('sha256', 'only')}</ChecksumSHA256>`;
  const part = await putPart(source.client, '/bucket/key', { uploadId, number: 1, body: 'only' });
  const sent = [{ ...part, more }];
  expect((await complete(source.client, '/bucket/key', { uploadId, parts: sent })).status).toBe(200);
  const [row] = await rowsOf(source.context, 'bucket', 'key');
  if (row === undefined) throw new Error('no row');
  const done = await send(target.client, await documentOf(source.context, row), ['only']);
  expect(done.status, done.text).toBe(200);
  const mode = { headers: { '*-checksum-mode': 'ENABLED' } };
  const [here, there] = [
    await source.client.head('/bucket/key', mode),
    await target.client.head('/bucket/key', mode),
  ];
  for (const name of ['etag', '*-checksum-sha256', '*-checksum-type', '*-version-id', 'last-modified'])
    expect([name, there.header(name)]).toEqual([name, here.header(name)]);
});
