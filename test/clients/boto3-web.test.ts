/** boto3 with its default settings on features for browsers: POST forms, CORS, websites. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Boto, openBoto } from './drivers.ts';
import { websiteDomain } from './world.ts';

let boto: Boto;
beforeAll(async () => {
  boto = await openBoto('boto3-web.py');
});
afterAll(() => boto?.world.stop());

const version2 = ['signature'];
const version4 = ['x-amz-signature'];
test.each([
  ['default', expect.toSatisfy((names) => [`${version2}`, `${version4}`].includes(`${names}`))],
  ['s3', version2],
  ['s3v4', version4],
])(
  'a form that generate_presigned_post signs (%s) uploads, and not when it is changed',
  async (version, signature) => {
    expect(await boto.step('form', version)).toEqual({
      signature,
      status: 201,
      key: true,
      body: 'hello',
      type: 'text/plain',
      metadata: { colour: 'blue' },
      refused: [403, 403],
      lengths: [400, 400],
      keys: 1,
    });
  },
);

test('a form redirects to the address in its policy', async () => {
  const etag = '%225d41402abc4b2a76b9719d911017c592%22';
  const location = `https://app.example/done?from=form&bucket=boto-redirect&key=k&etag=${etag}`;
  expect(await boto.step('redirect')).toEqual([303, location]);
});

test('a page of an allowed origin may put to a presigned URL', async () => {
  expect(await boto.step('cors')).toEqual({
    told: true,
    preflight: [200, 'content-type'],
    put: [200, 'https://app.example'],
    refused: [403, 403],
  });
});

test('a website that was put is visited', async () => {
  const host = `boto-site.${websiteDomain}`;
  expect(await boto.step('website', websiteDomain)).toEqual({
    told: true,
    pages: [
      [200, 'index.html'],
      [200, 'a/index.html'],
      [403, 'oops.html'],
    ],
    moved: [
      [302, `http://${host}/a/`],
      [301, `http://${host}/new/x`],
    ],
  });
});
