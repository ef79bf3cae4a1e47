/** Policies with conditions on how an object is stored apply to the parts of an upload by its CreateMultipartUpload. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { openGateway } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';

const key = '/bucket/key';
const objects = 'arn:aws:s3:::bucket/*';
type Headers = Readonly<Record<string, string>>;

const begin = async (client: Client, headers: Headers): Promise<string> =>
  (await client.post(`${key}?uploads`, { headers })).one('UploadId') ?? '';

/** The statuses of a part, of a copied part and of the completion. */
async function outcomes(client: Client, uploadId: string, headers: Headers = {}): Promise<number[]> {
  const part = await client.put(key, { query: { uploadId, partNumber: '1' }, body: 'x', headers });
  const copying = { ...headers, '*-copy-source': '/bucket/source' };
  const copied = await client.put(key, { query: { uploadId, partNumber: '2' }, headers: copying });
  const listed = `<Part><PartNumber>1</PartNumber><ETag>${part.header('etag') ?? '""'}</ETag></Part>`;
  const body = `<CompleteMultipartUpload>${listed}</CompleteMultipartUpload>`;
  const done = await client.post(key, { query: { uploadId }, body, headers });
  return [part.status, copied.status, done.status];
}

test('a policy that demands encryption lets the parts of an encrypted upload in', async () => {
  const encrypted = { '*-server-side-encryption': 'AES256' };
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/source', { body: 'copied' });
  const plain = await begin(client, {});
  const Condition = { Null: { 's3:x-amz-server-side-encryption': 'true' } };
  const demand = { Effect: 'Deny', Action: 's3:PutObject', Resource: objects, Condition } as const;
  expect((await client.put('/bucket?policy', { body: policyOf(demand) })).status).toBe(204);
  expect((await client.post(`${key}?uploads`)).status).toBe(403);
  expect(await outcomes(client, await begin(client, encrypted))).toEqual([200, 200, 200]);
  expect((await client.head(key)).header('*-server-side-encryption')).toBe('AES256');
  // An upload that began before the policy is refused, even if its parts have the encryption header.
  expect(await outcomes(client, plain)).toEqual([403, 403, 403]);
  expect(await outcomes(client, plain, encrypted)).toEqual([403, 403, 403]);
});

test('a policy that demands an ACL of other accounts lets the parts of their uploads in', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/source', { body: 'copied', headers: { '*-acl': 'public-read' } });
  const handedOver = { '*-acl': 'bucket-owner-full-control' };
  const Condition = { StringEquals: { 's3:x-amz-acl': 'bucket-owner-full-control' } };
  const grant = { Action: ['s3:PutObject', 's3:PutObjectAcl'], Resource: objects, Condition };
  expect((await client.put('/bucket?policy', { body: policyOf(grant) })).status).toBe(204);
  expect((await bob.post(`${key}?uploads`)).status).toBe(403);
  expect(await outcomes(bob, await begin(bob, handedOver))).toEqual([200, 200, 200]);
  // Alice's upload began without the ACL.
  const plain = await begin(client, {});
  expect(await outcomes(bob, plain)).toEqual([403, 403, 403]);
  expect(await outcomes(bob, plain, handedOver)).toEqual([403, 403, 403]);
});
