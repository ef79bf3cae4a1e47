/** What the content security policy of the console keeps out, in a browser that enforces it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { send } from './seeds.ts';
import { fillLogin, noChromium, openConsole, settled } from './world.ts';

const publicRead = (bucket: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` },
    ],
  });

/** Each tries to run the stored script, or to apply the stored style, in the page. */
const attempts = {
  'a script element': `{ const s = document.createElement('script'); s.src = '/evil/x.js'; document.head.append(s); }`,
  'a module script': `{ const s = document.createElement('script'); s.type = 'module'; s.src = '/evil/x.js'; document.head.append(s); }`,
  'an attribute': `{ const s = document.createElement('script'); s.setAttribute('src', '/evil/x.js'); document.head.append(s); }`,
  'an inline script': `{ const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.head.append(s); }`,
  'an event handler': `{ const i = document.createElement('img'); i.setAttribute('onerror', 'window.hacked = 1'); i.src = '/evil/none'; document.body.append(i); }`,
  markup: `document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hacked = 1">')`,
  'a worker': `new Worker('/evil/x.js')`,
  'a service worker': `navigator.serviceWorker.register('/evil/x.js')`,
  'a style sheet': `{ const l = document.createElement('link'); l.rel = 'stylesheet'; l.href = '/evil/x.css'; document.head.append(l); }`,
  'a frame with a script': `{ const f = document.createElement('iframe'); f.setAttribute('srcdoc', '<script>parent.hacked = 1</script>'); document.body.append(f); }`,
  'an address': `{ const a = document.createElement('a'); a.href = 'javascript:window.hacked = 1'; document.body.append(a); a.click(); }`,
  'a base': `{ const b = document.createElement('base'); b.href = 'http://evil.example/'; document.head.append(b); }`,
} as const;

describe.skipIf(noChromium !== undefined)('the policy of the console', () => {
  test('runs no script and applies no style that a tenant stored on the same origin', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/evil');
    await send(world.server, 'PUT', '/evil/x.js', {
      body: 'self.hacked = 1',
      headers: { 'content-type': 'text/javascript' },
    });
    await send(world.server, 'PUT', '/evil/x.css', {
      body: 'body { outline: 7px solid red }',
      headers: { 'content-type': 'text/css' },
    });
    await send(world.server, 'DELETE', '/evil', { query: { publicAccessBlock: '' } }).catch(() => {});
    await send(world.server, 'PUT', '/evil', { body: publicRead('evil'), query: { policy: '' } });
    expect((await fetch(`${world.server.url}/evil/x.js`)).headers.get('content-type')).toBe(
      'text/javascript',
    );
    for (const [name, code] of Object.entries(attempts)) {
      await using tab = await world.open('/');
      const { page } = tab;
      await page.evaluate(code).catch(() => {});
      await page.waitForTimeout(300);
      const seen = await page.evaluate(() => [
        'hacked' in globalThis,
        getComputedStyle(document.body).outlineWidth === '7px',
        document.baseURI.startsWith('http://evil.example'),
      ]);
      expect([name, ...seen]).toEqual([name, false, false, false]);
      // The browser reports what it kept out.
      tab.problems.length = 0;
    }
  });

  test('lets no other page frame the console, nor use its cookie', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { url } = world.server;
    const page = `<iframe src="${url}/console/"></iframe><form method=post action="${url}/admin/v1/session"></form>`;
    const other = createServer((_, reply) => reply.setHeader('content-type', 'text/html').end(page));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const foreign = await tab.context.newPage();
    await foreign.goto(`http://localhost:${(other.address() as AddressInfo).port}/`);
    await foreign.waitForTimeout(500);
    const frame = foreign.frames()[1];
    expect(await frame?.evaluate(() => document.querySelector('#app') !== null).catch(() => false)).toBe(
      false,
    );
    const answer = await foreign.evaluate(
      (to) =>
        fetch(`${to}/admin/v1/clusters`, { credentials: 'include', mode: 'no-cors' }).then(
          ({ status }) => status,
        ),
      url,
    );
    expect(answer).toBe(0);
    await new Promise((resolve) => other.close(resolve));
  });

  test('no text becomes markup, and no script makes a policy that would let it', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const refused = await tab.page.evaluate(() => {
      const attempts: Readonly<Record<string, () => unknown>> = {
        innerHTML: () => Object.assign(document.createElement('div'), { innerHTML: '<b>x</b>' }),
        outerHTML: () =>
          Object.assign(document.body.appendChild(document.createElement('i')), { outerHTML: '<b></b>' }),
        DOMParser: () => new DOMParser().parseFromString('<b>x</b>', 'text/html'),
        write: () => document.write('<b>x</b>'),
        range: () => document.createRange().createContextualFragment('<b>x</b>'),
        policy: () =>
          (
            globalThis as unknown as { trustedTypes: { createPolicy(name: string, rules: object): unknown } }
          ).trustedTypes.createPolicy('any', {}),
      };
      return Object.entries(attempts).map(([name, attempt]) => {
        try {
          attempt();
          return `${name}: allowed`;
        } catch (error) {
          return `${name}: ${(error as Error).name}`;
        }
      });
    });
    expect(refused).toEqual(
      ['innerHTML', 'outerHTML', 'DOMParser', 'write', 'range', 'policy'].map((name) => `${name}: TypeError`),
    );
    tab.problems.length = 0;
  });

  test('a page of another port, which browsers send the cookie to as well, changes nothing by forms or scripts', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { url } = world.server;
    const other = createServer((_, reply) =>
      reply.setHeader('content-type', 'text/html').end('<p>prize</p>'),
    );
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    // The same site as the console: a port is no part of a site.
    const from = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
    const changes = [
      ['/admin/v1/clusters/default/drain', '{"mode":"readonly"}'],
      ['/admin/v1/accounts', '{"account":"forged"}'],
      [
        '/admin/v1/session',
        JSON.stringify({
          accessKey: testCredentials.alice.accessKey,
          secretKey: testCredentials.alice.secretKey,
        }),
      ],
    ] as const;
    for (const [path, body] of changes) {
      const foreign = await tab.context.newPage();
      await foreign.goto(from);
      const statuses: number[] = [];
      foreign.on('response', (response) => {
        if (response.url().startsWith(url)) statuses.push(response.status());
      });
      await foreign.evaluate(
        async ([to, text]) => {
          for (const type of ['text/plain', 'application/x-www-form-urlencoded'])
            await fetch(to, {
              method: 'POST',
              mode: 'no-cors',
              credentials: 'include',
              body: text,
              headers: { 'content-type': type },
            });
          await fetch(to, {
            method: 'POST',
            credentials: 'include',
            body: text,
            headers: { 'content-type': 'application/json', 'x-csrf-token': '0' },
          }).catch(() => {});
        },
        [url + path, body] as const,
      );
      // A form whose one field spells the body.
      await foreign.evaluate(
        ([to, text]) => {
          const form = Object.assign(document.createElement('form'), {
            action: to,
            method: 'post',
            enctype: 'text/plain',
          });
          const at = text.lastIndexOf('"');
          form.append(
            Object.assign(document.createElement('input'), {
              name: `${text.slice(0, at)}`,
              value: text.slice(at),
            }),
          );
          document.body.append(form);
          form.submit();
        },
        [url + path, body] as const,
      );
      await foreign.waitForURL(`${url}${path}`);
      expect([path, statuses.length, statuses.filter((status) => status < 400)]).toEqual([path, 3, []]);
      await foreign.close();
    }
    await new Promise((resolve) => other.close(resolve));
    const clusters = await (await send(world.server, 'GET', '/admin/v1/clusters')).text();
    expect(clusters).toContain('"state":"live"');
    expect(await (await send(world.server, 'GET', '/admin/v1/accounts')).text()).not.toContain('forged');
    await tab.go('/me');
    await tab.page.getByText(/of the account root-account/).waitFor();
  });

  test('no address of the console leads to another host', async () => {
    await using world = await openConsole();
    const { url } = world.server;
    await using tab = await world.open('/', { as: undefined });
    const { page } = tab;
    const addresses = [
      '/console//evil.example/',
      '/console/%2F%2Fevil.example',
      '/console/\\evil.example',
      '/console/http://evil.example/',
      '/console?next=http://evil.example',
      '/console/?next=//evil.example&redirect=//evil.example&returnTo=//evil.example',
      '/console/buckets/%2F%2Fevil.example/objects/',
      '/console/buckets/photos/objects/%2F%2Fevil.example/',
      '/iam/users/%2F%2Fevil.example/billing',
      '/console/iam/users/..%2F..%2F%2Fevil.example/billing',
    ];
    for (const address of addresses) {
      await page.goto(url + address);
      await settled(page);
      expect([address, new URL(page.url()).origin]).toEqual([address, url]);
    }
    await page.goto(`${url}${addresses[5]}`);
    await fillLogin(tab, testCredentials.root);
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    for (const address of addresses) {
      await page.goto(url + address);
      await settled(page);
      expect([address, new URL(page.url()).origin]).toEqual([address, url]);
      const links = await page
        .locator('a[href]')
        .evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).origin));
      expect([address, [...new Set(links)]]).toEqual([address, [url]]);
    }
  });
});
