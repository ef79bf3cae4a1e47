/** The area /console/: the page, its assets, its headers, and CORS for a console of another origin. */
import { describe, expect, test } from 'vitest';
import type { ConsoleAssets } from '../../src/ports/console-assets.ts';
import { openGateway, operator } from '../support/gateway.ts';

const script = new TextEncoder().encode('export {}');
const consoleAssets: ConsoleAssets = {
  page: async () => '<script nonce="{nonce}" src="{base}/console/assets/a-1.js"></script><i>{storage}</i>',
  read: async (name, { gzip }) =>
    name === 'a-1.js' ? { bytes: script, ...(gzip ? { encoding: 'gzip' as const } : {}) } : undefined,
};
const open = (options: Parameters<typeof openGateway>[0] = {}) =>
  openGateway({ ...options, wrap: (context) => ({ ...context, consoleAssets }) });

const directive = (policy: string | undefined, name: string): string =>
  policy?.split('; ').find((each) => each.startsWith(`${name} `)) ?? '';

describe('the console', () => {
  test('answers every address below /console/ with one page, whose scripts run by a nonce of the reply', async () => {
    await using world = await open();
    const nonces = new Set<string>();
    for (const path of [
      '/console/',
      '/console/storage',
      '/console/buckets/b/objects/a/%2e%2e/%20',
      '/console/x?y=1',
    ]) {
      const { status, text, header } = await world.anonymous.get(path);
      expect([path, status, header('content-type')]).toEqual([path, 200, 'text/html; charset=utf-8']);
      const nonce = /nonce="([^"]+)"/.exec(text)?.[1] ?? '';
      nonces.add(nonce);
      const policy = header('content-security-policy');
      expect(directive(policy, 'script-src')).toBe(`script-src 'nonce-${nonce}' 'strict-dynamic'`);
      for (const part of [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "trusted-types 'none'",
      ])
        expect(policy).toContain(part);
      expect(policy).not.toContain('unsafe');
      expect([header('x-frame-options'), header('referrer-policy'), header('cache-control')]).toEqual([
        'DENY',
        'no-referrer',
        'no-store',
      ]);
    }
    expect(nonces.size).toBe(4);
  });

  test('serves assets for a year, compressed where the client says so, and no other name', async () => {
    await using world = await open();
    const plain = await world.anonymous.get('/console/assets/a-1.js', {
      headers: { 'accept-encoding': 'gzip;q=0, br' },
    });
    expect([plain.status, plain.text, plain.header('content-encoding')]).toEqual([
      200,
      'export {}',
      undefined,
    ]);
    expect(plain.header('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(plain.header('content-type')).toBe('text/javascript; charset=utf-8');
    const zipped = await world.anonymous.get('/console/assets/a-1.js', {
      headers: { 'accept-encoding': 'br, gzip' },
    });
    expect([zipped.header('content-encoding'), zipped.header('vary')]).toEqual(['gzip', 'Accept-Encoding']);
    for (const name of ['a-2.js', '..%2fpage.html', '../page.html', 'page.html', 'a-1.js/', ''])
      expect([name, (await world.anonymous.get(`/console/assets/${name}`)).status]).toEqual([name, 404]);
  });

  test('has no method but GET and HEAD, and redirects addresses without a page of their own', async () => {
    await using world = await open({ basePath: '/s3' });
    for (const method of ['PUT', 'POST', 'DELETE'])
      expect((await world.anonymous.send(method, '/s3/console/storage')).status).toBe(405);
    expect((await world.anonymous.head('/s3/console/')).status).toBe(200);
    const bare = await world.anonymous.get('/s3/console');
    expect([bare.status, bare.header('location')]).toEqual([302, '/s3/console/']);
    const billing = await world.anonymous.get('/s3/iam/users/a%2Fb/billing');
    expect([billing.status, billing.header('location')]).toEqual([
      302,
      '/s3/console/iam/users/a%2Fb/billing',
    ]);
    expect((await world.anonymous.get('/s3/console/')).text).toContain('src="/s3/console/assets/a-1.js"');
  });

  test('is no name of a bucket, so no stored object has the address of an asset', async () => {
    await using world = await open();
    expect((await world.client.put('/console')).status).toBe(405);
    expect((await world.client.put('/console/assets/a-1.js', { body: 'alert(1)' })).status).toBe(405);
    const hosted = await open({ settings: { SVC_DOMAIN: 's3.example.com' } });
    const made = await hosted.client.send('PUT', '/', { host: 'console.s3.example.com' });
    expect([made.status, made.text]).toEqual([400, expect.stringContaining('InvalidBucketName')]);
    await hosted.close();
  });

  test('says why where its files are missing', async () => {
    await using world = await openGateway({
      wrap: (context) => ({
        ...context,
        consoleAssets: { page: async () => undefined, read: async () => undefined },
      }),
    });
    const { status, text } = await world.anonymous.get('/console/');
    expect([status, text]).toEqual([404, expect.stringContaining('build:console')]);
  });

  test('names the storage protocol in its policy where that has another address', async () => {
    await using stated = await open({ settings: { SVC_CONSOLE_STORAGE_URL: 'https://S3.example.com:443' } });
    const page = await stated.anonymous.get('/console/');
    expect(page.text).toContain('<i>https://s3.example.com</i>');
    expect(directive(page.header('content-security-policy'), 'connect-src')).toBe(
      "connect-src 'self' https://s3.example.com",
    );
    await using apart = await open({
      settings: { SVC_LISTEN: '0.0.0.0:9000', SVC_ADMIN_LISTEN: '0.0.0.0:9001' },
    });
    const derived = await apart.anonymous.get('/console/', { host: 'gateway.example.com:9001' });
    expect(derived.text).toContain('<i>http://gateway.example.com:9000</i>');
    const hostile = await apart.anonymous.get('/console/', { host: 'x; script-src *' });
    expect(hostile.header('content-security-policy')).not.toContain('*');
  });
});

describe('CORS for the console', () => {
  const settings = { SVC_ADMIN_LISTEN: '127.0.0.1:9001', SVC_CONSOLE_ORIGINS: 'https://console.example.com' };
  const origins = ['https://console.example.com', 'http://gateway.example.com:9001'];
  const host = 'gateway.example.com:9000';
  const asking = (origin: string, headers = 'authorization,x-amz-date') => ({
    host,
    headers: {
      origin,
      'access-control-request-method': 'PUT',
      ...(headers === '' ? {} : { 'access-control-request-headers': headers }),
    },
  });

  test('answers preflights of signed requests from the origin of the console alone, without cookies', async () => {
    await using world = await open({ settings });
    for (const origin of origins) {
      const { status, header } = await world.anonymous.send('OPTIONS', '/no-such-bucket/key', asking(origin));
      expect([status, header('access-control-allow-origin')]).toEqual([204, origin]);
      expect(header('access-control-allow-headers')).toBe('authorization, x-amz-date');
      expect(header('access-control-allow-credentials')).toBeUndefined();
      const presigned = '/no-such-bucket/key?X-Amz-Signature=0';
      expect((await world.anonymous.send('OPTIONS', presigned, asking(origin, ''))).status).toBe(204);
      expect((await world.anonymous.send('OPTIONS', '/no-such-bucket/key', asking(origin, ''))).status).toBe(
        403,
      );
    }
    for (const origin of [
      'http://gateway.example.com:9002',
      'https://gateway.example.com:9001',
      'http://evil.example:9001',
      'null',
    ])
      expect((await world.anonymous.send('OPTIONS', '/no-such-bucket/key', asking(origin))).status).toBe(403);
  });

  test('lets it read replies and refusals of signed requests, and no others', async () => {
    await using world = await open({ settings });
    await world.client.put('/bucket');
    const from = (origin: string) => ({ host, headers: { origin } });
    for (const origin of origins)
      for (const path of ['/', '/bucket', '/bucket/missing', '/missing']) {
        const { header } = await world.client.get(path, from(origin));
        expect([
          path,
          header('access-control-allow-origin'),
          header('access-control-expose-headers'),
        ]).toEqual([path, origin, '*']);
        const anonymous = await world.anonymous.get(path, from(origin));
        expect(anonymous.header('access-control-allow-origin')).toBeUndefined();
      }
    const other = await world.client.get('/bucket', from('http://evil.example'));
    expect(other.header('access-control-allow-origin')).toBeUndefined();
    const admin = await world.as({ credential: operator }).get('/admin/v1/session', from(origins[0] ?? ''));
    expect([admin.status, admin.header('access-control-allow-origin')]).toEqual([200, undefined]);
  });
});
