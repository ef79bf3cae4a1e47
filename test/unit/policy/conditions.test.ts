/** Every operator of the IAM grammar, with missing keys, several values and negation as AWS documents them. */
import { describe, expect, test } from 'vitest';
import { evaluate } from '../../../src/auth/policy/evaluate.ts';
import type { Principal } from '../../../src/auth/policy/request.ts';
import { alice, ask, type Context, policy, session, userOf } from './world.ts';

type Values = string | number | boolean | readonly string[];
/** Whether the condition holds: does an Allow with it allow? */
function holds(
  operator: string,
  [key, values]: readonly [string, Values],
  context: Context = {},
  { effect = 'Allow', principal = alice }: { effect?: 'Allow' | 'Deny'; principal?: Principal } = {},
): boolean {
  const written = policy('identity', { Effect: effect, Condition: { [operator]: { [key]: values } } });
  return evaluate(ask({ context, principal }), [written]).effect === effect;
}

describe('one value', () => {
  test.each<[operator: string, key: string, values: Values, value: string, expected: boolean]>([
    ['StringEquals', 's3:prefix', 'home/', 'home/', true],
    ['StringEquals', 's3:prefix', 'home/', 'HOME/', false],
    ['StringEquals', 's3:prefix', 'home*', 'home/', false],
    ['StringEquals', 's3:prefix', ['a', 'b'], 'b', true],
    ['StringEquals', 's3:prefix', '', '', true],
    ['StringNotEquals', 's3:prefix', 'home/', 'home/', false],
    ['StringNotEquals', 's3:prefix', ['a', 'b'], 'b', false],
    ['StringNotEquals', 's3:prefix', ['a', 'b'], 'c', true],
    ['StringEqualsIgnoreCase', 's3:prefix', 'Home/', 'hOME/', true],
    ['StringNotEqualsIgnoreCase', 's3:prefix', 'Home/', 'hOME/', false],
    ['StringLike', 's3:prefix', 'home/*', 'home/a/b', true],
    ['StringLike', 's3:prefix', 'home/?', 'home/ab', false],
    ['StringLike', 's3:prefix', 'HOME/*', 'home/a', false],
    ['StringNotLike', 's3:prefix', 'home/*', 'home/a', false],
    ['StringNotLike', 's3:prefix', ['home/*', 'tmp/*'], 'var/a', true],
    ['NumericEquals', 's3:max-keys', '10', '10.0', true],
    ['NumericEquals', 's3:max-keys', 10, '10', true],
    ['NumericNotEquals', 's3:max-keys', '10', '10', false],
    ['NumericNotEquals', 's3:max-keys', '10', '11', true],
    ['NumericLessThan', 's3:max-keys', '10', '9', true],
    ['NumericLessThan', 's3:max-keys', '10', '10', false],
    ['NumericLessThanEquals', 's3:max-keys', '10', '10', true],
    ['NumericGreaterThan', 's3:max-keys', '10', '10', false],
    ['NumericGreaterThan', 's3:max-keys', '9', '10', true],
    ['NumericGreaterThanEquals', 's3:max-keys', '10', '10', true],
    ['NumericLessThan', 's3:TlsVersion', '1.2', '1.1', true],
    ['DateEquals', 'aws:CurrentTime', '2026-01-31T00:00:00Z', '2026-01-31T01:00:00+01:00', true],
    ['DateNotEquals', 'aws:CurrentTime', '2026-01-31', '2026-01-31T00:00:00Z', false],
    ['DateLessThan', 'aws:CurrentTime', '2026-01-31T00:00:00Z', '2026-01-30T23:59:59.999Z', true],
    ['DateLessThan', 'aws:CurrentTime', '2026-01-31T00:00:00Z', '2026-01-31T00:00:00Z', false],
    ['DateLessThanEquals', 'aws:CurrentTime', '2026-01-31T00:00:00Z', '2026-01-31T00:00:00Z', true],
    ['DateGreaterThan', 'aws:EpochTime', '2026-01-31T00:00:00Z', '1800000000', true],
    ['DateGreaterThanEquals', 'aws:CurrentTime', '1769817600', '2026-01-31T00:00:00Z', true],
    ['NumericGreaterThan', 'aws:EpochTime', '1700000000', '1800000000', true],
    ['Bool', 'aws:SecureTransport', 'true', 'true', true],
    ['Bool', 'aws:SecureTransport', false, 'false', true],
    ['Bool', 'aws:SecureTransport', 'True', 'true', true],
    ['Bool', 'aws:SecureTransport', 'false', 'true', false],
    ['BinaryEquals', 's3:prefix', 'aG9tZS8=', 'home/', true],
    ['BinaryEquals', 's3:prefix', 'w6k=', 'é', true],
    ['BinaryEquals', 's3:prefix', 'aG9tZS8=', 'aG9tZS8=', false],
    ['IpAddress', 'aws:SourceIp', '203.0.113.0/24', '203.0.113.255', true],
    ['IpAddress', 'aws:SourceIp', '203.0.113.0/24', '203.0.114.0', false],
    ['IpAddress', 'aws:SourceIp', '203.0.113.7', '203.0.113.7', true],
    ['IpAddress', 'aws:SourceIp', '203.0.113.0/24', '::ffff:203.0.113.7', true],
    ['IpAddress', 'aws:SourceIp', '203.0.113.0/24', '::FFFF:cb00:7107', true],
    ['IpAddress', 'aws:SourceIp', '::ffff:203.0.113.0/120', '203.0.113.7', true],
    ['IpAddress', 'aws:SourceIp', '0.0.0.0/0', '2001:db8::1', false],
    ['IpAddress', 'aws:SourceIp', '::/0', '203.0.113.7', true],
    ['IpAddress', 'aws:SourceIp', '2001:db8::/32', '2001:DB8:1::1', true],
    ['IpAddress', 'aws:SourceIp', '2001:db8::/33', '2001:db8:8000::1', false],
    ['IpAddress', 'aws:SourceIp', 'fe80::/10', 'fe80::1%eth0', true],
    ['IpAddress', 'aws:SourceIp', ['10.0.0.0/8', '203.0.113.0/24'], '203.0.113.7', true],
    ['NotIpAddress', 'aws:SourceIp', '203.0.113.0/24', '203.0.113.7', false],
    ['NotIpAddress', 'aws:SourceIp', '203.0.113.0/24', '::ffff:203.0.113.7', false],
    ['NotIpAddress', 'aws:SourceIp', ['10.0.0.0/8', '203.0.113.0/24'], '198.51.100.1', true],
    ['ArnEquals', 'aws:SourceArn', 'arn:aws:s3:::photos', 'arn:aws:s3:::photos', true],
    ['ArnEquals', 'aws:SourceArn', 'arn:aws:s3:::ph*', 'arn:aws:s3:::photos', true],
    ['ArnLike', 'aws:SourceArn', 'arn:aws:s3:*:*:photos', 'arn:aws:s3:eu-west-1:1:photos', true],
    ['ArnLike', 'aws:SourceArn', 'arn:aws:s3:*:photos', 'arn:aws:s3:eu-west-1:1:photos', false],
    ['ArnNotEquals', 'aws:SourceArn', 'arn:aws:s3:::photos', 'arn:aws:s3:::photos', false],
    ['ArnNotLike', 'aws:SourceArn', 'arn:aws:s3:::ph*', 'arn:aws:s3:::video', true],
    ['Null', 's3:prefix', 'true', 'x', false],
    ['Null', 's3:prefix', 'false', 'x', true],
    ['Null', 's3:prefix', false, '', true],
    ['StringEquals', 'S3:PREFIX', 'x', 'x', true],
  ])('%s %s %j with %j is %s', (operator, key, values, value, expected) => {
    if (operator === 'ArnLike' && values === 'arn:aws:s3:*:photos') {
      expect(() => holds(operator, [key, values], {})).toThrow(/ARN of 6 segments/);
      return;
    }
    const name = key === 'S3:PREFIX' ? 's3:prefix' : key;
    expect(holds(operator, [key, values], { [name]: value })).toBe(expected);
  });
});

describe('a key that the request does not have', () => {
  const valueFor: Readonly<Record<string, readonly [string, string]>> = {
    String: ['s3:prefix', 'a'],
    Numeric: ['s3:max-keys', '1'],
    Date: ['aws:CurrentTime', '2026-01-01'],
    Arn: ['aws:SourceArn', 'arn:aws:s3:::photos'],
  };
  const names = [
    ...['Equals', 'NotEquals', 'EqualsIgnoreCase', 'NotEqualsIgnoreCase', 'Like', 'NotLike'].map(
      (name) => `String${name}`,
    ),
    ...['Numeric', 'Date'].flatMap((family) =>
      ['Equals', 'NotEquals', 'LessThan', 'LessThanEquals', 'GreaterThan', 'GreaterThanEquals'].map(
        (name) => `${family}${name}`,
      ),
    ),
    ...['Equals', 'NotEquals', 'Like', 'NotLike'].map((name) => `Arn${name}`),
  ];
  const cases: readonly (readonly [string, readonly [string, string]])[] = [
    ...names.map((name) => [name, valueFor[/^[A-Z][a-z]+/.exec(name)?.[0] ?? ''] ?? ['', '']] as const),
    ['Bool', ['aws:SecureTransport', 'false']],
    ['BinaryEquals', ['s3:prefix', 'YQ==']],
    ['IpAddress', ['aws:SourceIp', '0.0.0.0/0']],
    ['NotIpAddress', ['aws:SourceIp', '10.0.0.0/8']],
  ];
  test.each(cases)('%s holds only when negated, with IfExists, or for all of none', (name, pair) => {
    expect(holds(name, pair)).toBe(name.includes('Not'));
    expect(holds(`${name}IfExists`, pair)).toBe(true);
    expect(holds(`ForAllValues:${name}`, pair)).toBe(true);
    expect(holds(`ForAnyValue:${name}`, pair)).toBe(false);
    expect(holds(`ForAnyValue:${name}IfExists`, pair)).toBe(true);
    expect(holds(`ForAnyValue:${name}`, pair, { [pair[0]]: [] })).toBe(false);
  });
  test('Null distinguishes it from an empty value', () => {
    expect(holds('Null', ['s3:prefix', 'true'])).toBe(true);
    expect(holds('Null', ['s3:prefix', 'false'])).toBe(false);
    expect(holds('Null', ['aws:TagKeys', 'true'], { 'aws:TagKeys': [] })).toBe(true);
    expect(holds('Null', ['aws:TagKeys', 'false'], { 'aws:TagKeys': ['a'] })).toBe(true);
  });
});

describe('several values of the request', () => {
  test.each<[operator: string, wanted: readonly string[], given: readonly string[], expected: boolean]>([
    ['ForAllValues:StringEquals', ['a', 'b'], ['a'], true],
    ['ForAllValues:StringEquals', ['a', 'b'], ['a', 'b'], true],
    ['ForAllValues:StringEquals', ['a', 'b'], ['a', 'c'], false],
    ['ForAnyValue:StringEquals', ['a', 'b'], ['a', 'c'], true],
    ['ForAnyValue:StringEquals', ['a', 'b'], ['c'], false],
    ['ForAllValues:StringNotEquals', ['a', 'b'], ['c', 'd'], true],
    ['ForAllValues:StringNotEquals', ['a', 'b'], ['a', 'c'], false],
    ['ForAnyValue:StringNotEquals', ['a', 'b'], ['a', 'c'], true],
    ['ForAnyValue:StringNotEquals', ['a', 'b'], ['a', 'b'], false],
    ['ForAllValues:StringLike', ['x-*'], ['x-1', 'x-2'], true],
    ['ForAnyValue:StringNotLike', ['x-*'], ['x-1', 'y'], true],
    ['ForAllValues:StringNotLike', ['x-*'], ['x-1', 'y'], false],
  ])('%s %j with %j is %s', (operator, wanted, given, expected) => {
    expect(holds(operator, ['aws:TagKeys', wanted], { 'aws:TagKeys': given })).toBe(expected);
  });

  test('without a quantifier one match suffices, and a negated operator requires none', () => {
    const given = { 's3:prefix': ['a', 'c'] };
    expect(holds('StringEquals', ['s3:prefix', 'a'], given)).toBe(true);
    expect(holds('StringNotEquals', ['s3:prefix', 'a'], given)).toBe(false);
    expect(holds('StringNotEquals', ['s3:prefix', 'b'], given)).toBe(true);
  });
});

describe('what cannot be determined is decided against the caller', () => {
  test.each([
    ['IpAddress', 'aws:SourceIp', '10.0.0.0/8', 'unix:'],
    ['NotIpAddress', 'aws:SourceIp', '10.0.0.0/8', ''],
    ['NotIpAddress', 'aws:SourceIp', '10.0.0.0/8', '010.0.0.1'],
    ['NumericLessThan', 's3:max-keys', '10', 'many'],
    ['NumericNotEquals', 's3:max-keys', '10', '1e3'],
    ['DateGreaterThan', 'aws:CurrentTime', '2026-01-01', 'now'],
    ['DateNotEquals', 'aws:CurrentTime', '2026-01-01', '2026-02-30'],
    ['Bool', 'aws:SecureTransport', 'true', 'yes'],
  ])('%s %s %s with %j: an Allow does not hold, a Deny does', (operator, key, wanted, given) => {
    expect(holds(operator, [key, wanted], { [key]: given })).toBe(false);
    expect(holds(operator, [key, wanted], { [key]: given }, { effect: 'Deny' })).toBe(true);
  });
});

describe('variables', () => {
  test.each<[pattern: string, value: string, expected: boolean]>([
    [`home/\${aws:username}/*`, 'home/alice/x', true],
    [`home/\${aws:username}/*`, 'home/bob/x', false],
    [`home/\${AWS:UserName}/*`, 'home/alice/x', true],
    [`\${*}/\${?}/\${$}`, '*/?/$', true],
    [`\${*}`, 'x', false],
    [`\${aws:PrincipalTag/team, 'everyone'}/*`, 'everyone/x', true],
    [`\${aws:userid}`, 'AIDAALICE', true],
  ])('%s on %s is %s', (pattern, value, expected) => {
    expect(holds('StringLike', ['s3:prefix', pattern], { 's3:prefix': value })).toBe(expected);
  });

  test('a value is text: its wildcards match nothing but themselves', () => {
    const star = userOf('1', '*');
    const pair = ['s3:prefix', `home/\${aws:username}/*`] as const;
    expect(holds('StringLike', pair, { 's3:prefix': 'home/bob/x' }, { principal: star })).toBe(false);
    expect(holds('StringLike', pair, { 's3:prefix': 'home/*/x' }, { principal: star })).toBe(true);
  });

  test('a value cannot shift the segments of an ARN', () => {
    const sneaky = userOf('1', 'x:s3:::photos');
    const pair = ['aws:SourceArn', `arn:aws:\${aws:username}:::*`] as const;
    expect(holds('ArnLike', pair, { 'aws:SourceArn': 'arn:aws:x:s3:::photos' }, { principal: sneaky })).toBe(
      false,
    );
  });

  test('without a value nothing matches, a negated Allow does not hold, a negated Deny does', () => {
    const given = { 's3:prefix': 'x' };
    const pair = ['s3:prefix', `\${aws:username}`] as const;
    expect(holds('StringEquals', pair, given, { principal: session })).toBe(false);
    expect(holds('StringNotEquals', pair, given, { principal: session })).toBe(false);
    expect(holds('StringNotEquals', pair, given, { principal: session, effect: 'Deny' })).toBe(true);
    expect(
      holds('StringEquals', ['s3:prefix', [`\${aws:username}`, 'x']], given, { principal: session }),
    ).toBe(true);
  });
});

test('facts of the caller cannot be brought along', () => {
  const context = {
    'aws:username': 'root',
    'aws:PrincipalArn': 'arn:aws:iam::1:user/x',
    'aws:PrincipalTag/a': 'b',
  };
  expect(holds('StringEquals', ['aws:username', 'root'], context)).toBe(false);
  expect(holds('StringEquals', ['aws:username', 'alice'], context)).toBe(true);
  expect(holds('ArnLike', ['aws:PrincipalArn', 'arn:aws:iam::1:user/x'], context)).toBe(false);
  expect(holds('StringEquals', ['aws:PrincipalTag/a', 'b'], context)).toBe(false);
});

test('all operators and keys of a condition must hold', () => {
  const both = {
    StringEquals: { 's3:prefix': 'a', 's3:delimiter': '/' },
    Bool: { 'aws:SecureTransport': true },
  };
  const written = policy('identity', { Condition: both });
  const full = { 's3:prefix': 'a', 's3:delimiter': '/', 'aws:SecureTransport': 'true' };
  expect(evaluate(ask({ context: full }), [written]).effect).toBe('Allow');
  for (const key of Object.keys(full))
    expect(evaluate(ask({ context: { ...full, [key]: 'false' } }), [written]).effect).toBe('None');
});

test('facts are read only when a condition needs them', () => {
  const asked: string[] = [];
  const lookup = (key: string): undefined => {
    asked.push(key);
    return undefined;
  };
  const written = policy(
    'identity',
    { Action: 's3:PutObject', Condition: { StringLike: { 's3:x-amz-acl': 'private' } } },
    { Condition: { StringLike: { 's3:ExistingObjectTag/Env': 'prod', 's3:prefix': 'x' } } },
  );
  evaluate({ ...ask(), context: { lookup } }, [written]);
  expect(asked).toEqual(['s3:ExistingObjectTag/Env']);
});
