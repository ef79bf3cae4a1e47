/** Websites: pages at their own hosts, and the index at the storage address. */
import { describe, expect, test } from 'vitest';
import { backends, type GatewayWorld, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { bytesOf, md5 } from '../support/gateway-bodies.ts';
import type { Answer, Ask } from '../support/gateway-client.ts';

const index = '<IndexDocument><Suffix>index.html</Suffix></IndexDocument>';
const errors = '<ErrorDocument><Key>oops.html</Key></ErrorDocument>';
const host = 'bucket.site.test';

interface Site extends GatewayWorldOptions {
  readonly configuration?: string;
  readonly pages?: Readonly<Record<string, string>>;
  /** The actions that every caller may use. Default: reading objects. */
  readonly actions?: readonly string[];
}

async function openSite({ configuration = index, pages = {}, actions, ...options }: Site = {}) {
  const world = await openGateway({
    ...options,
    settings: { SVC_WEBSITE_DOMAIN: 'site.test,web.example.com', SVC_DOMAIN: 'example.com' },
  });
  const { client } = world;
  await client.put('/bucket');
  for (const [key, body] of Object.entries(pages))
    await client.put(`/bucket/${key}`, { body, headers: { 'content-type': 'text/html' } });
  const body = `<WebsiteConfiguration>${configuration}</WebsiteConfiguration>`;
  if (configuration !== '') expect((await client.put('/bucket?website', { body })).status).toBe(200);
  const statement = {
    Effect: 'Allow',
    Principal: '*',
    Action: actions ?? ['s3:GetObject'],
    Resource: ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'],
  };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
  if (actions?.length !== 0) expect((await client.put('/bucket?policy', { body: policy })).status).toBe(204);
  return world;
}
const visit = (world: GatewayWorld, path: string, ask: Ask = {}, at = host): Promise<Answer> =>
  world.as({ anonymous: true, host: at }).get(path, ask);
const statusAndText = ({ status, text }: Answer) => [status, text];
const sent = (answer: Answer) => [answer.status, answer.header('location')];

describe.each(backends)('on %s', (backend) => {
  test('a website serves pages, the index of a directory, and a redirect to a directory without its slash', async () => {
    const pages = { 'index.html': 'root', 'a/index.html': 'in a', 'a/b.html': 'b', 'ü/index.html': 'in ü' };
    await using world = await openSite({ backend, pages });
    for (const [path, text] of [
      ['/', 'root'],
      ['/index.html', 'root'],
      ['/a/', 'in a'],
      ['/a/b.html', 'b'],
      ['/%C3%BC/', 'in ü'],
      ['/?utm=1&versionId=x&list-type=2', 'root'],
    ] as const)
      expect(statusAndText(await visit(world, path)), path).toEqual([200, text]);
    expect(sent(await visit(world, '/a'))).toEqual([302, `http://${host}/a/`]);
    expect(sent(await visit(world, '/%C3%BC'))).toEqual([302, `http://${host}/%C3%BC/`]);
    expect((await visit(world, '/a/b')).status).toBe(403);
    const head = await world.as({ anonymous: true, host }).head('/a/');
    expect([head.status, head.text, head.header('content-length'), head.header('content-type')]).toEqual([
      200,
      '',
      '4',
      'text/html',
    ]);
  });

  test('the error document has the status of the error', async () => {
    const pages = { 'index.html': 'root', 'oops.html': 'sorry' };
    await using world = await openSite({ backend, pages, configuration: index + errors });
    for (const path of ['/absent', '/absent/', '/a/b?x=y'])
      expect(statusAndText(await visit(world, path)), path).toEqual([403, 'sorry']);
    await using listed = await openSite({
      backend,
      pages,
      configuration: index + errors,
      actions: ['s3:GetObject', 's3:ListBucket'],
    });
    expect(statusAndText(await visit(listed, '/absent'))).toEqual([404, 'sorry']);
    const narrowed = { range: 'bytes=1-2', 'if-none-match': `"${md5('sorry')}"` };
    expect(statusAndText(await visit(listed, '/absent', { headers: narrowed }))).toEqual([404, 'sorry']);
    const head = await listed.as({ anonymous: true, host }).head('/absent');
    expect([head.status, head.text, head.header('content-length')]).toEqual([404, '', '5']);
  });

  test('ranges and conditions of a visitor hold as for GetObject', async () => {
    await using world = await openSite({
      backend,
      pages: { 'index.html': 'root' },
      configuration: index + errors,
    });
    const etag = `"${md5('root')}"`;
    const ranged = await visit(world, '/', { headers: { range: 'bytes=1-2' } });
    expect([...statusAndText(ranged), ranged.header('content-range')]).toEqual([206, 'oo', 'bytes 1-2/4']);
    expect((await visit(world, '/', { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await visit(world, '/', { headers: { 'if-match': '"x"' } })).status).toBe(412);
    expect((await visit(world, '/', { headers: { range: 'bytes=9-' } })).status).toBe(416);
    await world.client.put('/bucket/large', { body: bytesOf(300_000) });
    expect((await visit(world, '/large')).bytes).toHaveLength(300_000);
  });
});

test('without a page for errors, or with one that is not there, a visitor sees HTML in which nothing is live', async () => {
  for (const configuration of [index, index + errors]) {
    await using world = await openSite({ configuration, actions: ['s3:GetObject', 's3:ListBucket'] });
    const answer = await visit(world, '/%3Cscript%3Ealert(%22x%22)%3C/script%3E&');
    expect([answer.status, answer.header('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(answer.text).toMatch(/^<html>\n<head><title>404 Not Found<\/title><\/head>\n/);
    expect(answer.text).toContain(
      '<li>Code: NoSuchKey</li>\n<li>Message: The specified key does not exist.</li>',
    );
    expect(answer.text).toContain(`<li>RequestId: ${answer.header('x-amz-request-id')}</li>`);
    expect(answer.text).toContain('<li>Key: &lt;script');
    expect(answer.text).not.toContain('<script');
    expect(answer.header('x-amz-error-code')).toBe('NoSuchKey');
    const head = await world.as({ anonymous: true, host }).head('/absent');
    expect([head.status, head.text, head.header('x-amz-error-code')]).toEqual([404, '', 'NoSuchKey']);
  }
});

test('a website does not serve objects without public access, also to signed requests', async () => {
  const pages = { 'index.html': 'root', 'oops.html': 'sorry' };
  await using world = await openSite({ pages, actions: [], configuration: index + errors });
  const denied = await visit(world, '/');
  expect([denied.status, denied.header('x-amz-error-code')]).toEqual([403, 'AccessDenied']);
  const alice = world.as({ host });
  expect((await alice.get('/')).status).toBe(403);
  await using open = await openSite({ pages });
  expect(statusAndText(await open.as({ host }).get('/'))).toEqual([200, 'root']);
  const tampered = await open.as({ host }).get('/', { tamper: { signature: () => 'x' } });
  expect(statusAndText(tampered)).toEqual([200, 'root']);
});

test('a website is read and nothing else', async () => {
  await using world = await openSite({ pages: { 'index.html': 'root' }, actions: ['s3:*'] });
  for (const method of ['PUT', 'POST', 'DELETE', 'PATCH']) {
    const refused = await world.as({ host }).send(method, '/index.html', { body: 'x' });
    expect([method, refused.status, refused.header('allow')]).toEqual([method, 405, 'GET, HEAD']);
    expect(refused.text).toContain('<li>Code: MethodNotAllowed</li>');
  }
  expect(statusAndText(await visit(world, '/'))).toEqual([200, 'root']);
});

test('a website host without a bucket or a website is reported, and the longest domain is not a virtual host', async () => {
  await using world = await openSite({ configuration: '', pages: { 'index.html': 'root' } });
  for (const [at, code] of [
    [host, 'NoSuchWebsiteConfiguration'],
    ['absent.site.test', 'NoSuchBucket'],
    ['BUCKET.SITE.TEST.:8080', 'NoSuchWebsiteConfiguration'],
    ['bucket.web.example.com', 'NoSuchWebsiteConfiguration'],
  ] as const) {
    const answer = await visit(world, '/', {}, at);
    expect([answer.status, answer.header('x-amz-error-code')], at).toEqual([404, code]);
    expect(answer.text).toContain(`<li>Code: ${code}</li>`);
  }
  const virtual = await world.as({ host: 'bucket.example.com' }).get('/');
  expect([virtual.status, virtual.one('Name')]).toEqual([200, 'bucket']);
});

describe('a visitor is sent', () => {
  const rules = (...each: readonly string[]) =>
    `${index}<RoutingRules>${each.map((inner) => `<RoutingRule>${inner}</RoutingRule>`).join('')}</RoutingRules>`;

  test('elsewhere with everything, by the scheme that is named or the own', async () => {
    for (const [protocol, scheme] of [
      ['', 'http'],
      ['<Protocol>https</Protocol>', 'https'],
    ] as const) {
      const to = `<RedirectAllRequestsTo><HostName>new.test:8443</HostName>${protocol}</RedirectAllRequestsTo>`;
      await using world = await openSite({ configuration: to, pages: { a: 'x' } });
      expect(sent(await visit(world, '/'))).toEqual([301, `${scheme}://new.test:8443/`]);
      expect(sent(await visit(world, '/a/b%20c'))).toEqual([301, `${scheme}://new.test:8443/a/b%20c`]);
    }
  });

  test('by rules of keys and errors', async () => {
    const configuration = rules(
      '<Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect>',
      '<Condition><KeyPrefixEquals>img/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><HostName>resize.test</HostName><Protocol>https</Protocol><ReplaceKeyPrefixWith>run?key=</ReplaceKeyPrefixWith><HttpRedirectCode>307</HttpRedirectCode></Redirect>',
      '<Condition><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><ReplaceKeyWith>lost.html</ReplaceKeyWith></Redirect>',
    );
    await using world = await openSite({
      configuration,
      pages: { 'img/a': 'a', 'dir/index.html': 'd', 'old/x': 'x' },
      actions: ['s3:GetObject', 's3:ListBucket'],
    });
    expect(sent(await visit(world, '/old/x'))).toEqual([301, `http://${host}/new/x`]);
    expect(statusAndText(await visit(world, '/img/a'))).toEqual([200, 'a']);
    expect(sent(await visit(world, '/img/b%3Fc'))).toEqual([307, 'https://resize.test/run?key=b%3Fc']);
    expect(sent(await visit(world, '/absent'))).toEqual([301, `http://${host}/lost.html`]);
    expect(sent(await visit(world, '/dir'))).toEqual([302, `http://${host}/dir/`]);
  });

  test('by a page that says so, at the host of the site alone', async () => {
    await using world = await openSite({ actions: ['s3:GetObject', 's3:ListBucket'] });
    for (const location of ['/other', 'https://new.test/a?b']) {
      const headers = { '*-website-redirect-location': location };
      await world.client.put('/bucket/index.html', { body: 'moved', headers });
      const answer = await visit(world, '/', { headers: { 'if-none-match': '*' } });
      expect([...sent(answer), answer.text]).toEqual([301, location, '']);
      expect(statusAndText(await world.anonymous.get('/bucket/'))).toEqual([200, 'moved']);
    }
  });

  test('to no other host and with no other header by what the address says', async () => {
    await using world = await openSite({
      configuration: rules(
        '<Condition><KeyPrefixEquals>r</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith>s&#10;é </ReplaceKeyPrefixWith></Redirect>',
      ),
      pages: { '%2Fevil.test/index.html': 'x' },
    });
    expect(sent(await visit(world, '//evil.test'))).toEqual([302, `http://${host}//evil.test/`]);
    const [status, location] = sent(await visit(world, '/r%0d%0aSet-Cookie:%20a'));
    expect([status, location]).toEqual([301, `http://${host}/s%0A%C3%A9%20%0D%0ASet-Cookie%3A%20a`]);
  });
});

describe('at the storage address', () => {
  test('anonymous browsers get the index of a bucket or a directory', async () => {
    await using world = await openSite({
      pages: { 'index.html': 'root', 'a/index.html': 'in a' },
      actions: ['s3:GetObject', 's3:ListBucket'],
    });
    for (const [path, text] of [
      ['/bucket', 'root'],
      ['/bucket/', 'root'],
      ['/bucket/a/', 'in a'],
    ] as const) {
      const answer = await world.anonymous.get(path);
      expect([...statusAndText(answer), answer.header('content-type')], path).toEqual([
        200,
        text,
        'text/html',
      ]);
    }
    expect(statusAndText(await visit(world, '/', {}, 'bucket.example.com'))).toEqual([200, 'root']);
    const absent = await world.anonymous.get('/bucket/b/');
    expect([absent.status, absent.code, absent.one('Key')]).toEqual([404, 'NoSuchKey', 'b/index.html']);
  });

  test('signed requests, requests with parameters and buckets without an index get the storage answer', async () => {
    await using world = await openSite({
      pages: { 'index.html': 'root', 'a/': 'marker' },
      actions: ['s3:GetObject', 's3:ListBucket'],
    });
    expect((await world.client.get('/bucket')).one('Name')).toBe('bucket');
    expect((await world.client.get('/bucket/a/')).text).toBe('marker');
    expect((await world.anonymous.get('/bucket?prefix=')).one('Name')).toBe('bucket');
    expect((await world.anonymous.head('/bucket')).header('x-amz-bucket-region')).toBeDefined();
    expect((await world.anonymous.get('/bucket/a')).code).toBe('NoSuchKey');
    await using elsewhere = await openSite({
      configuration: '<RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo>',
      actions: ['s3:ListBucket'],
    });
    expect((await elsewhere.anonymous.get('/bucket')).one('Name')).toBe('bucket');
  });

  test('an index without public access is refused', async () => {
    await using world = await openSite({ pages: { 'index.html': 'root' }, actions: ['s3:ListBucket'] });
    expect((await world.anonymous.get('/bucket')).code).toBe('AccessDenied');
  });
});

test('pages of a website can be read across origins, and their preflights are answered', async () => {
  await using world = await openSite({ pages: { 'index.html': 'root' } });
  const rule =
    '<CORSRule><AllowedOrigin>https://app.test</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>';
  await world.client.put('/bucket?cors', { body: `<CORSConfiguration>${rule}</CORSConfiguration>` });
  const headers = { origin: 'https://app.test' };
  for (const path of ['/', '/absent'])
    expect((await visit(world, path, { headers })).header('access-control-allow-origin')).toBe(
      'https://app.test',
    );
  const asked = { ...headers, 'access-control-request-method': 'GET' };
  const preflight = await world.as({ anonymous: true, host }).send('OPTIONS', '/', { headers: asked });
  expect([preflight.status, preflight.header('access-control-allow-origin')]).toEqual([
    200,
    'https://app.test',
  ]);
});
