/** The AWS CLI with its default settings on CORS and websites. */
import { get, type IncomingHttpHeaders } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AwsCli, openAwsCli } from './drivers.ts';
import { websiteDomain } from './world.ts';

let cli: AwsCli;
beforeAll(async () => {
  cli = await openAwsCli();
});
afterAll(() => cli?.world.stop());

interface Page {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends the GET of a browser whose DNS resolves every website host to the server. */
const visit = (url: string, host: string): Promise<Page> =>
  new Promise((resolve, reject) => {
    get(url, { headers: { host } }, async (reply) => {
      const body = Buffer.concat(await reply.toArray());
      resolve({ status: reply.statusCode, headers: reply.headers, body });
    }).on('error', reject);
  });

test('CORS rules are put, returned and deleted', async () => {
  await cli.aws('s3', 'mb', 's3://cli-cors');
  const api = cli.apiOf('cli-cors');
  const rules = { CORSRules: [{ AllowedMethods: ['GET', 'PUT'], AllowedOrigins: ['*'], MaxAgeSeconds: 9 }] };
  await api('put-bucket-cors', '--cors-configuration', JSON.stringify(rules));
  expect(await api('get-bucket-cors')).toEqual(rules);
  await api('delete-bucket-cors');
  await expect(api('get-bucket-cors')).rejects.toThrow('NoSuchCORSConfiguration');
});

test('`s3 website` makes a bucket a site that is visited', async () => {
  const { aws, world } = cli;
  await aws('s3', 'mb', 's3://cli-site');
  await aws(
    's3',
    'website',
    's3://cli-site',
    '--index-document',
    'index.html',
    '--error-document',
    'oops.html',
  );
  const page = world.file('index.html', 2_000);
  await aws(
    's3',
    'cp',
    page.path,
    's3://cli-site/docs/index.html',
    '--acl',
    'public-read',
    '--content-type',
    'text/html',
  );
  const host = `cli-site.${websiteDomain}`;
  const shown = await visit(`${world.url}/docs/`, host);
  expect([shown.status, shown.headers['content-type'], shown.body.equals(page.bytes)]).toEqual([
    200,
    'text/html',
    true,
  ]);
  const moved = await visit(`${world.url}/docs`, host);
  expect([moved.status, moved.headers['location']]).toEqual([302, `http://${host}/docs/`]);
  const denied = await visit(`${world.url}/absent`, host);
  expect([denied.status, denied.body.toString().startsWith('<html>')]).toEqual([403, true]);
});
