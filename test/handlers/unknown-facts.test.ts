/**
 * A connection of which the gateway does not know everything, such as one through `gateway.fetch` of a program that passes no address: a
 * condition on what is unknown is decided against the caller.
 */
import { expect, test } from 'vitest';
import type { Gateway } from '../../src/gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { type Client, openClient } from '../support/gateway-client.ts';

type Condition = readonly [operator: string, key: string, value: string];

const sourceIp: readonly Condition[] = [
  ...['', 'ForAllValues:', 'ForAnyValue:'].flatMap((prefix) =>
    ['', 'IfExists'].flatMap((suffix) =>
      [
        ['IpAddress', '192.0.2.0/24'],
        ['NotIpAddress', '192.0.2.0/24'],
        ['NotIpAddress', '0.0.0.0/0'],
        ['StringEquals', '192.0.2.1'],
        ['StringNotEquals', '192.0.2.1'],
        ['StringLike', '*'],
        ['StringNotLike', '*'],
      ].map(([operator, value = '']): Condition => [`${prefix}${operator}${suffix}`, 'aws:SourceIp', value]),
    ),
  ),
  ['Null', 'aws:SourceIp', 'true'],
  ['Null', 'aws:SourceIp', 'false'],
];
const tlsVersion: readonly Condition[] = [
  ['NumericLessThan', 's3:TlsVersion', '1.2'],
  ['NumericGreaterThanEquals', 's3:TlsVersion', '1.2'],
  ['NumericLessThanIfExists', 's3:TlsVersion', '1.2'],
  ['NumericNotEquals', 's3:TlsVersion', '1.3'],
];

const policyOf = (effect: string, [operator, key, value]: Condition) =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: { AWS: bob.owner }, Action: 's3:PutObject', Resource: '*' },
      ...(effect === 'Deny'
        ? [{ Effect: 'Allow', Principal: { AWS: bob.owner }, Action: 's3:GetObject', Resource: '*' }]
        : []),
      {
        Effect: effect,
        Principal: { AWS: bob.owner },
        Action: 's3:GetObject',
        Resource: '*',
        Condition: { [operator]: { [key]: value } },
      },
    ].map((statement) => ({ ...statement, Resource: 'arn:aws:s3:::bucket/*' })),
  });

async function open() {
  const world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  return world;
}

async function statusWith(world: GatewayWorld, client: Client, policy: string): Promise<number> {
  expect((await world.client.put('/bucket?policy', { body: policy })).status).toBe(204);
  return (await client.get('/bucket/key')).status;
}

test('an Allow under a condition on an unknown address does not apply, and a Deny applies, with every operator', async () => {
  await using world = await open();
  const unknown = world.as({ credential: bob, fetch: true });
  for (const condition of sourceIp)
    for (const effect of ['Allow', 'Deny'])
      expect([effect, ...condition, await statusWith(world, unknown, policyOf(effect, condition))]).toEqual([
        effect,
        ...condition,
        403,
      ]);
  // The request is allowed otherwise, and an address that is known counts.
  expect(
    await statusWith(world, unknown, policyOf('Allow', ['StringEquals', 's3:authType', 'REST-HEADER'])),
  ).toBe(200);
  expect(
    await statusWith(world, world.bob, policyOf('Allow', ['IpAddress', 'aws:SourceIp', '127.0.0.0/8'])),
  ).toBe(200);
});

test('the same holds for the TLS version of a connection over TLS that does not show it; without TLS there is none', async () => {
  await using world = await open();
  const secured: Gateway = {
    ...world.gateway,
    handle: (incoming) => world.gateway.handle({ ...incoming, wire: { ...incoming.wire, secure: true } }),
  };
  const unknown = openClient(secured, systemClock, { credential: bob });
  for (const condition of tlsVersion)
    for (const effect of ['Allow', 'Deny'])
      expect([effect, ...condition, await statusWith(world, unknown, policyOf(effect, condition))]).toEqual([
        effect,
        ...condition,
        403,
      ]);
  const outdated = policyOf('Deny', ['NumericLessThan', 's3:TlsVersion', '1.2']);
  expect(await statusWith(world, world.bob, outdated)).toBe(200);
});

test('a Deny for an unknown address reaches the root of the owner, too', async () => {
  await using world = await open();
  const act = world.as({ credential: alice, fetch: true });
  const condition = { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } };
  const body = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:*',
        Resource: 'arn:aws:s3:::bucket/*',
        Condition: condition,
      },
    ],
  });
  expect((await act.put('/bucket?policy', { body })).status).toBe(204);
  expect((await act.get('/bucket/key')).status).toBe(403);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
});
