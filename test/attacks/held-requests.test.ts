/** A request is authorized, its body is held back while buckets and policies change, and then arrives. */
import { describe, expect, test } from 'vitest';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { aclXml, everyone, grantsIn, policyOf } from '../support/access.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { completion, createUpload, deletion, setVersioning, versioning } from '../support/gateway-bodies.ts';
import { whileHeld } from '../support/held-body.ts';

const tagging = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
const encryption =
  '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>';

/** Requests with a body to `/bucket`, and the state that they need. */
const requests: Readonly<
  Record<string, (upload: string) => readonly [method: string, path: string, body: string]>
> = {
  PutBucketVersioning: () => ['PUT', '/bucket?versioning', versioning('Suspended')],
  DeleteBucket: () => ['DELETE', '/bucket', ' '],
  PutBucketAcl: () => ['PUT', '/bucket?acl', aclXml('alice-account', `${everyone} WRITE`)],
  PutBucketPolicy: () => [
    'PUT',
    '/bucket?policy',
    policyOf({ Action: 's3:*', Resource: ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'] }),
  ],
  PutBucketTagging: () => ['PUT', '/bucket?tagging', tagging],
  PutBucketEncryption: () => ['PUT', '/bucket?encryption', encryption],
  PutObject: () => ['PUT', '/bucket/key', 'content of alice'],
  PutObjectTagging: () => ['PUT', '/bucket/key?tagging', tagging],
  PutObjectAcl: () => ['PUT', '/bucket/key?acl', aclXml('alice-account', `${everyone} READ`)],
  DeleteObjects: () => ['POST', '/bucket?delete', deletion(['key'])],
  UploadPart: (upload) => ['PUT', `/bucket/key?partNumber=1&uploadId=${upload}`, 'part'],
  CompleteMultipartUpload: (upload) => [
    'POST',
    `/bucket/key?uploadId=${upload}`,
    completion([{ number: 1, etag: 'x' }]),
  ],
};

/** Everything that a request of another account could have changed. */
async function stateOf({ context, bob }: GatewayWorld) {
  const found = await findBucket(context.metadata, 'bucket');
  return {
    revision: found?.revision,
    row: found?.row,
    versions: (await bob.get('/bucket?versions')).all('VersionId'),
    grants: grantsIn(await bob.get('/bucket/key?acl')),
    tags: (await bob.get('/bucket/key?tagging')).all('Key'),
    uploads: (await bob.get('/bucket?uploads')).all('UploadId'),
  };
}

describe.each(backends)('on %s', (backend) => {
  test.each(Object.entries(requests))(
    'a held %s changes nothing in a bucket that another account made under the same name',
    async (_, requestOf) => {
      await using world = await openGateway({ backend });
      const { client, bob } = world;
      await client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
      await client.put('/bucket/key', { body: 'content' });
      const [method, path, body] = requestOf(await createUpload(client, '/bucket/key'));
      if (method === 'DELETE') await client.delete('/bucket/key');
      let before: unknown;
      const answer = await whileHeld(client, { method, path, ask: { body } }, async () => {
        await client.delete('/bucket/key');
        expect((await client.delete('/bucket')).status).toBe(204);
        expect((await bob.put('/bucket')).status).toBe(200);
        // For DeleteBucket the new bucket stays empty, so that a wrong authorization would delete it.
        if (method !== 'DELETE') {
          await setVersioning(bob, 'bucket', 'Enabled');
          await bob.put('/bucket/key', { body: 'content of bob' });
        }
        before = await stateOf(world);
      });
      expect([403, 404], answer.text).toContain(answer.status);
      expect(await stateOf(world)).toEqual(before);
    },
  );
});
