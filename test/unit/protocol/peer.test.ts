/** Forwarded headers: believed from trusted proxies only. */
import { expect, test } from 'vitest';
import { parseCidr } from '../../../src/config/network.ts';
import { behindProxies } from '../../../src/protocol/peer.ts';
import { type Wire, WireHeaders } from '../../../src/protocol/wire.ts';

const proxies = ['10.0.0.0/8', '::1/128']
  .map((text) => parseCidr(text))
  .filter((network) => network !== undefined);
const wire = (remote: string, headers: Record<string, string>): Wire => ({
  method: 'GET',
  target: '/',
  headers: new WireHeaders(Object.entries(headers).flat()),
  remote,
  secure: false,
});

test('a stranger may claim what it likes', () => {
  const claimed = wire('192.0.2.7', { 'x-forwarded-for': '10.1.1.1', 'x-forwarded-proto': 'https' });
  expect(behindProxies(claimed, proxies)).toBe(claimed);
});

test('the nearest address that is no proxy of ours is the client', () => {
  const seen = behindProxies(
    wire('10.0.0.1', {
      'x-forwarded-for': '203.0.113.9, 198.51.100.2, 10.0.0.2',
      'x-forwarded-proto': 'https',
    }),
    proxies,
  );
  expect([seen.remote, seen.secure]).toEqual(['198.51.100.2', true]);
});

test('a proxy that forwards nothing is the client itself', () => {
  expect(behindProxies(wire('::1', {}), proxies).remote).toBe('::1');
});
