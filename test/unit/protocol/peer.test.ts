/** Forwarded headers are trusted from trusted proxies only. */
import { expect, test } from 'vitest';
import { parseCidr } from '../../../src/config/network.ts';
import { behindProxies } from '../../../src/protocol/address.ts';
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

test('the forwarded headers of an untrusted peer are ignored', () => {
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

test.each([
  ['https', true],
  ['http', false],
  ['HTTPS', true],
  ['https, http', false],
  ['http,https ', true],
  ['', false],
  ['wss', false],
])('the scheme that a trusted proxy forwards as %j counts, whatever its own side is', (scheme, secure) => {
  const headers = { 'x-forwarded-proto': scheme };
  for (const own of [true, false])
    expect(behindProxies({ ...wire('10.0.0.1', headers), secure: own }, proxies).secure).toBe(secure);
});

test.each([true, false])('a proxy that forwards no scheme leaves its own, secure: %j', (secure) => {
  expect(behindProxies({ ...wire('10.0.0.1', {}), secure }, proxies).secure).toBe(secure);
});

test('what a proxy forwards says nothing of how the client spoke TLS', () => {
  const seen = { ...wire('10.0.0.1', {}), tlsVersion: 'TLSv1.3', tlsCipher: 'TLS_AES_128_GCM_SHA256' };
  const { tlsVersion, tlsCipher } = behindProxies(seen, proxies);
  expect([tlsVersion, tlsCipher]).toEqual([undefined, undefined]);
});
