/**
 * Every condition key of policies has its value from the request: a Deny on that value refuses the request, and a Deny on another value
 * does not.
 */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { conditionKeys, tagKeys } from '../../src/auth/policy/keys.ts';
import type { Gateway } from '../../src/gateway.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { policyOf } from '../support/access.ts';
import { alice, type GatewayWorld, openGateway, person } from '../support/gateway.ts';
import { type Answer, type Client, openClient } from '../support/gateway-client.ts';

const tags = new Map([['team', 'blue']]);
const ursula = person('ursula', {
  owner: alice.owner,
  root: false,
  caller: {
    kind: 'user',
    account: alice.owner,
    arn: 'arn:aws:iam::alice-account:user/ursula',
    userid: 'AIDAURSULA',
    username: 'ursula',
    tags,
  },
});

type Headers = Readonly<Record<string, string>>;
type Ask = (world: GatewayWorld) => Promise<Answer>;
const get =
  (path: string, headers: Headers = {}): Ask =>
  ({ client }) =>
    client.get(path, { headers });
const put =
  (path: string, headers: Headers = {}, body = 'x'): Ask =>
  ({ client }) =>
    client.put(path, { headers, body });
const getObject = get('/bucket/key');
const byUrsula: Ask = (world) => world.as({ credential: ursula }).get('/bucket/key');

/** Alice over TLS. */
const overTls = ({ gateway }: GatewayWorld): Client => {
  const secured: Gateway = {
    ...gateway,
    handle: (incoming) =>
      gateway.handle({ ...incoming, wire: { ...incoming.wire, secure: true, tlsVersion: '1.2' } }),
  };
  return openClient(secured, systemClock, { credential: alice });
};

const inventory = `<InventoryConfiguration><Id>i</Id><IsEnabled>false</IsEnabled><Destination><S3BucketDestination>
  <Bucket>arn:aws:s3:::bucket</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule>
  <Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>All</IncludedObjectVersions><OptionalFields>
  <Field>Size</Field><Field>ETag</Field></OptionalFields></InventoryConfiguration>`;
const later = new Date(Date.now() + 5 * 24 * 60 * 60 * 1000).toISOString();
const locked = { '*-object-lock-mode': 'GOVERNANCE', '*-object-lock-retain-until-date': later };
const retention = `<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>${later}</RetainUntilDate></Retention>`;
const kmsKey = 'arn:aws:kms:default:alice-account:key/one';
const tagging = '<Tagging><TagSet><Tag><Key>env</Key><Value>prod</Value></Tag></TagSet></Tagging>';

/** The condition of a Deny (operator, key, the value that the request has), another value, and the request. */
type Case = readonly [operator: string, key: string, value: string, other: string, ask: Ask];
const cases: readonly Case[] = [
  ['StringEquals', 'aws:username', 'ursula', 'other', byUrsula],
  ['StringEquals', 'aws:userid', 'AIDAURSULA', 'other', byUrsula],
  ['StringEquals', 'aws:userid', 'alice-account', 'other', getObject],
  ['ArnLike', 'aws:PrincipalArn', 'arn:aws:iam::*:user/ursula', 'arn:aws:iam::*:user/x', byUrsula],
  ['ArnEquals', 'aws:PrincipalArn', 'arn:aws:iam::alice-account:root', 'arn:aws:iam::x:root', getObject],
  ['StringEquals', 'aws:PrincipalAccount', 'alice-account', 'other', getObject],
  ['StringEquals', 'aws:PrincipalType', 'Account', 'User', getObject],
  ['StringEquals', 'aws:PrincipalType', 'User', 'Account', byUrsula],
  ['StringEquals', 'aws:PrincipalTag/Team', 'blue', 'red', byUrsula],
  ['Bool', 'aws:PrincipalIsAWSService', 'false', 'true', getObject],
  ['Bool', 'aws:ViaAWSService', 'false', 'true', getObject],
  ['IpAddress', 'aws:SourceIp', '127.0.0.0/8', '10.0.0.0/8', getObject],
  ['DateGreaterThan', 'aws:CurrentTime', '2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z', getObject],
  ['NumericGreaterThan', 'aws:EpochTime', '1577836800', '99999999999', getObject],
  ['Bool', 'aws:SecureTransport', 'false', 'true', getObject],
  ['Bool', 'aws:SecureTransport', 'true', 'false', (world) => overTls(world).get('/bucket/key')],
  ['NumericLessThan', 's3:TlsVersion', '1.3', '1.2', (world) => overTls(world).get('/bucket/key')],
  ['StringLike', 'aws:UserAgent', 'curl/*', 'wget/*', get('/bucket/key', { 'user-agent': 'curl/8' })],
  ['StringLike', 'aws:Referer', 'https://a/*', 'https://b/*', get('/bucket/key', { referer: 'https://a/x' })],
  ['StringEquals', 'aws:RequestedRegion', 'default', 'other', getObject],
  ['StringEquals', 'aws:ResourceAccount', 'alice-account', 'other', getObject],
  ['StringEquals', 's3:ResourceAccount', 'alice-account', 'other', getObject],
  ['StringEquals', 's3:authType', 'REST-HEADER', 'REST-QUERY-STRING', getObject],
  [
    'StringEquals',
    's3:authType',
    'REST-QUERY-STRING',
    'POST',
    ({ client }) => client.presigned('GET', '/bucket/key'),
  ],
  ['StringEquals', 's3:signatureversion', 'AWS4-HMAC-SHA256', 'AWS', getObject],
  ['NumericLessThan', 's3:signatureAge', '600000', '0', getObject],
  ['StringEquals', 's3:prefix', 'a', 'b', get('/bucket?prefix=a')],
  ['StringEquals', 's3:prefix', 'a', 'b', get('/bucket?list-type=2&prefix=a')],
  ['StringEquals', 's3:prefix', 'a', 'b', get('/bucket?versions&prefix=a')],
  ['StringEquals', 's3:delimiter', '/', '.', get('/bucket?delimiter=/')],
  ['NumericGreaterThan', 's3:max-keys', '10', '11', get('/bucket?max-keys=11')],
  ['StringEquals', 's3:VersionId', 'null', 'other', get('/bucket/key?versionId=null')],
  [
    'StringEquals',
    's3:VersionId',
    'null',
    'other',
    put('/bucket/copy', { '*-copy-source': '/bucket/key?versionId=null' }, ''),
  ],
  [
    'StringEquals',
    's3:VersionId',
    'null',
    'other',
    async ({ client }) => {
      const body = '<Delete><Object><Key>none</Key><VersionId>null</VersionId></Object></Delete>';
      const answer = await client.post('/bucket?delete', { body });
      return { ...answer, status: answer.code === 'AccessDenied' ? 403 : answer.status };
    },
  ],
  ['StringEquals', 's3:object-lock-mode', 'GOVERNANCE', 'COMPLIANCE', put('/bucket/new', locked)],
  [
    'StringEquals',
    's3:object-lock-mode',
    'GOVERNANCE',
    'COMPLIANCE',
    put('/bucket/key?retention', {}, retention),
  ],
  [
    'DateGreaterThan',
    's3:object-lock-retain-until-date',
    '2020-01-01T00:00:00Z',
    '2999-01-01T00:00:00Z',
    put('/bucket/new', locked),
  ],
  [
    'DateGreaterThan',
    's3:object-lock-retain-until-date',
    '2020-01-01T00:00:00Z',
    '2999-01-01T00:00:00Z',
    put('/bucket/key?retention', {}, retention),
  ],
  ['NumericEquals', 's3:object-lock-remaining-retention-days', '5', '4', put('/bucket/new', locked)],
  [
    'NumericEquals',
    's3:object-lock-remaining-retention-days',
    '5',
    '6',
    put('/bucket/key?retention', {}, retention),
  ],
  [
    'StringEquals',
    's3:object-lock-legal-hold',
    'ON',
    'OFF',
    put('/bucket/new', { '*-object-lock-legal-hold': 'ON' }),
  ],
  [
    'StringEquals',
    's3:object-lock-legal-hold',
    'ON',
    'OFF',
    put('/bucket/key?legal-hold', {}, '<LegalHold><Status>ON</Status></LegalHold>'),
  ],
  ['StringEquals', 's3:if-none-match', '*', '"x"', put('/bucket/none', { 'if-none-match': '*' })],
  ['StringEquals', 's3:if-match', '"x"', '*', put('/bucket/none', { 'if-match': '"x"' })],
  ['Bool', 's3:ObjectCreationOperation', 'true', 'false', put('/bucket/new')],
  [
    'Bool',
    's3:ObjectCreationOperation',
    'true',
    'false',
    put('/bucket/new', { '*-copy-source': '/bucket/key' }, ''),
  ],
  ['Bool', 's3:ObjectCreationOperation', 'false', 'true', ({ client }) => client.post('/bucket/new?uploads')],
  [
    'StringEquals',
    's3:x-amz-content-sha256',
    createHash('sha256').update('x').digest('hex'),
    'other',
    put('/bucket/new'),
  ],
  ['StringEquals', 's3:x-amz-acl', 'private', 'public-read', put('/bucket/new', { '*-acl': 'private' })],
  [
    'StringEquals',
    's3:x-store-acl',
    'private',
    'public-read',
    ({ neutral }) => neutral.put('/bucket/new', { body: 'x', headers: { '*-acl': 'private' } }),
  ],
  ...['read', 'write', 'read-acp', 'write-acp', 'full-control'].flatMap((right): Case[] => {
    const headers = { [`*-grant-${right}`]: 'id="bob-account"' };
    const rest = ['id="bob-account"', 'id="x"'] as const;
    return ['/bucket/new', '/bucket?acl', '/bucket/key?acl'].map((path) => [
      'StringEquals',
      `s3:x-amz-grant-${right}`,
      ...rest,
      put(path, headers, ''),
    ]);
  }),
  [
    'StringLike',
    's3:x-amz-copy-source',
    '/bucket/*',
    '/other/*',
    put('/bucket/new', { '*-copy-source': '/bucket/key' }, ''),
  ],
  [
    'StringEquals',
    's3:x-amz-metadata-directive',
    'REPLACE',
    'COPY',
    put('/bucket/new', { '*-copy-source': '/bucket/key', '*-metadata-directive': 'REPLACE' }, ''),
  ],
  [
    'StringEquals',
    's3:x-amz-server-side-encryption',
    'AES256',
    'aws:kms',
    put('/bucket/new', { '*-server-side-encryption': 'AES256' }),
  ],
  [
    'ArnEquals',
    's3:x-amz-server-side-encryption-aws-kms-key-id',
    kmsKey,
    `${kmsKey}s`,
    put('/bucket/new', {
      '*-server-side-encryption': 'aws:kms',
      '*-server-side-encryption-aws-kms-key-id': kmsKey,
    }),
  ],
  [
    'StringEquals',
    's3:x-amz-server-side-encryption-customer-algorithm',
    'AES256',
    'x',
    put('/bucket/new', { '*-server-side-encryption-customer-algorithm': 'AES256' }),
  ],
  [
    'StringEquals',
    's3:x-amz-storage-class',
    'STANDARD_IA',
    'GLACIER',
    put('/bucket/new', { '*-storage-class': 'STANDARD_IA' }),
  ],
  [
    'StringEquals',
    's3:x-amz-website-redirect-location',
    '/x',
    '/y',
    put('/bucket/new', { '*-website-redirect-location': '/x' }),
  ],
  ['StringEquals', 's3:ExistingObjectTag/env', 'prod', 'test', getObject],
  ['StringEquals', 's3:ExistingObjectTag/env', 'prod', 'test', get('/bucket/key?tagging')],
  [
    'StringEquals',
    's3:ExistingObjectTag/env',
    'prod',
    'test',
    put('/bucket/new', { '*-copy-source': '/bucket/key' }, ''),
  ],
  [
    'StringEquals',
    's3:RequestObjectTag/env',
    'prod',
    'test',
    put('/bucket/new', { '*-tagging': 'env=prod' }),
  ],
  ['StringEquals', 's3:RequestObjectTag/env', 'prod', 'test', put('/bucket/key?tagging', {}, tagging)],
  [
    'StringEquals',
    's3:RequestObjectTag/env',
    'prod',
    'test',
    put('/bucket/new', { '*-copy-source': '/bucket/key' }, ''),
  ],
  [
    'ForAnyValue:StringEquals',
    's3:RequestObjectTagKeys',
    'env',
    'other',
    put('/bucket/key?tagging', {}, tagging),
  ],
  [
    'ForAnyValue:StringEquals',
    's3:InventoryAccessibleOptionalFields',
    'ETag',
    'StorageClass',
    put('/bucket?inventory&id=i', {}, inventory),
  ],
];

/** Keys of CreateBucket, to which no bucket policy applies: create-bucket-rights.test.ts. */
const ofCreation = ['s3:LocationConstraint', 's3:x-amz-object-ownership'];
/** Keys of access points, of sessions and of actions that are not S3's: their own suites test them. */
const elsewhere = [
  ...['s3:DataAccessPointArn', 's3:DataAccessPointAccount', 's3:AccessPointNetworkOrigin'],
  ...['aws:TokenIssueTime', 'aws:MultiFactorAuthPresent', 'aws:MultiFactorAuthAge', 'aws:SourceIdentity'],
  ...['aws:TagKeys', 'aws:RequestTag', 'aws:ResourceTag', 'iam:PolicyARN', 'iam:PassedToService'],
  ...['iam:PermissionsBoundary', 'iam:ResourceTag'],
  ...['sts:ExternalId', 'sts:RoleSessionName', 'sts:SourceIdentity', 'sts:TransitiveTagKeys'],
];
/** Keys that no request here has, because it comes from no VPC, organization or chain of services. */
const never = [
  ...['aws:VpcSourceIp', 'aws:SourceVpc', 'aws:SourceVpce', 'aws:SourceVpcArn', 'aws:FederatedProvider'],
  ...['aws:PrincipalOrgID', 'aws:ResourceOrgID', 'aws:SourceOrgID', 'aws:PrincipalOrgPaths'],
  ...[
    'aws:ResourceOrgPaths',
    'aws:SourceOrgPaths',
    'aws:CalledVia',
    'aws:CalledViaFirst',
    'aws:CalledViaLast',
  ],
  ...['aws:SourceArn', 'aws:SourceAccount', 'aws:SourceOwner', 'aws:PrincipalServiceName'],
  // Tags of buckets count only where the bucket turns on ABAC (public API).
  ...['aws:PrincipalServiceNamesList', 's3:BucketTag', 's3:AccessPointTag'],
];

test('every key that a policy may use is tried here, or there is a reason', () => {
  const known = [...conditionKeys.keys(), ...tagKeys];
  const tried = new Set(cases.map(([, key]) => key.replace(/\/.*/, '')).concat(ofCreation, elsewhere, never));
  expect(known.filter((key) => !tried.has(key))).toEqual([]);
});

async function furnished(): Promise<GatewayWorld> {
  const world = await openGateway({ people: [ursula] });
  const { client } = world;
  await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/bucket/key', { body: 'x', headers: { '*-tagging': 'env=prod' } });
  return world;
}

describe('a Deny on', () => {
  test.each(cases)('%s %s = %s bites, and on %s does not', async (operator, key, value, other, ask) => {
    await using world = await furnished();
    const deny = (wanted: string) => {
      const Condition = { [operator]: { [key]: wanted } };
      const body = policyOf({
        Effect: 'Deny',
        Action: 's3:*',
        Resource: ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'],
        Condition,
      });
      return world.client.put('/bucket?policy', { body });
    };
    expect((await deny(value)).status).toBe(204);
    expect((await ask(world)).status).toBe(403);
    expect((await deny(other)).status).toBe(204);
    expect((await ask(world)).status).not.toBe(403);
  });
});

test('a value that is too long to be searched decides against the caller', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const status = async (asker: Client, agent: string) =>
    (await asker.get('/bucket/key', { headers: { 'user-agent': agent } })).status;
  const statement = (Effect: 'Allow' | 'Deny', pattern: string) => ({
    Effect,
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::bucket/*',
    Condition: { StringLike: { 'aws:UserAgent': pattern } },
  });
  const agents = [2_048, 2_049].flatMap((length) => [`${'a'.repeat(length - 2)}bc`, 'a'.repeat(length)]);
  const statuses = (asker: Client) => Promise.all(agents.map((agent) => status(asker, agent)));
  const put = (...statements: ReturnType<typeof statement>[]) =>
    client.put('/bucket?policy', { body: policyOf(...statements) });
  await put(statement('Deny', '*a?c*'));
  expect(await statuses(client)).toEqual([403, 200, 403, 403]);
  await put(statement('Allow', '*a?c*'));
  expect(await statuses(bob)).toEqual([200, 403, 403, 403]);
  // A pattern matches against both ends of a value of any length.
  await put(statement('Allow', 'a*c'));
  expect(await statuses(bob)).toEqual([200, 403, 200, 403]);
});
