/** The AWS SDK for JavaScript with its default settings on features for browsers; `fetch` with a FormData stands in for a browser. */
import {
  CreateBucketCommand,
  DeleteBucketWebsiteCommand,
  GetBucketCorsCommand,
  GetBucketWebsiteCommand,
  GetObjectCommand,
  PutBucketCorsCommand,
  PutBucketWebsiteCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signForm } from '../support/post-form.ts';
import { openSdk, type Sdk } from './drivers.ts';

let sdk: Sdk;
beforeAll(async () => {
  sdk = await openSdk();
});
afterAll(() => sdk?.stop());

const origin = 'https://app.example';
const formOf = (fields: Readonly<Record<string, string>>, file: Blob, name: string): FormData => {
  const form = new FormData();
  for (const [field, value] of Object.entries(fields)) form.append(field, value);
  form.append('file', file, name);
  form.append('submit', 'Send');
  return form;
};

test('a page of an allowed origin uploads a FormData that somebody signed', async () => {
  const { client, world } = sdk;
  const Bucket = 'sdk-form';
  await client.send(new CreateBucketCommand({ Bucket }));
  const CORSRules = [{ AllowedMethods: ['POST'], AllowedOrigins: [origin], ExposeHeaders: ['ETag'] }];
  await client.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules } }));
  expect((await client.send(new GetBucketCorsCommand({ Bucket }))).CORSRules).toEqual(CORSRules);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the variable of a POST form.
  const key = 'up/${filename}';
  const { user, url } = world;
  // In the form of the SDK's createPresignedPost: capitalised names, and the bucket as a field.
  const signed = Object.entries(
    signForm(user, {
      conditions: [
        { bucket: Bucket },
        ['starts-with', '$key', 'up/'],
        ['content-length-range', 1, 5_000_000],
      ],
    }),
  ).map(([name, value]) => [name.replace(/\b[a-z]/g, (letter) => letter.toUpperCase()), value]);
  const fields = { bucket: Bucket, key, ...Object.fromEntries(signed) };
  const post = (file: Blob, name: string, more: Readonly<Record<string, string>> = {}) =>
    fetch(`${url}/${Bucket}`, {
      method: 'POST',
      body: formOf({ ...fields, ...more }, file, name),
      headers: { origin },
    });
  const content = new Blob(['x'.repeat(1_000_000), '\r\n--', 'y'.repeat(1_000_000)]);
  const taken = await post(content, 'größe.bin');
  expect([taken.status, taken.headers.get('access-control-allow-origin')]).toEqual([204, origin]);
  const got = await client.send(new GetObjectCommand({ Bucket, Key: 'up/größe.bin' }));
  expect(await got.Body?.transformToString()).toBe(await content.text());
  for (const [file, more] of [
    [new Blob([]), {}],
    [new Blob(['x']), { acl: 'public-read' }],
  ] as const) {
    const refused = await post(file, 'b', more);
    expect([refused.ok, refused.headers.get('access-control-allow-origin')]).toEqual([false, origin]);
  }
});

test('a website configuration is put, returned and deleted', async () => {
  const { client } = sdk;
  const Bucket = 'sdk-site';
  await client.send(new CreateBucketCommand({ Bucket }));
  const WebsiteConfiguration = {
    IndexDocument: { Suffix: 'index.html' },
    RoutingRules: [
      { Condition: { HttpErrorCodeReturnedEquals: '404' }, Redirect: { ReplaceKeyWith: 'lost' } },
    ],
  };
  await client.send(new PutBucketWebsiteCommand({ Bucket, WebsiteConfiguration }));
  expect(await client.send(new GetBucketWebsiteCommand({ Bucket }))).toMatchObject(WebsiteConfiguration);
  await client.send(new DeleteBucketWebsiteCommand({ Bucket }));
  await expect(client.send(new GetBucketWebsiteCommand({ Bucket }))).rejects.toMatchObject({
    name: 'NoSuchWebsiteConfiguration',
  });
});
