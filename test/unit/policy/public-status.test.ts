/** When a bucket policy counts as public, as the public API defines it. */
import { expect, test } from 'vitest';
import { isPublicPolicy } from '../../../src/auth/policy/public-status.ts';
import { isPublicAcl } from '../../../src/domain/access/acl.ts';
import { parse, type Written } from './world.ts';

const held = (operator: string, key: string, value: unknown): Written => ({
  Condition: { [operator]: { [key]: value } },
});

test.each<[Written, boolean]>([
  [{}, true],
  [{ Principal: { AWS: '*' } }, true],
  [{ Principal: { AWS: ['111122223333', '*'] } }, true],
  [{ Effect: 'Deny' }, false],
  [{ Principal: { AWS: 'arn:aws:iam::s3tenant1:root' } }, false],
  [{ Principal: { Service: 'logging.s3.amazonaws.com' } }, false],
  [{ Principal: { CanonicalUser: 'abc' } }, false],
  [held('IpAddress', 'aws:SourceIp', '10.0.0.0/32'), false],
  [held('IpAddress', 'aws:SourceIp', ['203.0.113.0/24', '2001:db8::/32']), false],
  [held('IpAddress', 'aws:SourceIp', '8.0.0.0/8'), false],
  [held('IpAddress', 'aws:SourceIp', '8.0.0.0/7'), true],
  [held('IpAddress', 'aws:SourceIp', '0.0.0.0/0'), true],
  [held('IpAddress', 'aws:SourceIp', '::/0'), true],
  [held('IpAddress', 'aws:SourceIp', '2001::/31'), true],
  [held('IpAddress', 'aws:SourceIp', 'fc00::/7'), false],
  [held('IpAddress', 'aws:SourceIp', ['203.0.113.0/24', '0.0.0.0/1']), true],
  [held('IpAddressIfExists', 'aws:SourceIp', '203.0.113.0/24'), true],
  [held('NotIpAddress', 'aws:SourceIp', '203.0.113.0/24'), true],
  [held('StringEquals', 'aws:SourceVpce', 'vpce-1'), false],
  [held('StringNotEquals', 'aws:SourceVpce', 'vpce-1'), true],
  [held('StringLike', 'aws:SourceVpc', 'vpc-9*'), true],
  [held('StringLike', 'aws:SourceVpc', 'vpc-91237329'), false],
  [held('StringEquals', 'aws:PrincipalOrgID', 'o-1'), false],
  [held('ForAllValues:StringEquals', 'aws:SourceVpc', 'vpc-1'), true],
  [held('ForAnyValue:StringEquals', 'aws:SourceVpc', 'vpc-1'), false],
  [held('ArnLike', 'aws:SourceArn', 'arn:aws:s3:::photos'), false],
  [held('ArnLike', 'aws:SourceArn', 'arn:aws:s3:::*'), true],
  [held('StringLike', 'aws:userid', 'AROAEXAMPLE:*'), false],
  [held('StringLike', 'aws:userid', 'AIDA*'), true],
  [held('StringEquals', 'aws:SourceAccount', `\${aws:PrincipalAccount}`), true],
  [held('ArnLike', 's3:DataAccessPointArn', 'arn:aws:s3:*:111122223333:accesspoint/*'), false],
  [held('ArnLike', 's3:DataAccessPointArn', 'arn:aws:s3:*:*:accesspoint/a'), true],
  [held('StringLike', 'aws:Referer', 'https://example.com/*'), true],
  [held('Bool', 'aws:SecureTransport', 'true'), true],
  [held('Null', 'aws:SourceVpc', 'true'), true],
  // ::ffff:0:0/96 contains all of IPv4, and so does every range around it.
  [held('IpAddress', 'aws:SourceIp', '::/32'), true],
  [held('IpAddress', 'aws:SourceIp', '::/64'), true],
  [held('IpAddress', 'aws:SourceIp', '::ffff:0:0/96'), true],
  [held('IpAddress', 'aws:SourceIp', '0:0:0:0:0:ffff::/95'), true],
  [held('IpAddress', 'aws:SourceIp', '::ffff:8.0.0.0/103'), true],
  [held('IpAddress', 'aws:SourceIp', '::ffff:8.0.0.0/104'), false],
  [held('IpAddress', 'aws:SourceIp', '::1/128'), false],
  // Narrow ranges that together contain the whole internet.
  [
    held(
      'IpAddress',
      'aws:SourceIp',
      Array.from({ length: 256 }, (_, first) => `${first}.0.0.0/8`),
    ),
    true,
  ],
  [
    held(
      'IpAddress',
      'aws:SourceIp',
      Array.from({ length: 200 }, (_, last) => `203.0.${last}.0/24`),
    ),
    false,
  ],
  // `anonymous` is the user id of anonymous requests.
  [held('StringEquals', 'aws:userid', 'anonymous'), true],
  [held('StringEqualsIgnoreCase', 'aws:userid', ['AIDAEXAMPLE', 'ANONYMOUS']), true],
  [held('StringEquals', 'aws:userid', 'AIDAEXAMPLE'), false],
  // Every caller can send this header.
  [held('StringEquals', 's3:x-amz-server-side-encryption-aws-kms-key-id', 'arn:aws:kms:x:a:key/k'), true],
  [held('Null', 'aws:PrincipalAccount', 'true'), true],
  [held('Null', 'aws:PrincipalAccount', 'false'), true],
  [
    { Condition: { StringEquals: { 'aws:PrincipalAccount': 'a' }, Bool: { 'aws:SecureTransport': 'true' } } },
    false,
  ],
])('%j: %s', (statement, expected) => {
  const document = parse('bucket', statement);
  expect(isPublicPolicy(document)).toBe(expected);
  expect(isPublicPolicy(document)).toBe(expected);
  expect(isPublicPolicy(parse('bucket', { Principal: { AWS: 'a' } }, statement))).toBe(expected);
});

test('an ACL is public when it grants anything to everyone or to everyone with an account', () => {
  const to = (group: 'AllUsers' | 'AuthenticatedUsers' | 'LogDelivery'): boolean =>
    isPublicAcl([{ grantee: { is: 'group', group }, permission: 'READ' }]);
  expect([to('AllUsers'), to('AuthenticatedUsers'), to('LogDelivery')]).toEqual([true, true, false]);
  expect(isPublicAcl([{ grantee: { is: 'user', id: 'a' }, permission: 'FULL_CONTROL' }])).toBe(false);
});
