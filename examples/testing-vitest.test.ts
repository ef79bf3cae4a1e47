/** Tests an application that stores pictures in S3: with vitest, and a server of `sluice/testing`. */
import { S3Client } from '@aws-sdk/client-s3';
import { startTestServer, type TestServer } from 'sluice/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { findAvatar, linkToAvatar, saveAvatar } from './avatars.ts';

let s3: TestServer;
let client: S3Client;

beforeAll(async () => {
  s3 = await startTestServer({ seed: { avatars: { 'bob.png': 'old picture' } } });
  client = new S3Client(s3.clientOptions);
});
beforeEach(() => s3.reset());
afterAll(() => s3.close());

test('an upload is tried again when the service asks to slow down', async () => {
  s3.fail({ next: 'SlowDown', count: 1, operation: 'PutObject' });
  await saveAvatar(client, 'ann', 'picture');
  expect(s3.requests.map(({ code }) => code)).toEqual(['SlowDown', undefined]);
  expect(await findAvatar(client, 'ann')).toBe('picture');
});

test('a picture that does not exist is undefined, and another failure is an error', async () => {
  expect(await findAvatar(client, 'carol')).toBeUndefined();
  s3.fail({ next: 'AccessDenied' });
  await expect(findAvatar(client, 'bob')).rejects.toThrow('Access Denied');
});

test('a link ends after an hour', async () => {
  const link = await linkToAvatar(client, 'bob');
  expect(await (await fetch(link)).text()).toBe('old picture');
  await s3.clock.advance('61 minutes');
  expect((await fetch(link)).status).toBe(403);
});

test('a new picture is announced', async () => {
  await saveAvatar(client, 'ann', 'picture');
  expect(s3.events).toMatchObject([{ eventName: 'ObjectCreated:Put', s3: { object: { key: 'ann.png' } } }]);
});
