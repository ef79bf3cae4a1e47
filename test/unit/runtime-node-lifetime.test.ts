/** The Node listener from start to end: two listeners, changed certificates, a shutdown that finishes requests. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get as httpsGet } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { expect, onTestFinished, test, vi } from 'vitest';
import { serveStub, Talk, text } from '../support/server-stub.ts';
import * as tls from '../support/server-tls.ts';

const ask = (target = '/'): string => `GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`;
const gate = () => Promise.withResolvers<void>();

test('reports which of two listeners accepted a request', async () => {
  const handle = async ({ listener }: { listener?: string }) => text(`<${listener}>`);
  const one = await serveStub(handle);
  await new Talk(one.port).say(ask()).sees('<undefined>');
  expect(one.adminUrl).toBeUndefined();
  const two = await serveStub(handle, { SVC_ADMIN_LISTEN: { host: '127.0.0.1', port: 0 } });
  await new Talk(two.port).say(ask()).sees('<storage>');
  await new Talk(Number(new URL(two.adminUrl ?? '').port)).say(ask()).sees('<admin>');
});

test('an address in use is an error at the start, and leaves no listener', async () => {
  const first = await serveStub(async () => text('ok'));
  const taken = { host: '127.0.0.1', port: first.port };
  await expect(serveStub(async () => text('ok'), { SVC_LISTEN: taken })).rejects.toThrow('EADDRINUSE');
  await expect(serveStub(async () => text('ok'), { SVC_ADMIN_LISTEN: taken })).rejects.toThrow('EADDRINUSE');
});

test.each([
  ['a file that is not PEM', 'no certificate', tls.one.key, 'no start line'],
  ['the key of another certificate', tls.one.cert, tls.two.key, 'key values mismatch'],
])('%s refuses the start, names both settings and the reason', async (_, cert, key, reason) => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
  writeFileSync(files.SVC_TLS_CERT_FILE, cert);
  writeFileSync(files.SVC_TLS_KEY_FILE, key);
  const must = `SVC_TLS_CERT_FILE=${files.SVC_TLS_CERT_FILE} and SVC_TLS_KEY_FILE=${files.SVC_TLS_KEY_FILE} must be a certificate and its private key as PEM: ${reason}`;
  const refused = serveStub(async () => text('ok'), files);
  await expect(refused).rejects.toThrow(must);
  await expect(refused).rejects.toMatchObject({ name: 'Error', exitCode: 2 });
});

test('a shutdown finishes requests, closes their connections and the idle ones, and accepts no more', async () => {
  const [release, entered] = [gate(), gate()];
  let slow = 0;
  const server = await serveStub(
    async ({ wire }) => {
      if (wire.target === '/slow') {
        slow += 1;
        if (slow === 20) entered.resolve();
        await release.promise;
      }
      return text('done');
    },
    { SVC_SHUTDOWN_TIMEOUT: 10_000 },
  );
  const idle = new Talk(server.port).say(ask());
  await idle.sees('done');
  const busy = Array.from({ length: 20 }, () => new Talk(server.port).say(ask('/slow')));
  await entered.promise;
  const closed = server.close();
  await idle.ends();
  expect(await new Talk(server.port).ends()).toBe('');
  release.resolve();
  for (const talk of busy) {
    const seen = await talk.ends();
    expect(seen).toContain('done');
    expect(seen).toMatch(/connection: close/i);
    expect(talk.state).toBe('ended');
  }
  await closed;
});

test('connections that are shed end with their next reply, and a reply that has begun is not cut', async () => {
  const release = gate();
  async function* download() {
    yield new TextEncoder().encode('first');
    await release.promise;
    yield new TextEncoder().encode('last');
  }
  const server = await serveStub(async ({ wire }) =>
    wire.target === '/slow'
      ? { status: 200, headers: [['Content-Length', '9']], body: download() }
      : text('done'),
  );
  const idle = Array.from({ length: 4 }, () => new Talk(server.port).say(ask()));
  for (const talk of idle) await talk.sees('done');
  const slow = new Talk(server.port).say(ask('/slow'));
  await slow.sees('first');
  expect(server.countConnections()).toBe(5);
  server.shed(1);
  release.resolve();
  await slow.sees('last');
  expect(slow.seen).not.toMatch(/connection: close/i);
  for (const talk of [...idle, slow]) expect(talk.state).toBe('open');
  for (const talk of [...idle, slow]) {
    expect(await talk.say(ask()).ends()).toMatch(/connection: close/i);
    expect(talk.state).toBe('ended');
  }
  await vi.waitFor(() => expect(server.countConnections()).toBe(0), { timeout: 60_000 });
});

test('half of the connections are shed', async () => {
  const server = await serveStub(async () => text('done'));
  const talks = Array.from({ length: 6 }, () => new Talk(server.port).say(ask()));
  for (const talk of talks) await talk.sees('done');
  server.shed(0.5);
  for (const talk of talks) talk.say(ask('/again'));
  await vi.waitFor(() => expect(talks.filter(({ state }) => state === 'ended')).toHaveLength(3), {
    timeout: 60_000,
  });
  expect(server.countConnections()).toBe(3);
});

test('a shutdown lets an upload and a download end', async () => {
  const [release, entered] = [gate(), gate()];
  async function* download() {
    yield new TextEncoder().encode('first');
    await release.promise;
    yield new TextEncoder().encode('last');
  }
  const server = await serveStub(
    async ({ body }) => {
      if (body === undefined) return { status: 200, headers: [['Content-Length', '9']], body: download() };
      entered.resolve();
      let length = 0;
      for await (const bytes of body) length += bytes.byteLength;
      return text(`${length} bytes`);
    },
    { SVC_SHUTDOWN_TIMEOUT: 10_000 },
  );
  const down = new Talk(server.port).say(ask());
  const up = new Talk(server.port).say('PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc');
  await down.sees('first');
  await entered.promise;
  const closed = server.close();
  up.say('def');
  release.resolve();
  expect(await up.ends()).toContain('6 bytes');
  expect(await down.ends()).toContain('firstlast');
  await closed;
});

test('a shutdown during a streamed reply handles no request after it', async () => {
  const release = gate();
  const targets: string[] = [];
  async function* slowly() {
    yield new TextEncoder().encode('first');
    await release.promise;
    yield new TextEncoder().encode('last');
  }
  const server = await serveStub(
    async ({ wire }) => {
      targets.push(wire.target);
      return { status: 200, headers: [['Content-Length', '9']], body: slowly() };
    },
    { SVC_SHUTDOWN_TIMEOUT: 500 },
  );
  const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => {
    socket.destroy();
  });
  socket.on('error', () => {}).write(ask('/streamed'));
  await once(socket, 'data');
  const closed = server.close();
  const ended = once(socket.resume(), 'end');
  release.resolve();
  await ended;
  socket.write(ask('/late'));
  await closed;
  expect(targets).toEqual(['/streamed']);
});

test('a shutdown cuts what takes longer than its time', async () => {
  const [aborted, entered] = [gate(), gate()];
  const server = await serveStub(
    async ({ signal }) => {
      entered.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      aborted.resolve();
      return text('too late');
    },
    { SVC_SHUTDOWN_TIMEOUT: 100 },
  );
  const talk = new Talk(server.port).say(ask());
  await entered.promise;
  await server.close();
  expect(await talk.ends()).toBe('');
  await aborted.promise;
});

test.each([
  ['is cut', false],
  ['was left by its client', true],
])('a shutdown waits for what a request still does after it %s', async (_, leaves) => {
  const [entered, lost, release] = [gate(), gate(), gate()];
  let hasEnded = false;
  const server = await serveStub(
    async ({ signal }) => {
      entered.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      lost.resolve();
      await release.promise;
      hasEnded = true;
      return text('too late');
    },
    { SVC_SHUTDOWN_TIMEOUT: 100 },
  );
  const talk = new Talk(server.port).say(ask());
  await entered.promise;
  if (leaves) {
    talk.socket.destroy();
    await lost.promise;
  }
  const closed = server.close().then(() => hasEnded);
  await lost.promise;
  // Long enough for a shutdown that does not wait.
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  release.resolve();
  expect(await closed).toBe(true);
  expect(server.logged).toEqual([]);
});

test('a shutdown does not wait for ever for a request that was cut, and logs that', async () => {
  const [entered, release] = [gate(), gate()];
  const server = await serveStub(
    async () => {
      entered.resolve();
      await release.promise;
      return text('too late');
    },
    { SVC_SHUTDOWN_TIMEOUT: 100 },
  );
  new Talk(server.port).say(ask());
  await entered.promise;
  await server.close();
  expect(server.logged).toEqual(['requests that were cut have not ended']);
  expect(server.fields).toEqual([{ requests: 1 }]);
  release.resolve();
});

test('a shutdown cuts a client that does not end its TLS handshake', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
  writeFileSync(files.SVC_TLS_CERT_FILE, tls.one.cert);
  writeFileSync(files.SVC_TLS_KEY_FILE, tls.one.key);
  // SVC_HEADER_TIMEOUT is the limit of handshakes too. Here it is longer than the time-out of a test.
  const patience = { SVC_SHUTDOWN_TIMEOUT: 100, SVC_HEADER_TIMEOUT: 3_600_000 };
  const server = await serveStub(async () => text('ok'), { ...files, ...patience });
  const talk = new Talk(server.port);
  expect(await visit(server.url)).toContain('ok');
  await server.close();
  await talk.ends();
});

/** The subject of the certificate that a new connection is shown, and the body it gets. */
function visit(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    httpsGet(url, { rejectUnauthorized: false, agent: false }, (response) => {
      const subject = (response.socket as TLSSocket).getPeerCertificate().subject.CN;
      response.setEncoding('utf8');
      response.on('data', (body: string) => resolve(`${subject}: ${body}`));
    }).on('error', reject);
  });
}

test('certificates are read again when they change, and a bad change keeps the old ones', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
  writeFileSync(files.SVC_TLS_CERT_FILE, tls.one.cert);
  writeFileSync(files.SVC_TLS_KEY_FILE, tls.one.key);
  const { url, logged } = await serveStub(async ({ wire }) => text(`secure ${wire.secure}`), {
    ...files,
    tlsIntervalMs: 20,
  });
  expect(await visit(url)).toBe('sluice test one: secure true');
  const says = (text: string) =>
    vi.waitFor(() => expect(logged.at(-1)).toContain(text), { timeout: 120_000, interval: 10 });
  writeFileSync(files.SVC_TLS_CERT_FILE, tls.two.cert);
  await says('are invalid');
  expect(await visit(url)).toBe('sluice test one: secure true');
  writeFileSync(files.SVC_TLS_KEY_FILE, tls.two.key);
  await says('reloaded');
  expect(await visit(url)).toBe('sluice test two: secure true');
});

test.each([
  ['has expired', tls.expired, '2020-02-01T00:00:00.000Z'],
  ['is not valid yet', tls.early, '2099-12-30T00:00:00.000Z'],
] as const)(
  'a certificate that %s is a warning, at the start and when it is read again',
  async (why, pair, notAfter) => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
    const write = ({ cert, key }: { readonly cert: string; readonly key: string }) => {
      writeFileSync(files.SVC_TLS_CERT_FILE, cert);
      writeFileSync(files.SVC_TLS_KEY_FILE, key);
    };
    const warning = `the TLS certificate ${why}: clients refuse it`;
    write(pair);
    const { url, logged, fields } = await serveStub(async () => text('ok'), { ...files, tlsIntervalMs: 20 });
    expect(logged).toEqual([warning]);
    expect(fields[0]).toMatchObject({
      file: files.SVC_TLS_CERT_FILE,
      notAfter: expect.stringContaining(notAfter.slice(0, 10)),
    });
    expect(await visit(url)).toContain('ok');
    const waitFor = (text: string) =>
      vi.waitFor(() => expect(logged.at(-1)).toContain(text), { timeout: 120_000, interval: 10 });
    write(tls.one);
    await waitFor('was reloaded');
    write(pair);
    await waitFor(warning);
  },
);

test('a plain HTTP connection to a TLS port is closed, and others are not affected', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const files = { SVC_TLS_CERT_FILE: join(directory, 'cert'), SVC_TLS_KEY_FILE: join(directory, 'key') };
  writeFileSync(files.SVC_TLS_CERT_FILE, tls.one.cert);
  writeFileSync(files.SVC_TLS_KEY_FILE, tls.one.key);
  const { url, port } = await serveStub(async () => text('ok'), files);
  await new Talk(port).say(ask()).ends();
  expect(await visit(url)).toContain('ok');
});
