/** `isPublicPolicy` against a slow and simple model: the engine evaluates many unknown callers with all values that they can choose. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { evaluate } from '../../../src/auth/policy/evaluate.ts';
import { isPublicPolicy } from '../../../src/auth/policy/public-status.ts';
import { anonymous, ask, parse, rootOf, userOf, type Written } from './world.ts';

/** Callers that no policy of this test names. */
const crowd = [
  anonymous,
  rootOf('999988887777'),
  userOf('999988887777', 'stranger'),
  {
    kind: 'session',
    account: '999988887777',
    arn: 'arn:aws:iam::999988887777:role/other',
    sessionArn: 'arn:aws:sts::999988887777:assumed-role/other/x',
    userid: 'AROAOTHER:x',
  },
] as const;

/** The values that an unknown caller may have for each key: none, its own ones, and any that a wildcard matches. */
const own: Readonly<Record<string, readonly (string | undefined)[]>> = {
  'aws:SourceVpc': [undefined, 'vpc-strangers', 'vpc-9strangers'],
  'aws:SourceArn': [undefined, 'arn:aws:s3:::strangers'],
  'aws:SourceAccount': [undefined, '999988887777'],
  'aws:Referer': [undefined, 'https://example.com/'],
  'aws:SecureTransport': ['true', 'false'],
};
/** One address in each half of the /8 networks that are routed, with its neighbours in IPv6. */
const addresses = Array.from({ length: 224 }, (_, first) => first)
  .filter((first) => ![0, 10, 127].includes(first))
  .flatMap((first) => [`${first}.64.0.1`, `${first}.200.0.1`]);
/** The number of test addresses in one /8 network. */
const fewAddresses = 2;

/** Only known callers have the fixed values; every caller can choose values that match a wildcard. */
const conditions: readonly Written[] = [
  { StringEquals: { 'aws:SourceVpc': 'vpc-91237329' } },
  { StringLike: { 'aws:SourceVpc': 'vpc-9*' } },
  { StringNotEquals: { 'aws:SourceVpc': 'vpc-91237329' } },
  { StringEqualsIfExists: { 'aws:SourceVpc': 'vpc-91237329' } },
  { 'ForAllValues:StringEquals': { 'aws:SourceVpc': 'vpc-91237329' } },
  { Null: { 'aws:SourceVpc': 'false' } },
  { ArnLike: { 'aws:SourceArn': 'arn:aws:s3:::photos' } },
  { ArnLike: { 'aws:SourceArn': 'arn:aws:s3:::*' } },
  { StringEquals: { 'aws:SourceAccount': '111122223333' } },
  { StringEquals: { 'aws:userid': 'anonymous' } },
  { StringEqualsIgnoreCase: { 'aws:userid': ['AIDAALICE', 'Anonymous'] } },
  { StringEquals: { 'aws:userid': 'AIDAALICE' } },
  { StringLike: { 'aws:userid': 'AROAREADER:*' } },
  { StringEquals: { 'aws:PrincipalAccount': '111122223333' } },
  { StringNotEquals: { 'aws:PrincipalAccount': '111122223333' } },
  { Null: { 'aws:PrincipalAccount': 'true' } },
  { StringEquals: { 'aws:Referer': 'https://example.com/' } },
  { Bool: { 'aws:SecureTransport': 'true' } },
  ...[
    '203.0.113.0/24',
    '8.0.0.0/8',
    '8.0.0.0/7',
    '0.0.0.0/0',
    '::/0',
    '::/32',
    '::ffff:0:0/96',
    '::/80',
  ].flatMap((range): Written[] => [
    { IpAddress: { 'aws:SourceIp': range } },
    { IpAddressIfExists: { 'aws:SourceIp': range } },
    { NotIpAddress: { 'aws:SourceIp': range } },
  ]),
];

const keysOf = (chosen: readonly Written[]): readonly string[] =>
  chosen.flatMap((condition) => Object.values(condition).flatMap((block) => Object.keys(block as object)));

type Context = Readonly<Record<string, string>>;

/** Every combination of values for these keys, apart from the source address. */
const mannersOf = (keys: readonly string[]): readonly Context[] =>
  Object.entries(own)
    .filter(([key]) => keys.includes(key))
    .reduce<readonly Context[]>(
      (ways, [key, values]) =>
        ways.flatMap((way) => values.map((value) => (value === undefined ? way : { ...way, [key]: value }))),
      [{}],
    );

/** Public means: some unknown caller is allowed from more addresses than one narrow range holds. */
function isPublicInModel(document: ReturnType<typeof parse>, keys: readonly string[]): boolean {
  const policies = [{ name: 'bucket', document }];
  const allows = (principal: (typeof crowd)[number], context: Context): boolean =>
    evaluate(ask({ principal, context }), policies).effect === 'Allow';
  return crowd.some((principal) =>
    mannersOf(keys).some((manner) => {
      // A request without a source address: the gateway may not know the peer.
      if (allows(principal, manner)) return true;
      if (!keys.includes('aws:SourceIp')) return false;
      let count = 0;
      for (const address of addresses) {
        if (allows(principal, { ...manner, 'aws:SourceIp': address })) count += 1;
        if (count > fewAddresses) return true;
      }
      return false;
    }),
  );
}

test('a policy is public exactly where the model finds strangers that it allows', () => {
  const merged = (chosen: readonly Written[]): Written => {
    const Condition: Record<string, Record<string, unknown>> = {};
    for (const condition of chosen)
      for (const [operator, block] of Object.entries(condition as Record<string, Record<string, unknown>>))
        Condition[operator] = { ...Condition[operator], ...block };
    return chosen.length === 0 ? {} : { Condition };
  };
  const principals = fc.constantFrom<unknown>(
    '*',
    { AWS: '*' },
    { AWS: '111122223333' },
    { AWS: ['111122223333', '*'] },
    { AWS: 'arn:aws:iam::111122223333:user/alice' },
    { CanonicalUser: '111122223333' },
    { Service: 'logging.s3.amazonaws.com' },
  );
  const seen = { public: 0, held: 0 };
  fc.assert(
    fc.property(principals, fc.subarray([...conditions], { maxLength: 3 }), (Principal, chosen) => {
      const document = parse('bucket', { Principal, ...merged(chosen) });
      const keys = keysOf(chosen);
      const expected = isPublicInModel(document, keys);
      seen[expected ? 'public' : 'held'] += 1;
      // Conditions on one key that no single value meets count as met, which is the safe error.
      const isExact = new Set(keys).size === keys.length;
      if (expected || isExact)
        expect(isPublicPolicy(document), JSON.stringify({ Principal, chosen })).toBe(expected);
    }),
    { numRuns: 600 },
  );
  expect(Math.min(seen.public, seen.held)).toBeGreaterThan(50);
});
