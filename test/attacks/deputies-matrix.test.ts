/**
 * The attack matrix of credentials and addresses that operators hold and tenants name: random cells of caller × bucket × what is named
 * (notification target, key, log bucket, inventory bucket, bucket at a peer) × spelling × the place in the request. The model knows the
 * public rules only: who owns what, what policies and the operator's lists of accounts say. See docs/mutation.md for
 * the mutations of the code that it finds.
 */
import { expect, onTestFinished, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import type { Dice } from '../support/dice.ts';
import { encryptingSettings, keyOf, provider, writeKeyFile } from '../support/encryption.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client, ClientOptions } from '../support/gateway-client.ts';
import { allow, openUser, sessionOf, trusting } from '../support/iam-users.ts';
import { type Cell, sampleMatrix } from '../support/matrix.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { makeRole, roleArnOf } from '../support/replication-role.ts';
import { serveStub } from '../support/server-stub.ts';

// The model.

type Account = 'alice-account' | 'bob-account';
type Caller = 'alice' | 'bob' | 'carol' | 'erin' | 'dave' | 'session' | 'frank' | 'anonymous';
type Permission = 'storage' | 'keys' | 'roles';

/** `storage` is s3:*, `keys` is kms:*, `roles` is iam:PassRole. */
const callers: Readonly<Record<Caller, { account: Account | ''; may: readonly Permission[] }>> = {
  alice: { account: 'alice-account', may: ['storage', 'keys', 'roles'] },
  bob: { account: 'bob-account', may: ['storage', 'keys', 'roles'] },
  /** Users of alice. */
  carol: { account: 'alice-account', may: ['storage'] },
  erin: { account: 'alice-account', may: ['storage', 'keys'] },
  frank: { account: 'alice-account', may: [] },
  /** A user of bob, and a session of it. */
  dave: { account: 'bob-account', may: ['storage', 'keys', 'roles'] },
  session: { account: 'bob-account', may: ['storage', 'keys', 'roles'] },
  anonymous: { account: '', may: [] },
};
const names = Object.keys(callers) as Caller[];

/** `shared` is alice's, and its policy lets bob's account do everything. */
const owners = { books: 'alice-account', papers: 'bob-account', shared: 'alice-account' } as const;
type Bucket = keyof typeof owners;
const buckets = Object.keys(owners) as Bucket[];

const mayUse = (caller: Caller, bucket: Bucket): boolean => {
  const { account, may } = callers[caller];
  return (
    may.includes('storage') &&
    (owners[bucket] === account || (bucket === 'shared' && account === 'bob-account'))
  );
};
const serves = (accounts: readonly string[] | undefined, account: string): boolean =>
  accounts !== undefined && (accounts.includes('*') || accounts.includes(account));

const targets: Readonly<Record<string, readonly string[] | undefined>> = {
  alices: ['alice-account'],
  bobs: ['bob-account'],
  everyones: ['*'],
  noones: [],
  bare: undefined,
};
const keys: Readonly<Record<string, readonly string[]>> = {
  payroll: ['alice-account'],
  letters: ['bob-account'],
  common: ['alice-account', 'bob-account'],
  retired: [],
};
interface Grant {
  readonly account: string;
  readonly bucketOwner?: Account;
  readonly buckets?: readonly string[];
}
const peers: Readonly<Record<string, readonly Grant[] | undefined>> = {
  alices: [{ account: 'alice-account' }],
  everyones: [{ account: '*' }],
  noones: [],
  bare: undefined,
  mapped: [{ account: 'bob-account', bucketOwner: 'alice-account', buckets: ['far-a*'] }],
  listed: [{ account: '*', buckets: ['far-b'] }, { account: 'alice-account' }],
};
/** The buckets at the peer, and their owners there. */
const farOwners: Readonly<Record<string, Account>> = {
  'far-a': 'alice-account',
  'far-b': 'bob-account',
  /** In no list of buckets. */
  'far-c': 'bob-account',
};

/** Whether the peer takes versions of the account in that bucket. */
function takes(peer: string, account: Account, to: string): boolean {
  const grants = peers[peer] ?? [];
  const grant =
    grants.find((each) => each.account === account) ?? grants.find((each) => each.account === '*');
  if (grant === undefined) return false;
  if (grant.buckets === undefined) return farOwners[to] === (grant.bucketOwner ?? account);
  // The operator's list proves what the peer need not.
  return grant.buckets.some((name) => (name.endsWith('*') ? to.startsWith(name.slice(0, -1)) : to === name));
}

// The requests.

async function open() {
  const key = (accounts: readonly string[], seed: number) => ({
    key: keyOf(seed).toString('base64'),
    accounts,
  });
  const held = Object.entries(keys).map(([name, accounts], index) => [name, key(accounts, index + 1)]);
  const aliases = Object.keys(keys).map((name) => [`alias/${name}`, name]);
  const SVC_HSM_KEYS_FILE = await writeKeyFile(Object.fromEntries([...held, ...aliases]));
  const far = await openGateway();
  const { port } = await serveStub((...call) => far.gateway.handle(...call));
  const world = await openGateway({
    settings: {
      ...(await encryptingSettings()),
      SVC_HSM_KEYS_FILE,
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_NOTIFY_TARGETS: JSON.stringify(
        Object.entries(targets).map(([id, accounts]) => ({
          ...{ id, type: 'webhook', url: 'http://127.0.0.1:9/hook' },
          ...(accounts === undefined ? {} : { accounts }),
        })),
      ),
    },
  });
  for (const [name, owner] of Object.entries(farOwners)) {
    await (owner === 'bob-account' ? far.bob : far.client).put(`/${name}`);
    await setVersioning(owner === 'bob-account' ? far.bob : far.client, name, 'Enabled');
    // The key of the peer is alice's, and may write into both.
    const Principal = { AWS: 'alice-account' };
    await far.bob.put(`/${name}?policy`, {
      body: policyOf({ Principal, Action: 's3:Replicate*', Resource: `arn:aws:s3:::${name}/*` }),
    });
  }
  for (const [id, accounts] of Object.entries(peers))
    await operatorOf(world).must('PUT', `/replication/peers/${id}`, {
      ...{ accessKey: alice.accessKey, secretKey: alice.secretKey, endpoint: `http://127.0.0.1:${port}` },
      ...(accounts === undefined ? {} : { accounts }),
    });
  for (const root of [alice, bob]) await makeRole(world, { root });
  await makeRole(world, { name: 'others', trust: trusting({ Service: 'ec2.amazonaws.com' }) });
  for (const bucket of buckets) {
    const client = owners[bucket] === 'bob-account' ? world.bob : world.client;
    await client.put(`/${bucket}`);
    await setVersioning(client, bucket, 'Enabled');
    await client.put(`/${bucket}/source`, { body: 'x' });
    await client.put(`/logs-of-${owners[bucket]}`);
  }
  const Resource = ['arn:aws:s3:::shared', 'arn:aws:s3:::shared/*'];
  const policy = policyOf({ Principal: { AWS: 'bob-account' }, Action: 's3:*', Resource });
  expect((await world.client.put('/shared?policy', { body: policy })).status).toBe(204);
  const clients = await openClients(world);
  const close = async () => {
    await world.close();
    await far.close();
  };
  return { world, far, clients, close };
}

async function openClients(world: GatewayWorld) {
  const user = async (name: Caller, root: typeof alice) => {
    const actions = { storage: 's3:*', keys: 'kms:*', roles: 'iam:PassRole' };
    const { may } = callers[name];
    const policy = allow(...(may.length === 0 ? ['iam:GetUser'] : may.map((each) => actions[each])));
    return openUser(world, name, { root, policy });
  };
  const dave = await user('dave', bob);
  const options: Readonly<Record<Caller, ClientOptions>> = {
    alice: { credential: alice },
    bob: { credential: bob },
    carol: { credential: (await user('carol', alice)).credential },
    erin: { credential: (await user('erin', alice)).credential },
    frank: { credential: (await user('frank', alice)).credential },
    dave: { credential: dave.credential },
    session: sessionOf(world, await dave.act('GetSessionToken')).options,
    anonymous: { anonymous: true },
  };
  return { options, of: (caller: Caller): Client => world.as(options[caller]) };
}

type World = Awaited<ReturnType<typeof open>>;
let shared: World;

const rootOf = (bucket: Bucket): Client =>
  owners[bucket] === 'bob-account' ? shared.world.bob : shared.world.client;

/** A configuration as its owner reads it: one that is refused changes nothing. */
async function stored(path: string): Promise<string> {
  const [, bucket = ''] = path.split(/[/?]/);
  const { text } = await rootOf(bucket as Bucket).get(path);
  return text.replaceAll(/<(RequestId|HostId)>.*?<\/\1>/g, '');
}

function configure(
  { name, caller, isAllowed }: { name: string; caller: Caller; isAllowed: boolean },
  path: string,
  body: string,
): Cell {
  let before = '';
  return {
    name: `${caller}: PUT ${path}: ${name}`,
    isAllowed,
    async send() {
      before = await stored(path);
      return shared.clients.of(caller).put(path, { body });
    },
    async check() {
      if (!isAllowed) expect([path, await stored(path)]).toEqual([path, before]);
    },
  };
}

/** Mostly a value that the model lets pass, so that most refusals have one reason. */
const pickMostly = <T>(dice: Dice, all: readonly T[], passes: (each: T) => boolean): T => {
  const passing = all.filter(passes);
  return dice.pick(passing.length === 0 || dice.chance(4) ? all : passing);
};
const drawPlace = (dice: Dice): readonly [Caller, Bucket] => {
  const bucket = dice.pick(buckets);
  return [pickMostly(dice, names, (caller) => mayUse(caller, bucket)), bucket];
};

const draws: Readonly<Record<string, (dice: Dice) => Cell>> = {
  'a notification target': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const rules = [
      ['QueueConfiguration', 'Queue', 'sqs'],
      ['TopicConfiguration', 'Topic', 'sns'],
      ['CloudFunctionConfiguration', 'CloudFunction', 'lambda'],
    ] as const;
    const named = dice.several([1, 2], () => ({
      rule: dice.pick(rules),
      target: pickMostly(dice, Object.keys(targets), (each) => serves(targets[each], owners[bucket])),
      account: dice.pick(['', owners[bucket], 'alice-account', 'bob-account', '123456789012']),
    }));
    const body = named.map(({ rule: [element, of, service], target, account }, index) => {
      const name = service === 'lambda' ? `function:${target}` : target;
      return `<${element}><Event>s3:ObjectCreated:*</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>${index}/</Value></FilterRule></S3Key></Filter><${of}>arn:aws:${service}:default:${account}:${name}</${of}></${element}>`;
    });
    const isAllowed =
      mayUse(caller, bucket) &&
      named.every(
        ({ target, account }) =>
          serves(targets[target], owners[bucket]) && ['', '123456789012', owners[bucket]].includes(account),
      );
    const content = `<NotificationConfiguration>${body.join('')}</NotificationConfiguration>`;
    return configure({ name: body.join(''), caller, isAllowed }, `/${bucket}?notification`, content);
  },

  'a key': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const { account, may } = callers[caller];
    const key = pickMostly(dice, Object.keys(keys), (each) => serves(keys[each], account));
    const spelling = dice.pick([
      key,
      `alias/${key}`,
      `arn:aws:kms:default:${account || 'alice-account'}:key/${key}`,
      `arn:aws:kms:default:${account || 'alice-account'}:alias/${key}`,
    ]);
    const place = dice.pick(['header', 'upload', 'copy', 'form'] as const);
    const isAllowed = mayUse(caller, bucket) && may.includes('keys') && serves(keys[key], account);
    const client = shared.clients.of(caller);
    const headers = provider(spelling);
    const path = `/${bucket}/key`;
    const places = {
      header: () => client.put(path, { body: 'x', headers }),
      upload: () => client.post(`${path}?uploads`, { headers }),
      copy: () => client.put(path, { headers: { ...headers, '*-copy-source': `/${bucket}/source` } }),
      form: () => postForm(bucket, caller, spelling),
    };
    return { name: `${caller}: ${place} at ${path} under ${spelling}`, isAllowed, send: places[place] };
  },

  'a key as a default': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const key = dice.pick(Object.keys(keys));
    const owner = owners[bucket];
    const spelling = dice.pick([key, `alias/${key}`, `arn:aws:kms:default:${owner}:key/${key}`]);
    const body = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>${spelling}</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`;
    const isAllowed = mayUse(caller, bucket) && serves(keys[key], owner);
    const cell = configure({ name: spelling, caller, isAllowed }, `/${bucket}?encryption`, body);
    // A later PUT without a key would be one under this one.
    const reset = async (): Promise<void> => {
      await rootOf(bucket).delete(`/${bucket}?encryption`);
    };
    return isAllowed ? { ...cell, check: reset } : cell;
  },

  'a bucket for logs': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const account = dice.pick(['alice-account', 'bob-account'] as const);
    const body = `<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs-of-${account}</TargetBucket><TargetPrefix>x/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>`;
    const isAllowed = mayUse(caller, bucket) && owners[bucket] === account;
    return configure({ name: account, caller, isAllowed }, `/${bucket}?logging`, body);
  },

  'a bucket for inventories': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const account = dice.pick(['alice-account', 'bob-account'] as const);
    const body = `<InventoryConfiguration><Id>i</Id><IsEnabled>true</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::logs-of-${account}</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>All</IncludedObjectVersions></InventoryConfiguration>`;
    const isAllowed = mayUse(caller, bucket) && owners[bucket] === account;
    return configure({ name: account, caller, isAllowed }, `/${bucket}?inventory&id=i`, body);
  },

  'a bucket at a peer': (dice) => {
    const [caller, bucket] = drawPlace(dice);
    const owner = owners[bucket];
    const to = dice.pick(Object.keys(farOwners));
    const peer = pickMostly(dice, Object.keys(peers), (each) => takes(each, owner, to));
    const role = dice.pick([
      ...[owner, owner, owner].map((account) => roleArnOf(account)),
      ...['alice-account', 'bob-account'].map((account) => roleArnOf(account)),
      roleArnOf(owner, 'missing'),
      roleArnOf('alice-account', 'others'),
    ]);
    const isAllowed =
      mayUse(caller, bucket) &&
      callers[caller].account === owner &&
      callers[caller].may.includes('roles') &&
      role === roleArnOf(owner) &&
      takes(peer, owner, to);
    const body = `<ReplicationConfiguration><Role>${role}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
      <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::${peer}:${to}</Bucket></Destination>
      <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;
    return configure({ name: `${peer}:${to} by ${role}`, caller, isAllowed }, `/${bucket}?replication`, body);
  },
};

function postForm(bucket: Bucket, caller: Caller, key: string): Promise<Answer> {
  const { credential, token } = shared.clients.options[caller];
  const said = {
    'x-amz-server-side-encryption': 'aws:kms',
    'x-amz-server-side-encryption-aws-kms-key-id': key,
    ...(token === undefined ? {} : { 'x-amz-security-token': token }),
  };
  const conditions = [
    { bucket },
    { key: 'form' },
    ...Object.entries(said).map(([name, value]) => ({ [name]: value })),
  ];
  const fields = {
    key: 'form',
    ...said,
    ...(credential === undefined ? {} : signForm(credential, { conditions })),
  };
  const body = encodeForm([...fieldsOf(fields), fileOf('content')]);
  return shared.world.anonymous.post(`/${bucket}`, { body, headers: multipart() });
}

test('what an operator holds is used by the accounts that the operator lists, wherever a tenant names it', async () => {
  shared = await open();
  onTestFinished(() => shared.close());
  const kinds = Object.keys(draws);
  await sampleMatrix(100 * kinds.length, kinds, (dice, kind) => (draws[kind] as (dice: Dice) => Cell)(dice));
});
