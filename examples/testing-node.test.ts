/** Tests an application that stores pictures in S3: with the test runner of Node, and a server of `sluice/testing`. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { S3Client } from '@aws-sdk/client-s3';
import { startTestServer, type TestServer } from 'sluice/testing';
import { findAvatar, linkToAvatar, saveAvatar } from './avatars.ts';

let s3: TestServer;
let client: S3Client;

before(async () => {
  s3 = await startTestServer({ seed: { avatars: { 'bob.png': 'old picture' } } });
  client = new S3Client(s3.clientOptions);
});
beforeEach(() => s3.reset());
after(() => s3.close());

test('an upload is tried again when the service asks to slow down', async () => {
  s3.fail({ next: 'SlowDown', count: 1, operation: 'PutObject' });
  await saveAvatar(client, 'ann', 'picture');
  assert.deepEqual(
    s3.requests.map(({ code }) => code),
    ['SlowDown', undefined],
  );
  assert.equal(await findAvatar(client, 'ann'), 'picture');
});

test('a link ends after an hour', async () => {
  const link = await linkToAvatar(client, 'bob');
  assert.equal(await (await fetch(link)).text(), 'old picture');
  await s3.clock.advance('61 minutes');
  assert.equal((await fetch(link)).status, 403);
});
