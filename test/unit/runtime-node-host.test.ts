/** Requests of HTTP/1.0 without a Host header, where SVC_DOMAIN makes hosts name buckets: on the listener and on Node's own HTTP server. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { toNodeHandler } from '../../src/runtime/node.ts';
import { policyOf } from '../support/access.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { serveStub, Talk } from '../support/server-stub.ts';

async function openNodeServer({ gateway }: GatewayWorld): Promise<number> {
  const server = createServer(toNodeHandler(gateway));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const servers: Readonly<Record<string, (world: GatewayWorld) => Promise<number>>> = {
  'the listener': async ({ gateway }) => (await serveStub(gateway.handle)).port,
  "Node's own HTTP server": openNodeServer,
};

test.each(Object.entries(servers))(
  'on %s a request of HTTP/1.0 without Host is path style',
  async (_, open) => {
    await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.test' } });
    const { client } = world;
    for (const bucket of ['bucket', 'key']) {
      await client.put(`/${bucket}`);
      const body = policyOf({ Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` });
      expect((await client.put(`/${bucket}?policy`, { body })).status).toBe(204);
    }
    await client.put('/bucket/key', { body: 'content' });
    const port = await open(world);
    const ask = (head: string) => new Talk(port).say(`${head}\r\n\r\n`).ends();
    const found = await ask('GET /bucket/key HTTP/1.0');
    expect(found).toMatch(/^HTTP\/1\.[01] 200 /);
    expect(found.endsWith('content')).toBe(true);
    // With a Host the same version of HTTP is as any other.
    const virtual = await ask('GET /key HTTP/1.0\r\nHost: bucket.s3.test');
    expect(virtual).toMatch(/^HTTP\/1\.[01] 200 /);
    expect(virtual.endsWith('content')).toBe(true);
    expect(await ask('GET /no-such/key HTTP/1.0')).toContain('<Code>NoSuchBucket</Code>');
    // A target may name a host; without Host nobody else has seen it.
    expect(await ask('GET http://bucket.s3.test/key HTTP/1.0')).toMatch(/^HTTP\/1\.[01] 400 /);
    expect(await ask('GET /bucket/key HTTP/1.1')).toMatch(/^HTTP\/1\.1 400 /);
  },
);
