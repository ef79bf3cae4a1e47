/** The rules that combine identity, bucket, session and access point policies, ACLs and public access block. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Access,
  type BucketSide,
  decide,
  decideTrust,
  type Grant,
  type Permission,
} from '../../../src/auth/policy/decision.ts';
import type { Policy, Trace } from '../../../src/auth/policy/evaluate.ts';
import type { Principal } from '../../../src/auth/policy/request.ts';
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
  type Written,
} from './world.ts';

const bob = userOf(home, 'bob');
const callers = {
  anonymous,
  root: rootOf(home),
  alice,
  bob,
  session,
  otherRoot: rootOf(away),
  mallory,
  logging,
};
type Caller = keyof typeof callers;
const everyone = Object.keys(callers) as readonly Caller[];

const all: Written = { Action: 's3:*', Resource: '*' };
const allowAll = policy('identity', all);
const denyAll = policy('identity', { ...all, Effect: 'Deny' });
const bucketPolicy = (...statements: readonly Written[]): Policy =>
  policy('bucket', ...statements.map((statement) => ({ ...all, ...statement })));
const grant = (grantee: string, permission: Permission = 'FULL_CONTROL'): Grant => ({
  permission,
  grantee:
    grantee === 'AllUsers' || grantee === 'AuthenticatedUsers' || grantee === 'LogDelivery'
      ? { is: 'group', group: grantee }
      : { is: 'user', id: grantee },
});

interface Setting {
  readonly action?: string;
  readonly identity?: readonly Policy[];
  readonly session?: readonly Policy[];
  readonly boundary?: readonly Policy[];
  readonly bucket?: Partial<BucketSide>;
  readonly accessPoint?: Access['accessPoint'];
}
function accessOf(principal: Principal, setting: Setting): Access {
  const { action = 's3:GetObject', identity = [], bucket, ...more } = setting;
  const acls = { bucket: [], object: [] };
  return {
    request: ask({ principal, action }),
    identity,
    bucket: { owner: home, acls, ownership: 'ObjectWriter', ...bucket },
    ...more,
  };
}
const verdict = (caller: Caller, setting: Setting = {}): ReturnType<typeof decide> =>
  decide(accessOf(callers[caller], setting));
const whoMay = (setting: Setting = {}): readonly Caller[] =>
  everyone.filter((caller) => verdict(caller, setting).allowed);
/** Identity policies belong to users and roles; roots, services and anonymous callers have none. */
const withIdentity = (identity: Policy, setting: Setting = {}): readonly Caller[] =>
  everyone.filter((caller) => {
    const has = ['user', 'session'].includes(callers[caller].kind);
    return verdict(caller, { ...setting, identity: has ? [identity] : [] }).allowed;
  });

describe('one side alone', () => {
  test('without policies only the root of the account is allowed', () => {
    expect(whoMay()).toEqual(['root']);
    expect(verdict('root').reason).toBe('root');
    expect(verdict('alice')).toEqual({ allowed: false, reason: 'nothing-allows' });
  });
  test('an identity policy allows users of the account, and none of another', () => {
    expect(withIdentity(allowAll)).toEqual(['root', 'alice', 'bob', 'session']);
    expect(verdict('mallory', { identity: [allowAll] })).toMatchObject({
      allowed: false,
      reason: 'other-account',
    });
  });
  test('a bucket policy that names a user allows that user', () => {
    const bucket = { policy: bucketPolicy({ Principal: { AWS: alice.arn } }) };
    expect(whoMay({ bucket })).toEqual(['root', 'alice']);
    expect(verdict('alice', { bucket })).toMatchObject({
      reason: 'bucket-policy',
      by: { policy: 'bucket', statement: 0 },
    });
  });
  test('a bucket policy that names an account leaves it to the policies there', () => {
    const own = { policy: bucketPolicy({ Principal: { AWS: home } }) };
    expect(whoMay({ bucket: own })).toEqual(['root']);
    const other = { policy: bucketPolicy({ Principal: { AWS: away } }) };
    expect(whoMay({ bucket: other })).toEqual(['root', 'otherRoot']);
    expect(withIdentity(allowAll, { bucket: other })).toContain('mallory');
  });
  test('a bucket policy for everyone allows anonymous callers; users of other accounts also need an identity policy', () => {
    const bucket = { policy: bucketPolicy({ Principal: '*' }) };
    expect(whoMay({ bucket })).toEqual([
      'anonymous',
      'root',
      'alice',
      'bob',
      'session',
      'otherRoot',
      'logging',
    ]);
    expect(withIdentity(allowAll, { bucket })).toEqual(everyone);
  });
  test('a service is allowed by its name only', () => {
    const bucket = { policy: bucketPolicy({ Principal: { Service: 'logging.s3.amazonaws.com' } }) };
    expect(whoMay({ bucket })).toEqual(['root', 'logging']);
  });
});

describe('an explicit Deny', () => {
  const open = bucketPolicy({ Principal: '*' });
  test('of an identity, session, bucket or access point policy wins over everything', () => {
    const grants = [grant('AllUsers'), grant(home)];
    const bucket = { policy: open, acls: { bucket: grants, object: grants } };
    const accessPoint = {
      owner: home,
      resource: 'arn:aws:s3:default:1:accesspoint/a/object/x',
      policy: open,
    };
    expect(verdict('alice', { bucket, identity: [allowAll] }).allowed).toBe(true);
    const denying: readonly Setting[] = [
      { identity: [allowAll, denyAll] },
      { identity: [allowAll], session: [denyAll] },
      {
        identity: [allowAll],
        bucket: { ...bucket, policy: bucketPolicy({ Principal: '*' }, { Effect: 'Deny', Principal: '*' }) },
      },
      {
        identity: [allowAll],
        accessPoint: { ...accessPoint, policy: bucketPolicy({ Effect: 'Deny', Principal: '*' }) },
      },
    ];
    for (const setting of denying)
      expect(verdict('alice', { bucket, ...setting })).toMatchObject({
        allowed: false,
        reason: 'explicit-deny',
      });
  });
  test('of the bucket policy holds for the root too, except where it would lock the owner out', () => {
    const bucket = { policy: bucketPolicy({ Effect: 'Deny', Principal: '*' }) };
    expect(whoMay({ bucket })).toEqual([]);
    for (const action of ['s3:GetBucketPolicy', 's3:PutBucketPolicy', 's3:DeleteBucketPolicy'])
      expect(withIdentity(allowAll, { bucket, action })).toEqual(['root']);
    for (const action of ['s3:PutBucketAcl', 's3:DeleteBucket', 's3:GetBucketPolicyStatus'])
      expect(whoMay({ bucket, action })).toEqual([]);
  });
});

describe('ACLs', () => {
  const readable = (...grants: readonly Grant[]): Partial<BucketSide> => ({
    acls: { bucket: [], object: grants },
  });
  test('and the bucket policy are a union', () => {
    const bucket = {
      ...readable(grant('AllUsers', 'READ')),
      policy: bucketPolicy({ Principal: '*', Action: 's3:PutObject' }),
    };
    expect(whoMay({ bucket })).toContain('anonymous');
    expect(whoMay({ bucket, action: 's3:PutObject' })).toContain('anonymous');
    expect(whoMay({ bucket, action: 's3:DeleteObject' })).toEqual(['root']);
  });
  test('allow groups and accounts; an account decides about its users', () => {
    expect(whoMay({ bucket: readable(grant('AllUsers', 'READ')) })).not.toContain('mallory');
    expect(withIdentity(allowAll, { bucket: readable(grant('AllUsers', 'READ')) })).toEqual(everyone);
    expect(withIdentity(allowAll, { bucket: readable(grant('AuthenticatedUsers', 'READ')) })).toEqual(
      everyone.filter((caller) => caller !== 'anonymous' && caller !== 'logging'),
    );
    expect(whoMay({ bucket: readable(grant(away, 'READ')) })).toEqual(['root', 'otherRoot']);
    expect(withIdentity(allowAll, { bucket: readable(grant(away, 'READ')) })).toContain('mallory');
  });
  test.each<[Permission, 'bucket' | 'object', readonly string[]]>([
    ['READ', 'bucket', ['s3:ListBucket', 's3:ListBucketVersions', 's3:ListBucketMultipartUploads']],
    ['WRITE', 'bucket', ['s3:PutObject', 's3:DeleteObject']],
    ['READ_ACP', 'bucket', ['s3:GetBucketAcl']],
    ['WRITE_ACP', 'bucket', ['s3:PutBucketAcl']],
    ['READ', 'object', ['s3:GetObject', 's3:GetObjectVersion']],
    ['READ_ACP', 'object', ['s3:GetObjectAcl', 's3:GetObjectVersionAcl']],
    ['WRITE_ACP', 'object', ['s3:PutObjectAcl', 's3:PutObjectVersionAcl']],
    ['WRITE', 'object', []],
  ])('%s of a %s allows what the public table says', (permission, which, expected) => {
    const acls = { bucket: [], object: [], [which]: [grant('AllUsers', permission)] };
    const full = { bucket: [], object: [], [which]: [grant('AllUsers', 'FULL_CONTROL')] };
    const actions = [
      'ListBucket',
      'ListBucketVersions',
      'ListBucketMultipartUploads',
      'PutObject',
      'DeleteObject',
      'GetBucketAcl',
      'PutBucketAcl',
    ]
      .concat([
        'GetObject',
        'GetObjectVersion',
        'GetObjectAcl',
        'GetObjectVersionAcl',
        'PutObjectAcl',
        'PutObjectVersionAcl',
      ])
      .concat([
        'PutBucketPolicy',
        'GetObjectTagging',
        'DeleteObjectVersion',
        'DeleteBucket',
        'PutObjectRetention',
      ])
      .map((name) => `s3:${name}`);
    expect(actions.filter((action) => verdict('anonymous', { action, bucket: { acls } }).allowed)).toEqual(
      expected,
    );
    for (const action of expected)
      expect(verdict('anonymous', { action, bucket: { acls: full } }).allowed).toBe(true);
  });
  test('mean nothing where the bucket owner owns everything, and public ones nothing where they are ignored', () => {
    const grants = { bucket: [], object: [grant('AllUsers', 'READ'), grant(away, 'READ')] };
    expect(whoMay({ bucket: { acls: grants, ownership: 'BucketOwnerEnforced' } })).toEqual(['root']);
    const publicAccess = { ignorePublicAcls: true, restrictPublicBuckets: false };
    expect(whoMay({ bucket: { acls: grants, publicAccess } })).toEqual(['root', 'otherRoot']);
  });
  test('of an object that another account owns are the only way for the bucket owner to read it', () => {
    const objectOwner = away;
    const open = bucketPolicy({ Principal: '*' });
    expect(whoMay({ bucket: { objectOwner, policy: open } })).toEqual(['otherRoot']);
    expect(withIdentity(allowAll, { bucket: { objectOwner } })).toEqual(['otherRoot', 'mallory']);
    const shared = { objectOwner, acls: { bucket: [], object: [grant(home)] } };
    expect(withIdentity(allowAll, { bucket: shared })).toEqual([
      'root',
      'alice',
      'bob',
      'session',
      'otherRoot',
      'mallory',
    ]);
    // Only the bucket's owner may delete the object, and a Deny in the bucket's policy binds the object's owner.
    expect(whoMay({ action: 's3:DeleteObject', bucket: { objectOwner } })).toEqual(['root']);
    const denying = { objectOwner, policy: bucketPolicy({ Effect: 'Deny', Principal: '*' }) };
    expect(whoMay({ bucket: denying })).toEqual([]);
    expect(whoMay({ bucket: { objectOwner, ownership: 'BucketOwnerEnforced' } })).toEqual(['root']);
  });
});

describe('restricted public buckets', () => {
  const publicAccess = { ignorePublicAcls: false, restrictPublicBuckets: true };
  test('restrict a public policy to the account and services', () => {
    const bucket = { publicAccess, policy: bucketPolicy({ Principal: '*' }, { Principal: { AWS: away } }) };
    expect(whoMay({ bucket })).toEqual(['root', 'alice', 'bob', 'session', 'logging']);
    expect(withIdentity(allowAll, { bucket })).not.toContain('mallory');
  });
  test('leave a policy alone that is not public', () => {
    const bucket = { publicAccess, policy: bucketPolicy({ Principal: { AWS: away } }) };
    expect(whoMay({ bucket })).toEqual(['root', 'otherRoot']);
  });
});

describe('sessions', () => {
  test('have what their policies and everything else allow', () => {
    const reading = policy('session', { Resource: '*' });
    expect(verdict('session', { identity: [allowAll], session: [reading] }).allowed).toBe(true);
    expect(
      verdict('session', { identity: [allowAll], session: [reading], action: 's3:PutObject' }),
    ).toMatchObject({
      allowed: false,
      reason: 'session-policy',
    });
    expect(verdict('session', { session: [reading] }).reason).toBe('nothing-allows');
    expect(verdict('session', { identity: [allowAll], session: [] }).allowed).toBe(false);
    expect(verdict('root', { session: [reading], action: 's3:PutObject' }).allowed).toBe(false);
  });
  test('are named by their role or by themselves', () => {
    for (const name of [session.arn, session.sessionArn])
      expect(whoMay({ bucket: { policy: bucketPolicy({ Principal: { AWS: name } }) } })).toEqual([
        'root',
        'session',
      ]);
  });
});

describe('access points', () => {
  const resource = `arn:aws:s3:default:${home}:accesspoint/fotos/object/cat.jpg`;
  const through = policy('access-point', {
    Principal: { AWS: mallory.arn },
    Resource: `arn:aws:s3:default:${home}:accesspoint/fotos/object/*`,
  });
  const accessPoint = { owner: home, resource, policy: through };
  test('need both their own policy and the bucket', () => {
    const bucket = { policy: bucketPolicy({ Principal: { AWS: away } }) };
    const identity = [allowAll];
    expect(verdict('mallory', { identity, bucket, accessPoint }).allowed).toBe(true);
    expect(verdict('mallory', { identity, accessPoint }).allowed).toBe(false);
    expect(verdict('mallory', { identity, bucket, accessPoint: { owner: home, resource } }).reason).toBe(
      'access-point',
    );
  });
  test('of the same account are open to its root and to identities that name them', () => {
    const named = policy('identity', { Resource: 'arn:aws:s3:*:*:accesspoint/fotos/object/*' });
    expect(withIdentity(named, { accessPoint })).toEqual(['root', 'alice', 'bob', 'session']);
    const notNamed = policy('identity', { Resource: 'arn:aws:s3:::photos/*' });
    expect(withIdentity(notNamed, { accessPoint })).toEqual(['root']);
  });
});

test('at service scope the own side decides', () => {
  const access = (principal: Principal, identity: readonly Policy[] = []): boolean =>
    decide({ request: ask({ principal, action: 's3:ListAllMyBuckets', resource: '*' }), identity }).allowed;
  expect([alice, anonymous, logging].map((principal) => access(principal))).toEqual([false, false, false]);
  expect(access(rootOf(away))).toBe(true);
  expect(access(alice, [allowAll])).toBe(true);
});

describe('roles', () => {
  const role = `arn:aws:iam::${home}:role/reader`;
  const assuming = policy('identity', { Action: 'sts:AssumeRole', Resource: role });
  const may = (
    principal: Principal,
    AWS: string,
    identity: readonly Policy[] = [],
    limits: Pick<Access, 'session' | 'boundary'> = {},
  ): boolean =>
    decideTrust({
      request: ask({ principal, action: 'sts:AssumeRole', resource: role }),
      identity,
      ...limits,
      trust: policy('trust', { Principal: { AWS } }),
      account: home,
    }).allowed;
  test('are assumed by whom their trust policy names, with the caller’s own side where it does not name the user', () => {
    expect(may(alice, alice.arn)).toBe(true);
    expect(may(bob, alice.arn, [assuming])).toBe(false);
    expect(may(alice, home)).toBe(false);
    expect(may(alice, home, [assuming])).toBe(true);
    expect(may(mallory, mallory.arn)).toBe(false);
    expect(may(mallory, mallory.arn, [assuming])).toBe(true);
    expect(may(anonymous, '*')).toBe(false);
  });

  test('are assumed within the limits of the caller', () => {
    for (const limit of ['session', 'boundary'] as const) {
      expect(may(alice, alice.arn, [], { [limit]: [assuming] })).toBe(true);
      expect(may(alice, alice.arn, [], { [limit]: [] })).toBe(false);
      expect(may(alice, alice.arn, [allowAll], { [limit]: [allowAll, denyAll] })).toBe(false);
    }
  });
});

test('a Deny never allows more, nor does a session policy or a boundary', () => {
  const parts = fc.record({
    caller: fc.constantFrom(...everyone),
    action: fc.constantFrom('s3:GetObject', 's3:PutObject', 's3:PutBucketPolicy', 's3:GetObjectAcl'),
    identity: fc.subarray([allowAll]),
    bucket: fc.record({
      policy: fc.constantFrom(
        undefined,
        bucketPolicy({ Principal: '*' }),
        bucketPolicy({ Principal: { AWS: away } }),
      ),
      acls: fc.constantFrom(
        { bucket: [], object: [] },
        { bucket: [grant('AllUsers')], object: [grant(away)] },
      ),
      ownership: fc.constantFrom('BucketOwnerEnforced' as const, 'ObjectWriter' as const),
      objectOwner: fc.constantFrom(undefined, home, away),
    }),
  });
  fc.assert(
    fc.property(parts, ({ caller, ...setting }) => {
      const before = verdict(caller, setting).allowed;
      expect(verdict(caller, { ...setting, identity: [...setting.identity, denyAll] }).allowed).toBe(false);
      expect(verdict(caller, { ...setting, session: [] }).allowed).toBe(false);
      const limited = verdict(caller, { ...setting, session: [policy('session', all)] }).allowed;
      expect(limited).toBe(before);
      expect(verdict(caller, { ...setting, boundary: [] }).allowed).toBe(false);
      expect(verdict(caller, { ...setting, boundary: [allowAll] }).allowed).toBe(before);
      const trace: Trace = [];
      expect(decide(accessOf(callers[caller], setting), trace)).toEqual(verdict(caller, setting));
    }),
    { numRuns: 500 },
  );
});
