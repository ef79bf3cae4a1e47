/** Every condition operator, in every form, answers as the slow model does: random policies and random requests. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parsePolicy } from '../../../src/auth/policy/document.ts';
import { evaluate } from '../../../src/auth/policy/evaluate.ts';
import { operators } from '../../../src/auth/policy/operators.ts';
import { type ModelStatement, model } from './model.ts';
import { alice, anonymous, ask, mallory } from './world.ts';

const tag = 's3:ExistingObjectTag/mark';
const epoch = String(Date.UTC(2026, 0, 31) / 1000);

interface Family {
  readonly names: readonly string[];
  readonly keys: readonly string[];
  /** Values in policies. */
  readonly wanted: readonly string[];
  /** Values in requests, some of them not of the operator's type. */
  readonly given: readonly string[];
}
const orders = ['Equals', 'NotEquals', 'LessThan', 'LessThanEquals', 'GreaterThan', 'GreaterThanEquals'];
const texts = ['a', 'A', 'alice', 'ALICE', 'photos/a', 'Photos/A', ''];
const families: readonly Family[] = [
  {
    names: ['IpAddress', 'NotIpAddress'],
    keys: ['aws:SourceIp', tag],
    wanted: [
      ...['192.0.2.0/24', '192.0.2.7', '192.0.2.6/31', '10.0.0.0/8', '0.0.0.0/0', '::/0', '::1'],
      ...['::ffff:192.0.2.0/120', '::ffff:0:0/96', '::ffff:c000:207', '2001:db8::/32', '2001:DB8:0:1::/63'],
    ],
    given: [
      ...['192.0.2.7', '::ffff:192.0.2.7', '::FFFF:c000:0207', '192.0.2.8', '10.1.2.3', '::1'],
      ...['2001:db8::1', '2001:db8:0:1::9', '2001:db9::1', 'fe80::1%eth0', '192.0.2.07', 'nowhere', ''],
    ],
  },
  {
    names: orders.map((order) => `Date${order}`),
    keys: ['aws:CurrentTime', 'aws:EpochTime', tag],
    wanted: ['2026-01-31T00:00:00Z', '2026-01-31', '2026-01', '2026', epoch, '2026-01-31T02:00:00+02:00'],
    given: [
      ...['2026-01-31T00:00:00Z', '2026-01-31T00:00:00.500Z', '2026-01-31', '2026-01-01', epoch],
      ...['2026-01-30T23:00:00-01:00', '2027', '2026-02-30', 'yesterday'],
    ],
  },
  {
    names: orders.map((order) => `Numeric${order}`),
    keys: ['s3:max-keys', 'aws:EpochTime', tag],
    wanted: ['0', '10', '10.0', '-1', '9.5'],
    given: ['0', '-0', '10', '010', '9.5', '1000', 'ten'],
  },
  {
    names: ['Bool'],
    keys: ['aws:SecureTransport', tag],
    wanted: ['true', 'True', 'false', 'FALSE'],
    given: ['true', 'TRUE', 'false', 'yes', ''],
  },
  {
    names: ['BinaryEquals'],
    keys: ['s3:prefix', tag],
    wanted: ['a', 'é', 'alice', ''].map((text) => Buffer.from(text).toString('base64')),
    given: ['a', 'A', 'é', 'alice', 'YQ==', ''],
  },
  {
    names: ['StringEquals', 'StringNotEquals', 'StringEqualsIgnoreCase', 'StringNotEqualsIgnoreCase'],
    keys: ['s3:prefix', 'aws:TagKeys', tag],
    wanted: [...texts, `\${aws:username}`, `x\${aws:username}`],
    given: texts,
  },
  {
    names: ['StringLike', 'StringNotLike'],
    keys: ['s3:prefix', 'aws:TagKeys', tag],
    wanted: ['*', 'a*', '?', '*/a', 'P?otos/*', `\${aws:username}*`, `\${*}`],
    given: [...texts, '*'],
  },
  {
    names: ['ArnLike', 'ArnNotLike', 'ArnEquals', 'ArnNotEquals'],
    keys: ['aws:SourceArn', tag],
    wanted: ['*', 'arn:aws:s3:::photos', 'arn:aws:s3:::*', 'arn:aws:s3:*:*:p?otos', 'arn:*:sns:*:*:*'],
    given: ['arn:aws:s3:::photos', 'arn:aws:s3:::plotos', 'arn:aws:sns:here:1:a:b', 'arn:aws:s3:x::photos'],
  },
];
const multivalued = 'aws:TagKeys';

interface Case {
  readonly statement: ModelStatement;
  readonly context: Readonly<Record<string, string | readonly string[]>>;
}
const forms = (name: string, key: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom(...(key === multivalued ? [] : ['', '']), 'ForAllValues:', 'ForAnyValue:'),
      fc.constantFrom('', 'IfExists'),
    )
    .map(([quantifier, suffix]) => `${quantifier}${name}${suffix}`);

function valuesFor(key: string, given: readonly string[]): fc.Arbitrary<string | readonly string[]> {
  const each = fc.constantFrom(...given);
  return key === multivalued ? fc.array(each, { maxLength: 3 }) : each;
}

const cases: fc.Arbitrary<Case> = fc.constantFrom(...families).chain((family) =>
  fc.tuple(fc.constantFrom(...family.names), fc.constantFrom(...family.keys)).chain(([name, key]) =>
    fc
      .record({
        Effect: fc.constantFrom('Allow' as const, 'Allow' as const, 'Allow' as const, 'Deny' as const),
        form: forms(name, key),
        wanted: fc.array(fc.constantFrom(...family.wanted), { minLength: 1, maxLength: 3 }),
        given: fc.option(valuesFor(key, family.given), { nil: undefined, freq: 6 }),
        isNull: fc.constantFrom(undefined, undefined, undefined, undefined, 'true', 'false'),
      })
      .map(({ Effect, form, wanted, given, isNull }) => ({
        statement: {
          Effect,
          Action: '*',
          Resource: '*',
          Condition: {
            [form]: { [key]: wanted },
            ...(isNull === undefined ? {} : { Null: { [key]: isNull } }),
          },
        },
        context: given === undefined ? {} : { [key]: given },
      })),
  ),
);

test('every condition operator answers as the slow model does', () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.info(`seed ${seed}`);
  const counts = { cases: 0, allowed: 0 };
  const seen = new Set<string>();
  fc.assert(
    fc.property(cases, fc.constantFrom(alice, mallory, anonymous), ({ statement, context }, principal) => {
      // Add an Allow without conditions, so that a Deny that does not apply leaves the request allowed.
      const allow: ModelStatement = { Effect: 'Allow', Action: '*', Resource: '*' };
      const written = statement.Effect === 'Deny' ? [allow, statement] : [statement];
      const document = parsePolicy(JSON.stringify({ Version: '2012-10-17', Statement: written }), {
        kind: 'identity',
      });
      const request = ask({ principal, context });
      const { effect } = evaluate(request, [{ name: 'policy', document }]);
      expect(effect).toBe(model(request, [written]).split(' ')[0]);
      for (const form of Object.keys(statement.Condition ?? {}))
        seen.add(`${effect} ${form.replace(/^.*:|IfExists$/g, '')}`);
      counts.cases += 1;
      if (effect === 'Allow') counts.allowed += 1;
    }),
    { numRuns: 12_000, seed },
  );
  expect(counts.allowed / counts.cases).toBeGreaterThan(1 / 3);
  for (const name of [...operators.keys(), 'Null'])
    for (const effect of ['Allow', 'None', 'Deny'])
      expect(seen, `seed ${seed}`).toContain(`${effect} ${name}`);
});
