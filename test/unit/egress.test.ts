/** The addresses that targets may have. */
import { expect, test } from 'vitest';
import { mayReach, parseCidr } from '../../src/config/network.ts';

const allow = (...texts: readonly string[]) =>
  texts.flatMap((text) => {
    const range = parseCidr(text);
    return range === undefined ? [] : [range];
  });

test.each([
  '127.0.0.1',
  '127.255.255.254',
  '0.0.0.0',
  '169.254.169.254',
  '10.1.2.3',
  '172.31.0.1',
  '192.168.1.1',
  '100.100.100.200',
  '192.0.0.192',
  '224.0.0.1',
  '255.255.255.255',
  '::1',
  '::',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:a9fe:a9fe',
  '::7f00:1',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'fd00:ec2::254',
  '64:ff9b::7f00:1',
  '2001:0:7f00:1::',
  '2002:7f00:1::',
  'ff02::1',
  'localhost',
  '',
])('%s is refused', (address) => {
  expect(mayReach(address, [])).toBe(false);
});

test.each([
  '93.184.216.34',
  '::ffff:93.184.216.34',
  '2606:2800:220:1::1',
  '100.128.0.1',
  '172.32.0.1',
  '223.255.255.1',
])('%s is reached', (address) => {
  expect(mayReach(address, [])).toBe(true);
});

test('an allowed range opens its addresses and no others', () => {
  const ranges = allow('10.0.0.0/8', 'fd00::/8');
  expect(['10.1.2.3', '::ffff:10.1.2.3', 'fd00::1'].map((each) => mayReach(each, ranges))).toEqual([
    true,
    true,
    true,
  ]);
  expect(['127.0.0.1', '192.168.0.1', 'fe80::1'].map((each) => mayReach(each, ranges))).toEqual([
    false,
    false,
    false,
  ]);
});
