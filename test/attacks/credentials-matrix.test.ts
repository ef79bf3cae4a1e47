/**
 * The attack matrix of shared secrets: every caller × the secret that it signs with × header or presigned URL × the place where a bucket is
 * named (path, host, access point, copy source, body, form, rule document) × operation. The model knows the public rules only: who owns
 * what, what the policies say, and what docs/adr/0032-what-a-bucket-secret-proves.md says a secret proves. It imports nothing of `src`.
 */
import { expect, test } from 'vitest';
import { acting, domain } from '../support/access-points.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer, Client, ClientOptions } from '../support/gateway-client.ts';
import { openUser, sessionOf } from '../support/iam-users.ts';
import { combined, rotateKey } from '../support/keyed-buckets.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';

type Bucket = 'mine' | 'other' | 'plain' | 'theirs';
type Caller = 'alice' | 'carol' | 'session' | 'bob' | 'anonymous';
type Action = 'get' | 'put' | 'list' | 'delete' | 'logging';
/** `raw` and `combined` are of the signing key of a bucket. */
type Secret = { readonly is: 'own' } | { readonly is: 'raw' | 'combined'; readonly of: 'mine' | 'other' };

// The model.

const owners: Readonly<Record<Bucket, 'alice' | 'bob'>> = {
  mine: 'alice',
  other: 'alice',
  plain: 'alice',
  theirs: 'bob',
};
const keyed: ReadonlySet<Bucket> = new Set(['mine', 'other']);
const accountOf = (caller: Caller): string =>
  caller === 'bob' ? 'bob' : caller === 'anonymous' ? '' : 'alice';
const isRoot = (caller: Caller): boolean => caller === 'alice' || caller === 'bob';
/** The identity policy of carol, whose session it limits too. */
const carolMay: ReadonlySet<Action> = new Set(['get', 'list']);

/** The policies of the buckets: everyone may read `public` in each, and bob may read and write `mine`. */
const isGranted = (caller: Caller, action: Action, { bucket, key }: At): boolean =>
  (action === 'get' && key === 'public') ||
  (bucket === 'mine' && caller === 'bob' && (action === 'get' || action === 'put'));

interface At {
  readonly bucket: Bucket;
  readonly key: string;
  readonly throughAccessPoint?: boolean;
}

function mayAs(caller: Caller, action: Action, at: At): boolean {
  const isOwn = owners[at.bucket] === accountOf(caller);
  // The access point has no policy, so it lets its own account in and nobody else.
  if (at.throughAccessPoint === true && !isOwn) return false;
  const byIdentity = isRoot(caller) || (caller !== 'anonymous' && carolMay.has(action));
  const byBucket = isGranted(caller, action, at);
  if (caller === 'anonymous') return byBucket;
  return isOwn ? byIdentity || byBucket : byIdentity && byBucket;
}

/** What the signature proves at a bucket: the caller, a holder of the bucket's secret with the id of a caller, or nobody. */
function provenAt(caller: Caller, secret: Secret, bucket: Bucket): Caller | 'holder' {
  if (keyed.has(bucket))
    return secret.is === 'own' || secret.of !== bucket
      ? 'anonymous'
      : secret.is === 'combined'
        ? caller
        : 'holder';
  return secret.is === 'raw' ? 'anonymous' : caller;
}

function may(caller: Caller, secret: Secret, action: Action, at: At): boolean {
  const proven = provenAt(caller, secret, at.bucket);
  if (proven !== 'holder') return mayAs(proven, action, at);
  return action !== 'logging' && mayAs(caller, action, at);
}

/** Whether the signature is one that the addressed bucket accepts at all. */
function isAccepted(caller: Caller, secret: Secret, bucket: Bucket): boolean {
  if (caller === 'anonymous') return true;
  if (!keyed.has(bucket)) return secret.is === 'own';
  if (secret.is === 'own' || secret.of !== bucket) return false;
  return secret.is === 'combined' || accountOf(caller) === owners[bucket];
}

// The requests.

interface Step {
  readonly name: string;
  readonly action: Action;
  readonly key: string;
  readonly source?: At;
  /** Whether a presigned URL can ask for it. */
  readonly presigned?: false;
  send(client: Sender, place: Place): Promise<Answer>;
}
type Sender = (method: string, path: string, more?: object) => Promise<Answer>;
interface Place {
  readonly name: string;
  readonly at: At;
  readonly host: string;
  /** In front of a key. */
  readonly path: string;
  readonly uploadId: string;
}

const sources: readonly (At & { readonly text: (alias: string) => string })[] = [
  ...(['mine', 'other', 'plain', 'theirs'] as const).flatMap((bucket) =>
    ['secret', 'public'].map((key) => ({ bucket, key, text: () => `/${bucket}/${key}` })),
  ),
  { bucket: 'mine', key: 'secret', throughAccessPoint: true, text: (alias) => `${alias}/secret` },
];

const deletion = '<Delete><Object><Key>absent</Key></Object></Delete>';

const stepsOf = (alias: string): readonly Step[] => [
  ...['secret', 'public'].map(
    (key): Step => ({
      name: `GET ${key}`,
      action: 'get',
      key,
      send: (ask, { path }) => ask('GET', `${path}/${key}`),
    }),
  ),
  {
    name: 'PUT',
    action: 'put',
    key: 'new',
    send: (ask, { path }) => ask('PUT', `${path}/new`, { body: 'x' }),
  },
  { name: 'LIST', action: 'list', key: '', send: (ask, { path }) => ask('GET', `${path}/?list-type=2`) },
  {
    name: 'DeleteObjects',
    action: 'delete',
    key: 'absent',
    presigned: false,
    send: (ask, { path }) => ask('POST', `${path}/?delete`, { body: deletion }),
  },
  ...sources.flatMap((source): Step[] => {
    const from = source.text(alias);
    const headers = { 'x-amz-copy-source': from };
    return [
      {
        name: `copy of ${from}`,
        action: 'put',
        key: 'copied',
        source,
        send: (ask, { path }) => ask('PUT', `${path}/copied`, { headers }),
      },
      {
        name: `part of ${from}`,
        action: 'put',
        key: 'upload',
        source,
        send: (ask, { path, uploadId }) =>
          ask('PUT', `${path}/upload?partNumber=1&uploadId=${uploadId}`, { headers }),
      },
    ];
  }),
];
/** A rule document, which access points do not take. */
const logging: Step = {
  name: 'rules',
  action: 'logging',
  key: '',
  send: (ask, { path }) => ask('PUT', `${path}/?logging`, { body: '<BucketLoggingStatus/>' }),
};

const everyone = (bucket: Bucket) => ({
  Effect: 'Allow',
  Principal: '*',
  Action: 's3:GetObject',
  Resource: `arn:aws:s3:::${bucket}/public`,
});

async function open() {
  const world = await openGateway({
    settings: { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first', SVC_DOMAIN: domain },
  });
  const ids = new Map<Bucket, string>();
  for (const bucket of Object.keys(owners) as Bucket[]) {
    const client = owners[bucket] === 'bob' ? world.bob : world.client;
    await client.put(`/${bucket}`);
    for (const key of ['secret', 'public'])
      await client.put(`/${bucket}/${key}`, { body: `${bucket} ${key}` });
    const bobs = {
      ...everyone(bucket),
      Principal: { AWS: bob.owner },
      Action: ['s3:GetObject', 's3:PutObject'],
      Resource: `arn:aws:s3:::${bucket}/*`,
    };
    const Statement = [everyone(bucket), ...(bucket === 'mine' ? [bobs] : [])];
    const body = JSON.stringify({ Version: '2012-10-17', Statement });
    expect((await client.put(`/${bucket}?policy`, { body })).status).toBe(204);
    ids.set(bucket, (await client.post(`/${bucket}/upload?uploads`)).one('UploadId') ?? '');
  }
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: ['s3:GetObject', 's3:ListBucket'], Resource: '*' }],
  });
  const carol = await openUser(world, 'carol', { policy });
  const session = sessionOf(world, await carol.act('GetSessionToken')).options;
  const alias =
    (await acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'mine' })).one('Alias') ?? '';
  const credentials: Readonly<Record<Exclude<Caller, 'anonymous'>, ClientOptions>> = {
    alice: { credential: alice },
    bob: { credential: bob },
    carol: { credential: carol.credential },
    session,
  };
  const secrets = { mine: await rotateKey(world, 'mine'), other: await rotateKey(world, 'other') };
  const optionsOf = (caller: Caller, secret: Secret): ClientOptions => {
    if (caller === 'anonymous') return { anonymous: true };
    const options = credentials[caller];
    const { credential } = options;
    if (credential === undefined || secret.is === 'own') return options;
    if (secret.is === 'combined') return { ...options, credential: combined(credential, secrets[secret.of]) };
    return { ...options, credential: { ...credential, secretKey: secrets[secret.of] } };
  };
  const places: Place[] = (Object.keys(owners) as Bucket[]).flatMap((bucket) => {
    const shared = { at: { bucket, key: '' }, uploadId: ids.get(bucket) ?? '' };
    return [
      { ...shared, name: `/${bucket}`, host: 'localhost', path: `/${bucket}` },
      { ...shared, name: `${bucket}.host`, host: `${bucket}.${domain}`, path: '' },
    ];
  });
  const throughAlias = { bucket: 'mine', key: '', throughAccessPoint: true } as const;
  const uploadId = ids.get('mine') ?? '';
  places.push({ name: 'access point', at: throughAlias, host: 'localhost', path: `/${alias}`, uploadId });
  return Object.assign(world, { alias, optionsOf, places });
}

const callers: readonly Caller[] = ['alice', 'carol', 'session', 'bob', 'anonymous'];
const secretKinds: readonly Secret[] = [
  { is: 'own' },
  ...(['mine', 'other'] as const).flatMap((of): Secret[] => [
    { is: 'raw', of },
    { is: 'combined', of },
  ]),
];
const nameOf = (secret: Secret): string => (secret.is === 'own' ? 'own' : `${secret.is} ${secret.of}`);

const isDone = ({ status, text }: Answer): boolean => status < 300 && !text.includes('<Error>');

type World = Awaited<ReturnType<typeof open>>;

async function* everyRequest(world: World, isPresigned: boolean) {
  for (const caller of callers)
    for (const secret of caller === 'anonymous' || secretKinds.length === 0
      ? secretKinds.slice(0, 1)
      : secretKinds)
      for (const place of world.places) {
        if (isPresigned && caller === 'anonymous') continue;
        const client: Client = world.as({ ...world.optionsOf(caller, secret), host: place.host });
        const send: Sender = (method, path, more = {}) =>
          isPresigned ? client.presigned(method, path, more) : client.send(method, path, more);
        const isThrough = place.at.throughAccessPoint === true;
        for (const step of [...stepsOf(world.alias), ...(isThrough ? [] : [logging])]) {
          if (isPresigned && step.presigned === false) continue;
          const name = `${caller} with ${nameOf(secret)} at ${place.name}: ${step.name}`;
          const target = { ...place.at, key: step.key };
          const expected =
            isAccepted(caller, secret, target.bucket) &&
            may(caller, secret, step.action, target) &&
            (step.source === undefined || may(caller, secret, 'get', step.source));
          yield { name, expected, answer: await step.send(send, place) };
        }
      }
}

test.each([false, true])(
  'each caller with each secret does what the model allows, wherever a bucket is named (presigned: %s)',
  async (isPresigned) => {
    await using world = await open();
    const wrong: string[] = [];
    const counts = { allowed: 0, refused: 0 };
    for await (const { name, expected, answer } of everyRequest(world, isPresigned)) {
      counts[expected ? 'allowed' : 'refused'] += 1;
      const isRight = expected ? isDone(answer) : !isDone(answer) && [200, 403].includes(answer.status);
      if (!isRight)
        wrong.push(
          `${name}: ${expected ? 'should be done' : 'should be refused'}, ${answer.status} ${answer.code}`,
        );
    }
    expect(wrong).toEqual([]);
    expect(counts.allowed).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(2_000);
  },
);

async function postForm(
  world: GatewayWorld,
  bucket: Bucket,
  { credential, token }: ClientOptions,
): Promise<Answer> {
  const conditions = [
    { bucket },
    ['starts-with', '$key', ''],
    ...(token === undefined ? [] : [{ 'x-amz-security-token': token }]),
  ];
  const fields = {
    key: 'form',
    ...(token === undefined ? {} : { 'x-amz-security-token': token }),
    ...(credential === undefined ? {} : signForm(credential, { conditions })),
  };
  const body = encodeForm([...fieldsOf(fields), fileOf('content')]);
  return world.anonymous.post(`/${bucket}`, { body, headers: multipart() });
}

test('each caller with each secret posts the forms that the model allows', async () => {
  await using world = await open();
  for (const caller of callers)
    for (const secret of caller === 'anonymous' ? secretKinds.slice(0, 1) : secretKinds)
      for (const bucket of Object.keys(owners) as Bucket[]) {
        const expected =
          isAccepted(caller, secret, bucket) && may(caller, secret, 'put', { bucket, key: 'form' });
        const answer = await postForm(world, bucket, world.optionsOf(caller, secret));
        const name = `${caller} with ${nameOf(secret)} at ${bucket}`;
        expect([name, answer.status]).toEqual([name, expected ? 204 : 403]);
      }
});
