/** Policies of one kind: results agree with the slow model, traces name each statement, and an error never turns a Deny into an Allow. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parsePolicy } from '../../../src/auth/policy/document.ts';
import { evaluate, type Policy, policyBytes, type Trace } from '../../../src/auth/policy/evaluate.ts';
import type { PolicyRequest } from '../../../src/auth/policy/request.ts';
import { type ModelStatement, model } from './model.ts';
import {
  alice,
  anonymous,
  ask,
  away,
  home,
  logging,
  mallory,
  policy,
  rootOf,
  session,
  userOf,
} from './world.ts';

const pick = fc.constantFrom<string[]>;
const some = <T>(each: fc.Arbitrary<T>): fc.Arbitrary<T | readonly T[]> =>
  fc.oneof(each, fc.array(each, { minLength: 1, maxLength: 3 }));

const principals = [
  alice,
  mallory,
  session,
  logging,
  anonymous,
  rootOf(home),
  rootOf(away),
  userOf(home, 'bob'),
  userOf(home, '*'),
];
const names = fc.oneof(
  fc.constant<'*'>('*'),
  fc.record(
    {
      AWS: some(
        pick(
          '*',
          home,
          `arn:aws:iam::${away}:root`,
          alice.arn,
          mallory.arn,
          session.arn,
          session.sessionArn ?? '',
        ),
      ),
      CanonicalUser: some(pick(home, away)),
      Service: some(pick('logging.s3.amazonaws.com', 'other.amazonaws.com')),
    },
    { requiredKeys: ['AWS'] },
  ),
);
const actions = some(
  pick('s3:*', '*', 's3:Get*', 's3:GetObject', 's3:getobject', 's3:?etObject', 's3:PutObject', 's3:*Object*'),
);
const resources = some(
  pick(
    '*',
    'arn:aws:s3:::*',
    'arn:aws:s3:::photos/*',
    'arn:aws:s3:::photos/cat.jpg',
    'arn:aws:s3:::p?otos/*t*',
    'arn:*:s3:::photos/*',
    'arn:aws:s3:*:*:photos/*',
    `arn:aws:s3:::photos/\${aws:username}/*`,
    `arn:aws:s3:::photos/\${*}`,
  ),
);
const texts = ['', 'a', 'b', 'A', 'home/alice/x', 'home/*', '*'];
const patterns = some(
  pick(...texts, 'h*', '?', '*/*', `home/\${aws:username}/*`, `\${s3:delimiter}`, `\${?}`),
);
const textBlock = fc.dictionary(
  pick('s3:prefix', 's3:delimiter', 's3:VersionId', 'aws:username', 'aws:userid'),
  patterns,
  { minKeys: 1, maxKeys: 2 },
);
const quantifiers = pick('', '', 'ForAllValues:', 'ForAnyValue:');
const suffixes = pick('', '', 'IfExists');
const operatorOf = (...bases: string[]): fc.Arbitrary<string> =>
  fc.tuple(quantifiers, pick(...bases), suffixes).map((parts) => parts.join(''));
const block = (
  key: string,
  values: fc.Arbitrary<string>,
): fc.Arbitrary<Record<string, string | readonly string[]>> =>
  some(values).map((given) => ({ [key]: given }));
const numbers = pick('1', '2', '10', '-3', '0.5');
const dates = pick('2026-01-01T00:00:00Z', '2026-06-01T12:00:00Z', '2027-01-01T00:00:00Z');
const arns = pick('arn:aws:s3:::photos', 'arn:aws:s3:eu:1:video', 'arn:aws:sns:eu:1:topic:x');
const arnPatterns = fc.oneof(
  arns,
  pick('arn:aws:s3:::*', 'arn:aws:s3:*:*:*', 'arn:*:sns:*:?:*x', `arn:aws:s3:::\${s3:delimiter}`),
);
const entries = fc.oneof(
  fc.tuple(operatorOf('StringEquals', 'StringNotEquals', 'StringLike', 'StringNotLike'), textBlock),
  fc.tuple(
    operatorOf('NumericEquals', 'NumericNotEquals', 'NumericLessThan', 'NumericGreaterThanEquals'),
    block('s3:max-keys', numbers),
  ),
  fc.tuple(operatorOf('DateLessThan'), block('aws:CurrentTime', dates)),
  fc.tuple(operatorOf('Bool'), block('aws:SecureTransport', pick('true', 'false'))),
  fc.tuple(operatorOf('ArnLike', 'ArnNotLike'), block('aws:SourceArn', arnPatterns)),
  fc.tuple(pick('Null'), block('s3:prefix', pick('true', 'false'))),
  fc.tuple(
    fc
      .tuple(
        pick('ForAllValues:', 'ForAnyValue:'),
        pick('StringLike', 'StringNotLike', 'StringEquals', 'StringNotEquals'),
        suffixes,
      )
      .map((parts) => parts.join('')),
    block('aws:TagKeys', pick('a', 'b', 'h*')),
  ),
);
const conditions = fc.array(entries, { maxLength: 2 }).map((pairs) => Object.fromEntries(pairs));

const statements = (kind: 'bucket' | 'identity'): fc.Arbitrary<ModelStatement> =>
  fc
    .record({
      deny: fc.boolean(),
      not: fc.record({ principal: fc.boolean(), action: fc.boolean(), resource: fc.boolean() }),
      names,
      actions,
      resources,
      Condition: conditions,
    })
    .map(({ deny, not, names: named, actions: Action, resources: Resource, Condition }) => ({
      Effect: deny ? 'Deny' : 'Allow',
      ...(kind === 'identity' ? {} : deny && not.principal ? { NotPrincipal: named } : { Principal: named }),
      ...(not.action ? { NotAction: Action } : { Action }),
      ...(not.resource ? { NotResource: Resource } : { Resource }),
      Condition,
    }));
const requests: fc.Arbitrary<PolicyRequest> = fc
  .record({
    principal: fc.constantFrom(...principals),
    action: pick('s3:GetObject', 's3:PutObject', 's3:DeleteObject'),
    resource: pick(
      'arn:aws:s3:::photos/cat.jpg',
      'arn:aws:s3:::photos/alice/x',
      'arn:aws:s3:::photos',
      'arn:aws:s3:::photos/*',
    ),
    context: fc.record(
      {
        's3:prefix': fc.oneof(pick(...texts), fc.array(pick(...texts), { maxLength: 3 })),
        's3:delimiter': pick(...texts),
        's3:VersionId': pick(...texts),
        's3:max-keys': numbers,
        'aws:CurrentTime': dates,
        'aws:SecureTransport': pick('true', 'false'),
        'aws:SourceArn': arns,
        'aws:TagKeys': fc.array(pick('a', 'b', 'home'), { maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
  })
  .map(ask);

describe('the engine agrees with the model', () => {
  test.each(['bucket', 'identity'] as const)('on %s policies', (kind) => {
    const policies = fc.array(fc.array(statements(kind), { minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 3,
    });
    const asked = fc.array(requests, { minLength: 1, maxLength: 3 });
    const seen = new Set<string>();
    fc.assert(
      fc.property(policies, asked, (written, several) => {
        const parsed = written.map(
          (Statement, index): Policy => ({
            name: String(index),
            document: parsePolicy(JSON.stringify({ Version: '2012-10-17', Statement }), { kind }),
          }),
        );
        // Evaluate many requests with one document, because one evaluation must not change the next.
        for (const request of several) {
          const decision = evaluate(request, parsed);
          const said = decision.effect === 'Allow' ? `Allow ${decision.reach}` : decision.effect;
          seen.add(said);
          expect(said).toBe(model(request, written));
          const trace: Trace = [];
          expect(evaluate(request, parsed, trace)).toEqual(decision);
          expect(trace).toHaveLength(written.flat().length);
        }
      }),
      { numRuns: 1500 },
    );
    expect(seen.size).toBe(kind === 'bucket' ? 4 : 3);
  });
});

test('variables have the values of each request', () => {
  const own = policy('identity', { Resource: `arn:aws:s3:::photos/\${aws:username}/\${s3:prefix}/*` });
  const effect = (username: string, prefix: string, resource: string): string =>
    evaluate(
      ask({
        principal: userOf(home, username),
        context: { 's3:prefix': prefix },
        resource: `arn:aws:s3:::photos/${resource}`,
      }),
      [own],
    ).effect;
  expect(effect('alice', 'a', 'alice/a/x')).toBe('Allow');
  expect(effect('bob', 'a', 'alice/a/x')).toBe('None');
  expect(effect('bob', 'a', 'bob/a/x')).toBe('Allow');
  expect(effect('bob', 'b', 'bob/a/x')).toBe('None');
  expect(effect('bob', 'b', 'bob/b/x')).toBe('Allow');
  expect(evaluate(ask({ principal: session, resource: 'arn:aws:s3:::photos/bob/b/x' }), [own]).effect).toBe(
    'None',
  );
});

describe('a Deny never fails open', () => {
  const whole = { Effect: 'Deny', Principal: '*', Action: 's3:*', Resource: '*' };
  test('denies where its condition cannot be evaluated', () => {
    for (const [operator, key, wanted] of [
      ['IpAddress', 'aws:SourceIp', '10.0.0.0/8'],
      ['NotIpAddress', 'aws:SourceIp', '10.0.0.0/8'],
      ['NumericGreaterThan', 's3:max-keys', '5'],
      ['Bool', 'aws:SecureTransport', 'false'],
      ['DateGreaterThan', 'aws:CurrentTime', '2026-01-01'],
    ] as const) {
      const denying = policy('bucket', { ...whole, Condition: { [operator]: { [key]: wanted } } });
      expect(evaluate(ask({ context: { [key]: '\0' } }), [denying]).effect).toBe('Deny');
    }
  });

  test('a Deny wins over every Allow, in any order', () => {
    const allow = policy('bucket', {}, {});
    const deny = policy('bucket', {}, whole);
    expect(evaluate(ask(), [allow, deny]).effect).toBe('Deny');
    expect(evaluate(ask(), [deny, allow]).effect).toBe('Deny');
    expect(evaluate(ask(), [allow]).effect).toBe('Allow');
    expect(evaluate(ask(), []).effect).toBe('None');
  });

  test('NotPrincipal exempts the named callers; an account exempts its root only', () => {
    const sparing = policy('bucket', {
      Effect: 'Deny',
      NotPrincipal: { AWS: [alice.arn, `arn:aws:iam::${home}:root`] },
    });
    const effect = (principal: PolicyRequest['principal']): string =>
      evaluate(ask({ principal }), [sparing]).effect;
    expect([alice, rootOf(home)].map(effect)).toEqual(['None', 'None']);
    expect([userOf(home, 'bob'), rootOf(away), mallory, anonymous, session, logging].map(effect)).toEqual(
      Array(6).fill('Deny'),
    );
  });

  test('NotAction and NotResource leave out what they name and nothing else', () => {
    const only = policy(
      'bucket',
      { Effect: 'Deny', NotAction: 's3:GetObject' },
      { Effect: 'Deny', NotResource: 'arn:aws:s3:::photos/pub/*' },
    );
    const effect = (action: string, resource: string): string =>
      evaluate(ask({ action, resource }), [only]).effect;
    expect(effect('s3:GetObject', 'arn:aws:s3:::photos/pub/x')).toBe('None');
    expect(effect('S3:getobject', 'arn:aws:s3:::photos/pub/x')).toBe('None');
    expect(effect('s3:PutObject', 'arn:aws:s3:::photos/pub/x')).toBe('Deny');
    expect(effect('s3:GetObject', 'arn:aws:s3:::photos/Pub/x')).toBe('Deny');
  });

  test('an unresolved variable neither widens an Allow nor narrows a Deny', () => {
    const mine = `arn:aws:s3:::photos/\${aws:username}/*`;
    const effect = (statement: Readonly<Record<string, unknown>>): string =>
      evaluate(ask({ principal: session }), [policy('identity', { Action: 's3:*', ...statement })]).effect;
    expect(effect({ NotResource: mine })).toBe('None');
    expect(effect({ Effect: 'Deny', NotResource: mine })).toBe('Deny');
    expect(effect({ Resource: mine })).toBe('None');
    expect(effect({ Resource: [mine, '*'] })).toBe('Allow');
  });

  test('version 2008-10-17 has no variables', () => {
    const text = JSON.stringify({
      Statement: { Effect: 'Allow', Action: 's3:*', Resource: `arn:aws:s3:::photos/\${aws:username}` },
    });
    const old: Policy = { name: 'old', document: parsePolicy(text, { kind: 'identity' }) };
    expect(evaluate(ask({ resource: 'arn:aws:s3:::photos/alice' }), [old]).effect).toBe('None');
    expect(evaluate(ask({ resource: `arn:aws:s3:::photos/\${aws:username}` }), [old]).effect).toBe('Allow');
  });
});

test('a trace names the statement that decided, and why the others did not', () => {
  const trace: Trace = [];
  const bucket = policy(
    'bucket',
    { Sid: 'write', Action: 's3:PutObject' },
    { Resource: 'arn:aws:s3:::video/*' },
    { Principal: { AWS: away } },
    { Condition: { Bool: { 'aws:SecureTransport': true } } },
    { Sid: 'read' },
  );
  const decision = evaluate(ask({ context: { 'aws:SecureTransport': 'false' } }), [bucket], trace);
  expect(decision).toEqual({
    effect: 'Allow',
    reach: 'direct',
    by: { policy: 'bucket', statement: 4, sid: 'read' },
  });
  expect(trace.map(({ outcome, condition }) => condition ?? outcome)).toEqual([
    'other-action',
    'other-resource',
    'other-principal',
    'Bool aws:SecureTransport',
    'applies',
  ]);
  expect(trace[0]).toEqual({
    policy: 'bucket',
    statement: 0,
    sid: 'write',
    effect: 'Allow',
    outcome: 'other-action',
  });
});

test('the Allow with the widest reach decides, in any order, with and without a trace', () => {
  const direct = { Sid: 'direct', Principal: '*' } as const;
  const account = { Sid: 'account', Principal: { AWS: home } } as const;
  for (const statements of [
    [direct, account],
    [account, direct],
  ])
    for (const trace of [undefined, [] as Trace])
      expect(evaluate(ask(), [policy('bucket', ...statements)], trace)).toMatchObject({
        reach: 'direct',
        by: { sid: 'direct' },
      });
});

test('of two Allows that reach as far the first one is named', () => {
  const each = (Sid: string) => ({ Sid, Principal: { AWS: home } });
  expect(evaluate(ask(), [policy('bucket', each('first'), each('second'))])).toMatchObject({
    reach: 'account',
    by: { sid: 'first' },
  });
});

test('a cached policy counts with what its document holds compiled, and with its name', () => {
  const short = policy('bucket', {});
  const long = policy('bucket', {}, { Resource: `arn:aws:s3:::photos/${'a'.repeat(1_000)}/*` });
  expect(policyBytes(short)).toBeGreaterThan(JSON.stringify(short.document.statements.length).length);
  expect(policyBytes(long) - policyBytes(short)).toBeGreaterThan(2_000);
  expect(policyBytes({ ...short, name: `${short.name}${'n'.repeat(500)}` })).toBe(policyBytes(short) + 1_000);
});
