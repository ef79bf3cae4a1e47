/** The server of `sluice/testing` in front of boto3, by the line that the server gives. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startTestServer } from '../../src/runtime/testing/test-server.ts';
import { installed } from './installed.ts';

const run = promisify(execFile);

test('boto3 retries a fault, and its links end with the clock of the test', async () => {
  await using s3 = await startTestServer({ seed: { photos: { cat: 'meow' } } });
  s3.fail({ next: 'SlowDown', count: 1 });
  const program = [
    'import boto3, botocore.config',
    `client = ${s3.boto3}`,
    'print(client.get_object(Bucket="photos", Key="cat")["Body"].read().decode())',
    'print(client.generate_presigned_url("get_object", Params={"Bucket": "photos", "Key": "cat"}, ExpiresIn=60))',
  ].join('\n');
  const { stdout } = await run(installed('python'), ['-c', program]);
  const [body, link = ''] = stdout.trim().split('\n');
  expect(body).toBe('meow');
  expect(s3.requests.map(({ code }) => code)).toEqual(['SlowDown', undefined]);
  expect((await fetch(link)).status).toBe(200);
  await s3.clock.advance('2 minutes');
  expect((await fetch(link)).status).toBe(403);
});
