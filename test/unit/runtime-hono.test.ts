/** The example of the documentation works: a store, a path and a host beside an application's own pages. */
import { expect, test } from 'vitest';
import { application } from '../../examples/hono.ts';
import { type RequestSpec, signer, toRequest } from '../support/sign.ts';

const alice = { accessKey: 'ALICEACCESSKEY', secretKey: 'alice-secret-key', owner: 'alice' };
const app = await application([alice], 's3.example.com');

/** Through the path, unless the spec names another host. */
const send = (spec: RequestSpec): Response | Promise<Response> =>
  app.request(toRequest(signer({ ...alice, host: 'app.example.com' }).request(spec)));

test('a bucket made under the path is served under the host, and as a host of its own', async () => {
  expect((await send({ method: 'PUT', path: '/s3/photos' })).status).toBe(200);
  const put = await send({ method: 'PUT', path: '/s3/photos/a/cat', body: 'meow', payload: 'streaming' });
  expect(put.status).toBe(200);
  expect(await (await send({ path: '/s3/photos/a/cat' })).text()).toBe('meow');
  expect(await (await send({ path: '/photos/a/cat', host: 's3.example.com' })).text()).toBe('meow');
  expect(await (await send({ path: '/a/cat', host: 'photos.s3.example.com' })).text()).toBe('meow');
  const head = await send({ method: 'HEAD', path: '/s3/photos/a/cat' });
  expect([head.status, head.headers.get('content-length')]).toEqual([200, '4']);
});

test('the mount point itself is the service', async () => {
  expect(await (await send({ path: '/s3' })).text()).toContain('<ListAllMyBucketsResult');
});

test('the application keeps its own pages', async () => {
  expect(await (await app.request('http://app.example.com/')).text()).toBe('the application’s own page');
  expect((await app.request('http://app.example.com/photos/a/cat')).status).toBe(404);
});

test('a signature that leaves the mount point out is refused', async () => {
  const signed = signer({ ...alice, host: 'app.example.com' }).request({ path: '/photos/a/cat' });
  const refused = await app.request(toRequest({ ...signed, target: '/s3/photos/a/cat' }));
  expect(refused.status).toBe(403);
  expect(await refused.text()).toContain('<Code>SignatureDoesNotMatch</Code>');
});
