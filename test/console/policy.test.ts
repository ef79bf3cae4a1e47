/** What the content security policy of the console keeps out, in a browser that enforces it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { send } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

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
});
