/** A document that a tenant stored runs in a browser with an origin of its own, so the log-in of an operator is out of its reach. */
import { expect, test } from 'vitest';
import type { Gateway } from '../../src/gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';

const policyOf = async (
  world: GatewayWorld,
  type: string,
  path = '/bucket/page',
): Promise<string | undefined> => {
  await world.client.put('/bucket/page', {
    body: '<script>1</script>',
    headers: type === '' ? {} : { 'content-type': type },
  });
  return (await world.client.get(path)).header('content-security-policy');
};

test.each([
  'text/html',
  'TEXT/HTML; charset=utf-8',
  'image/svg+xml',
  'application/xhtml+xml',
  'text/xml',
  'application/vnd.x+xml',
  'multipart/x-mixed-replace; boundary=x',
  'unknown/unknown',
  '*/*',
  'text/plain;charset=utf-8,text/html',
  'text/plain ,text/html',
  'image/png;a,text/html',
  'text/plain; charset=utf-8; x=",text/html',
  ' text/plain',
  'html',
  'text/javascript',
  'application/javascript',
  'application/x-javascript',
  'application/x-ecmascript',
  'text/css',
])('an object of type %s is sandboxed where the operator API has the same origin', async (type) => {
  await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.example.com' } });
  await world.client.put('/bucket');
  const policy = await policyOf(world, type);
  expect(policy).toMatch(/^sandbox\b/);
  expect(policy).not.toContain('allow-same-origin');
  const { header } = await world.client.get('/bucket/page', { headers: { 'if-none-match': '*' } });
  expect(header('content-security-policy')).toBe(policy);
  const virtual = await world.as({ host: 'bucket.s3.example.com' }).get('/page');
  expect([virtual.status, virtual.header('content-security-policy')]).toEqual([200, undefined]);
});

test.each([
  '',
  'binary/octet-stream',
  'application/json',
  'image/png',
  'text/plain; charset=utf-8',
  'video/mp4',
  'application/x-tar',
])('an object of type "%s" has no such header', async (type) => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  expect(await policyOf(world, type)).toBeUndefined();
});

test('the storage listener of SVC_ADMIN_LISTEN sandboxes too, because cookies go to every port of a host', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/page', { body: 'x', headers: { 'content-type': 'text/html' } });
  const gateway: Gateway = {
    ...world.gateway,
    handle: (incoming) => world.gateway.handle({ ...incoming, listener: 'storage' }),
  };
  const storage = openClient(gateway, systemClock, { credential: alice });
  expect((await storage.get('/bucket/page')).header('content-security-policy')).toMatch(/^sandbox\b/);
});

test('response-content-type does not take the sandbox away', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const asked = '/bucket/page?response-content-type=text%2Fhtml';
  expect(await policyOf(world, 'image/png', asked)).toMatch(/^sandbox\b/);
});
