/** Authorization: all callers × policies × requests, compared with a slow implementation of the public API's documentation. */
import { describe, expect, test } from 'vitest';
import { blockXml, ownershipXml, policyOf } from '../support/access.ts';
import { backends, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { createUpload, putPart } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { allow, openUser } from '../support/iam-users.ts';

type Account = 'alice-account' | 'bob-account' | 'nobody';
interface Who {
  readonly account: Account;
  readonly kind: 'anonymous' | 'root' | 'user';
  readonly arn: string;
  /** What the caller's identity policies say about every action and resource. */
  readonly own: 'silent' | 'allows' | 'denies';
}
const rootOf = (account: Account): Who => ({
  account,
  kind: 'root',
  arn: `arn:aws:iam::${account}:root`,
  own: 'silent',
});
const userOf = (account: Account, name: string, own: Who['own']): Who => ({
  account,
  kind: 'user',
  arn: `arn:aws:iam::${account}:user/${name}`,
  own,
});
const everybody: Readonly<Record<string, Who>> = {
  anonymous: { account: 'nobody', kind: 'anonymous', arn: '', own: 'silent' },
  alice: rootOf('alice-account'),
  bob: rootOf('bob-account'),
  free: userOf('alice-account', 'free', 'silent'),
  able: userOf('alice-account', 'able', 'allows'),
  barred: userOf('alice-account', 'barred', 'denies'),
  'bobs-free': userOf('bob-account', 'bobs-free', 'silent'),
  'bobs-able': userOf('bob-account', 'bobs-able', 'allows'),
};

/** Each policy is one statement about everything in the bucket. */
const policies = {
  none: undefined,
  everybody: { effect: 'Allow', names: '*' },
  bob: { effect: 'Allow', names: 'bob-account' },
  alice: { effect: 'Allow', names: 'alice-account' },
  'bobs-able': { effect: 'Allow', names: 'arn:aws:iam::bob-account:user/bobs-able' },
  free: { effect: 'Allow', names: 'arn:aws:iam::alice-account:user/free' },
  'nobody-at-all': { effect: 'Deny', names: '*' },
  'not-bob': { effect: 'Deny', names: 'bob-account' },
} as const;
type PolicyName = keyof typeof policies;

/** Grants beside the owner's: to all users, or to the account that is not the owner. */
const acls = ['none', 'public-read', 'public-write', 'other-read', 'other-write'] as const;
type Acl = (typeof acls)[number];
const ownerships = ['ObjectWriter', 'BucketOwnerEnforced'] as const;
const blocks = ['none', 'IgnorePublicAcls', 'RestrictPublicBuckets'] as const;

interface State {
  readonly policy: PolicyName;
  readonly acl: Acl;
  readonly ownership: (typeof ownerships)[number];
  readonly block: (typeof blocks)[number];
}

type Need = 'READ' | 'WRITE' | 'READ_ACP';
interface Asked {
  readonly send: (client: Client) => Promise<{ readonly status: number }>;
  /** The ACL and the permission in it that allow the request. ACLs of objects grant only READ. */
  readonly needs: { readonly of: 'bucket' | 'object'; readonly permission: Need };
  /** The owner of the object that it reads. Default: alice's account. */
  readonly objectOf?: Account;
}
const asked: Readonly<Record<string, Asked>> = {
  ListObjects: { send: (c) => c.get('/bucket'), needs: { of: 'bucket', permission: 'READ' } },
  PutObject: {
    send: (c) => c.put('/bucket/new', { body: 'x' }),
    needs: { of: 'bucket', permission: 'WRITE' },
  },
  DeleteObject: { send: (c) => c.delete('/bucket/none'), needs: { of: 'bucket', permission: 'WRITE' } },
  'GetObject of alice': {
    send: (c) => c.get('/bucket/alices'),
    needs: { of: 'object', permission: 'READ' },
    objectOf: 'alice-account',
  },
  'GetObject of bob': {
    send: (c) => c.get('/bucket/bobs'),
    needs: { of: 'object', permission: 'READ' },
    objectOf: 'bob-account',
  },
  'GetObjectAcl of bob': {
    send: (c) => c.get('/bucket/bobs?acl'),
    needs: { of: 'object', permission: 'READ_ACP' },
    objectOf: 'bob-account',
  },
};

/** Whether the ACL grants the permission to the caller itself, or to its account, whose policies must then allow it too. */
function aclReach(who: Who, { acl, block }: State, { needs, objectOf }: Asked): 'itself' | 'account' | 'no' {
  const granted =
    needs.of === 'object'
      ? ['READ']
      : acl.endsWith('-write')
        ? ['WRITE']
        : acl.endsWith('-read')
          ? ['READ']
          : [];
  if (acl === 'none' || !granted.includes(needs.permission)) return 'no';
  if (acl.startsWith('public')) return block === 'IgnorePublicAcls' ? 'no' : 'itself';
  const other = (objectOf ?? 'alice-account') === 'alice-account' ? 'bob-account' : 'alice-account';
  if (who.account !== other) return 'no';
  return who.kind === 'root' ? 'itself' : 'account';
}

const isNamed = (who: Who, names: string): boolean =>
  names === '*' || names === who.arn || names === who.account;

function policyReach(who: Who, { policy, block }: State): 'itself' | 'account' | 'no' {
  const statement = policies[policy];
  if (statement?.effect !== 'Allow' || !isNamed(who, statement.names)) return 'no';
  if (statement.names !== '*')
    return statement.names === who.arn || who.kind === 'root' ? 'itself' : 'account';
  return block === 'RestrictPublicBuckets' && who.account !== 'alice-account' ? 'no' : 'itself';
}

/** Applies the rules of the public API one after the other. */
function may(who: Who, state: State, ask: Asked): boolean {
  const statement = policies[state.policy];
  if (who.own === 'denies') return false;
  if (statement?.effect === 'Deny' && isNamed(who, statement.names)) return false;
  const isEnforced = state.ownership === 'BucketOwnerEnforced';
  const home = isEnforced ? 'alice-account' : (ask.objectOf ?? 'alice-account');
  // A bucket policy cannot grant access to objects of other accounts.
  const byPolicy = home === 'alice-account' ? policyReach(who, state) : 'no';
  const byAcl = isEnforced ? 'no' : aclReach(who, state, ask);
  const isReached = byPolicy !== 'no' || byAcl !== 'no';
  const isReachedItself = byPolicy === 'itself' || byAcl === 'itself';
  const mayByItsOwn = who.kind === 'root' || who.own === 'allows';
  if (who.kind === 'anonymous') return isReachedItself;
  if (who.account === home) return mayByItsOwn || isReachedItself;
  return isReached && mayByItsOwn;
}

async function clientsOf(world: GatewayWorld): Promise<Readonly<Record<string, Client>>> {
  const users: Record<string, Client> = {};
  const barred = JSON.stringify({
    Version: '2012-10-17',
    Statement: ['Allow', 'Deny'].map((Effect) => ({ Effect, Action: 's3:*', Resource: '*' })),
  });
  for (const [name, { account, kind, own }] of Object.entries(everybody)) {
    if (kind !== 'user') continue;
    const policy = own === 'allows' ? { policy: allow('s3:*') } : own === 'denies' ? { policy: barred } : {};
    const root = account === bob.owner ? { root: bob } : {};
    users[name] = world.as({ credential: (await openUser(world, name, { ...policy, ...root })).credential });
  }
  return { ...users, alice: world.client, bob: world.bob, anonymous: world.anonymous };
}

const aclHeaders = (acl: Acl, of: Account): Readonly<Record<string, string>> => {
  const other = of === 'alice-account' ? 'bob-account' : 'alice-account';
  const owner = { '*-grant-full-control': `id="${of}"` };
  const everyone = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"';
  if (acl === 'none') return { '*-acl': 'private' };
  const who = acl.startsWith('public') ? everyone : `id="${other}"`;
  return { ...owner, [`*-grant-${acl.endsWith('write') ? 'write' : 'read'}`]: who };
};

/** The same for objects, whose ACLs always grant READ. */
const objectHeaders = (acl: Acl, of: Account) => aclHeaders(acl.replace('write', 'read') as Acl, of);

async function enter(world: GatewayWorld, { policy, acl, ownership, block }: State): Promise<void> {
  const { client } = world;
  const must = async (sent: Promise<{ readonly status: number; readonly text: string }>): Promise<void> => {
    const { status, text } = await sent;
    if (status >= 300) throw new Error(text);
  };
  await must(client.delete('/bucket?policy'));
  await must(client.delete('/bucket?publicAccessBlock'));
  await must(client.delete('/bucket?ownershipControls'));
  await must(client.put('/bucket/alices?acl', { headers: objectHeaders(acl, 'alice-account') }));
  await must(world.bob.put('/bucket/bobs?acl', { headers: objectHeaders(acl, 'bob-account') }));
  const isEnforced = ownership === 'BucketOwnerEnforced';
  await must(client.put('/bucket?acl', { headers: aclHeaders(isEnforced ? 'none' : acl, 'alice-account') }));
  await must(client.put('/bucket?ownershipControls', { body: ownershipXml(ownership) }));
  if (block !== 'none') await must(client.put('/bucket?publicAccessBlock', { body: blockXml(block) }));
  const statement = policies[policy];
  if (statement === undefined) return;
  const Principal = statement.names === '*' ? '*' : { AWS: statement.names };
  const Resource = ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'];
  const body = policyOf({ Effect: statement.effect, Principal, Action: 's3:*', Resource });
  await must(client.put('/bucket?policy', { body }));
}

async function furnished(): Promise<GatewayWorld> {
  const world = await openGateway();
  await world.client.put('/bucket', { headers: { '*-acl': 'public-read-write' } });
  await world.client.put('/bucket/alices', { body: 'x' });
  await world.bob.put('/bucket/bobs', { body: 'x' });
  return world;
}

describe.each(ownerships)('under %s', (ownership) => {
  test.each(blocks)(
    'and the block %s everybody may what the rules say, by every policy and ACL',
    async (block) => {
      await using world = await furnished();
      const clients = await clientsOf(world);
      const wrong: string[] = [];
      let allowed = 0;
      let refused = 0;
      for (const policy of Object.keys(policies) as PolicyName[])
        for (const acl of acls) {
          const state = { policy, acl, ownership, block };
          await enter(world, state);
          for (const [name, who] of Object.entries(everybody))
            for (const [what, ask] of Object.entries(asked)) {
              const { status } = await ask.send(clients[name] as Client);
              const expected = may(who, state, ask);
              if (expected) allowed += 1;
              else refused += 1;
              const isRight = expected ? status < 300 : status === 403;
              if (!isRight) wrong.push(`${name} ${what} ${policy} ${acl}: ${status}`);
            }
        }
      expect(wrong).toEqual([]);
      // Both answers must be common, so that the comparison is meaningful.
      expect(Math.min(allowed, refused)).toBeGreaterThan(400);
    },
  );
});

test.each(['*', 'arn:aws:s3:::*', 'arn:aws:s3:::*/*', 'arn:aws:s3:::bucket'])(
  'the buckets of an account are listed by a user whose policy names all of them: %s',
  async (Resource) => {
    await using world = await openGateway();
    const Statement = { Effect: 'Allow', Action: 's3:ListAllMyBuckets', Resource };
    const policy = JSON.stringify({ Version: '2012-10-17', Statement });
    const { credential } = await openUser(world, 'carol', { policy });
    const isAll = ['*', 'arn:aws:s3:::*'].includes(Resource);
    expect((await world.as({ credential }).get('/')).status).toBe(isAll ? 200 : 403);
  },
);

describe.each(backends)('an upload in a bucket of another account on %s', (backend) => {
  test('is listed and aborted by its initiator and by the owner of the bucket only', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket', { headers: { '*-grant-write': 'id="bob-account"' } });
    const uploadId = await createUpload(world.bob, '/bucket/key');
    await putPart(world.bob, '/bucket/key', { uploadId, number: 1, body: 'x' });
    const { credential } = await openUser(world, 'bobs-free', { root: bob });
    for (const stranger of [anonymous, world.as({ credential })]) {
      expect((await stranger.get('/bucket/key', { query: { uploadId } })).status).toBe(403);
      expect((await stranger.delete('/bucket/key', { query: { uploadId } })).status).toBe(403);
    }
    for (const own of [world.bob, client])
      expect((await own.get('/bucket/key', { query: { uploadId } })).status).toBe(200);
    // Bob may not list the parts of another caller's upload, even if he knows its id.
    const other = await createUpload(client, '/bucket/key');
    expect((await world.bob.get('/bucket/key', { query: { uploadId: other } })).status).toBe(403);
    const deny = {
      Effect: 'Deny',
      Action: 's3:AbortMultipartUpload',
      Resource: 'arn:aws:s3:::bucket/*',
    } as const;
    await client.put('/bucket?policy', { body: policyOf(deny) });
    expect((await world.bob.delete('/bucket/key', { query: { uploadId } })).status).toBe(403);
    await client.delete('/bucket?policy');
    expect((await world.bob.delete('/bucket/key', { query: { uploadId } })).status).toBe(204);
  });
});
