/** Webhooks by TLS, with an authority of their own and client certificates; and by names whose addresses change. */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, expect, test, vi } from 'vitest';
import { changingDns } from '../support/changing-dns.ts';
import { openNotifyWorld, rule, until } from '../support/notify-world.ts';
import { mutualTls, type SinkTls, writeSinkTls } from '../support/sink-tls.ts';
import { openWebhookSink } from '../support/webhook-sink.ts';

describe('a webhook with TLS', () => {
  async function openSecureSink() {
    const bodies: string[] = [];
    const server = createServer(mutualTls, (request, reply) => {
      let body = '';
      request.setEncoding('utf8');
      request.on('data', (text: string) => (body += text));
      request.on('end', () => {
        bodies.push(body);
        reply.writeHead(204).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const files = writeSinkTls();
    return {
      bodies,
      files,
      url: `https://127.0.0.1:${port}/`,
      async [Symbol.asyncDispose]() {
        files[Symbol.dispose]();
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  }

  test('gets its events from a gateway that trusts its authority and has a client certificate', async () => {
    await using sink = await openSecureSink();
    const target = { id: 'hook', url: sink.url, ...sink.files.mutual };
    await using world = await openNotifyWorld({ targets: [target] });
    world.worker.start();
    await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
    expect(sink.bodies).toHaveLength(1);
  });

  test.each([
    [
      'has another authority',
      ({ mutual, otherCa }: SinkTls) => ({ ...mutual, caFile: otherCa }),
      /certificate/,
    ],
    [
      'gets no client certificate',
      ({ mutual: { caFile } }: SinkTls) => ({ caFile }),
      /name certFile and keyFile/,
    ],
    ['is not trusted publicly', () => ({}), /certificate/],
    ['has files that are missing', () => ({ caFile: '/does/not/exist.pem' }), /no such file.*exist\.pem/],
    [
      'has files that are no certificates',
      ({ mutual }: SinkTls) => ({ caFile: mutual.caFile, certFile: mutual.keyFile, keyFile: mutual.keyFile }),
      /no start line|PEM|certificate/i,
    ],
  ] as const)('that %s gets nothing, and the warning says why', async (_, fields, message) => {
    await using sink = await openSecureSink();
    const target = { id: 'hook', url: sink.url, ...fields(sink.files) };
    await using world = await openNotifyWorld({ targets: [target] });
    world.worker.start();
    await vi.waitFor(
      () => expect(world.warned.map(({ error }) => error)).toContainEqual(expect.stringMatching(message)),
      until,
    );
    expect(sink.bodies).toEqual([]);
    expect(await world.queued()).toHaveLength(1);
  });

  test('whose certificate has another name gets nothing', async () => {
    await using sink = await openSecureSink();
    const target = { id: 'hook', url: sink.url.replace('127.0.0.1', 'sink.test'), ...sink.files.mutual };
    await using world = await openNotifyWorld({ targets: [target] });
    using _ = changingDns(() => ['127.0.0.1']);
    world.worker.start();
    await vi.waitFor(
      () =>
        expect(world.warned.map(({ error }) => error)).toContainEqual(expect.stringMatching(/sink\.test/)),
      until,
    );
    expect(sink.bodies).toEqual([]);
  });
});

test('a webhook whose name resolves to another address at each connect is reached at checked addresses only', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: [{ id: 'hook', url: sink.url.replace('127.0.0.1', 'sink.test') }],
    rules: [rule('hook')],
    settings: { SVC_EGRESS_ALLOW: '127.0.0.2/32', SVC_NOTIFY_TIMEOUT: '500ms' },
  });
  using dns = changingDns((_name, n) => [n % 2 === 0 ? '127.0.0.2' : '127.0.0.1']);
  world.worker.start();
  await vi.waitFor(() => {
    world.clock.hurry(1_000);
    expect(dns.asked.length).toBeGreaterThan(2);
  }, until);
  expect(world.warned.map(({ error }) => error)).toContainEqual(expect.stringContaining('SVC_EGRESS_ALLOW'));
  expect(sink.received).toEqual([]);
});
