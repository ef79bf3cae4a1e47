/** The checksum header of CompleteMultipartUpload, as minio-go sends it. */
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';
import { complete, createUpload, digest64 } from '../support/gateway-bodies.ts';

const path = '/bucket/key';
const body = 'the only part';
const ofPart = digest64('sha256', body);
const ofParts = digest64('sha256', Buffer.from(ofPart, 'base64'));

test('is about the object, and not about the XML body', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const headers = { '*-checksum-algorithm': 'SHA256' };
  const uploadId = await createUpload(world.client, path, { headers });
  const query = { uploadId, partNumber: '1' };
  const put = await world.client.put(path, { query, body, headers: { '*-checksum-sha256': ofPart } });
  const more = `<ChecksumSHA256>${ofPart}</ChecksumSHA256>`;
  const parts = [{ number: 1, etag: put.header('etag') ?? '', more }];
  const completed = (sum: string) =>
    complete(world.client, path, { uploadId, parts, ask: { headers: { '*-checksum-sha256': sum } } });

  const wrong = await completed(digest64('sha256', 'another object'));
  expect([wrong.status, wrong.one('Code')]).toEqual([400, 'BadDigest']);
  const right = await completed(ofParts);
  expect([right.status, right.one('ChecksumSHA256')]).toEqual([200, `${ofParts}-1`]);
});
