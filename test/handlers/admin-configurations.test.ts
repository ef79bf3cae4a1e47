/** The configurations of buckets as JSON at the operator API. */
import { describe, expect, test } from 'vitest';
import { findBucket, readText } from '../../src/metadata/buckets/buckets.ts';
import { adminOpenApi } from '../../src/protocol/admin/openapi.ts';
import { configurationFamilies } from '../../src/protocol/schemas/families.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, tasksOf } from '../support/recorded.ts';
import { awaitDefaultPeer } from '../support/replication-role.ts';
import { xmlBodies } from '../support/xml-bodies.ts';

const topic = 'arn:aws:sns:us-east-1:123456789012:topic';
const settings = {
  SVC_NOTIFY_TARGETS: JSON.stringify(
    ['topic', 'queue', 'f'].map((id) => ({
      id,
      type: 'webhook',
      url: 'https://example.com/',
      accounts: ['*'],
    })),
  ),
};

/** The stored text of a configuration. */
async function storedText({ context }: GatewayWorld, name: string, family: string) {
  const id = (await findBucket(context.metadata, name))?.row.documents[family];
  return id === undefined ? undefined : readText(context.metadata, id);
}

interface Refusal {
  readonly path: string;
  readonly code: string;
  readonly message: string;
  readonly right?: string;
}
async function dryRun(world: GatewayWorld, family: string, body: unknown): Promise<readonly Refusal[]> {
  const at = `/buckets/bucket/configurations/${family}?dry-run=true`;
  const { isStored, refusals } = await operatorOf(world).must('PUT', at, body);
  expect(isStored).toBe(false);
  return refusals as readonly Refusal[];
}
const placesOf = (refusals: readonly Refusal[]) => refusals.map(({ path, code }) => `${path} ${code}`);

/** By the query of the XML operation. */
const families: Readonly<Record<string, string>> = {
  ownershipControls: 'ownership-controls',
  publicAccessBlock: 'public-access-block',
  requestPayment: 'request-payment',
};

test('what the XML operation has stored is read as JSON, and written as JSON it is the same record', async () => {
  await using world = await openGateway({ settings });
  const { client } = world;
  for (const name of ['bucket', 'copy', 'logs', 'reports']) await client.put(`/${name}`);
  for (const name of ['bucket', 'copy']) await setVersioning(client, name, 'Enabled');
  const admin = operatorOf(world);
  await awaitDefaultPeer(world);
  const compared: string[] = [];
  for (const { on, document } of xmlBodies) {
    const [, query = '', id] = /^PUT \/bucket\?([\w-]+)(?:&id=(\w+))?$/.exec(on) ?? [];
    const family = families[query] ?? query;
    if (!(configurationFamilies as readonly string[]).includes(family)) continue;
    const { status } = await client.put(`/bucket?${query}${id === undefined ? '' : `&id=${id}`}`, {
      body: document,
    });
    if (status >= 300) continue;
    const path = `configurations/${family}${id === undefined ? '' : `/${id}`}`;
    const json = await admin.must('GET', `/buckets/bucket/${path}`);
    // An ACL names its bucket's owner, and both buckets have the same one.
    expect(await admin.must('PUT', `/buckets/copy/${path}`, json)).toEqual({ isStored: true, refusals: [] });
    expect(await admin.must('GET', `/buckets/copy/${path}`)).toEqual(json);
    expect(await storedText(world, 'copy', family)).toEqual(await storedText(world, 'bucket', family));
    const xmlOf = async (name: string) =>
      (await client.get(`/${name}?${query}${id === undefined ? '' : `&id=${id}`}`)).text;
    expect(await xmlOf('copy')).toBe(await xmlOf('bucket'));
    compared.push(family);
  }
  expect([...new Set(compared)].sort()).toEqual([
    'cors',
    'lifecycle',
    'notification',
    'object-lock',
    'ownership-controls',
    'public-access-block',
    'replication',
    'request-payment',
    'tagging',
    'versioning',
    'website',
  ]);
  const { configurations } = await admin.must('GET', '/buckets/copy/configurations');
  expect(Object.keys(configurations as object).sort()).toEqual([...new Set([...compared, 'acl'])].sort());
});

test('policies, ACLs, inventories, logging and notifications are written, read and removed as JSON', async () => {
  await using world = await openGateway({ settings });
  for (const name of ['bucket', 'logs']) await world.client.put(`/${name}`);
  const admin = operatorOf(world);
  const documents: Readonly<Record<string, object>> = {
    policy: {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: 'arn:aws:iam::123456789012:root' },
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::bucket/*',
        },
      ],
    },
    acl: {
      Owner: { ID: alice.owner, DisplayName: alice.displayName },
      AccessControlList: [
        {
          Grantee: { type: 'Group', URI: 'http://acs.amazonaws.com/groups/global/AllUsers' },
          Permission: 'READ',
        },
        {
          Grantee: { type: 'CanonicalUser', ID: alice.owner, DisplayName: alice.displayName },
          Permission: 'FULL_CONTROL',
        },
      ],
    },
    'inventory/daily': {
      Id: 'daily',
      IsEnabled: true,
      Destination: { S3BucketDestination: { Bucket: 'arn:aws:s3:::logs', Format: 'CSV' } },
      Schedule: { Frequency: 'Daily' },
      IncludedObjectVersions: 'Current',
    },
    encryption: {
      Rule: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' }, BucketKeyEnabled: false }],
    },
    logging: { LoggingEnabled: { TargetBucket: 'logs', TargetPrefix: 'p/' } },
    notification: {
      TopicConfiguration: [{ Id: 't', Event: ['s3:ObjectCreated:*'], Topic: topic }],
      QueueConfiguration: [],
      CloudFunctionConfiguration: [],
    },
    lifecycle: {
      Rule: [
        {
          ID: 'r',
          Status: 'Enabled',
          Filter: { Prefix: '' },
          Expiration: { Days: 1 },
          Transition: [],
          NoncurrentVersionTransition: [],
        },
      ],
      TransitionDefaultMinimumObjectSize: 'varies_by_storage_class',
    },
  };
  for (const [path, document] of Object.entries(documents)) {
    const at = `/buckets/bucket/configurations/${path}`;
    expect(await admin.must('PUT', at, document), path).toEqual({ isStored: true, refusals: [] });
    expect(await admin.must('GET', at), path).toEqual(document);
  }
  expect(
    (await world.client.get('/bucket?lifecycle')).header('*-transition-default-minimum-object-size'),
  ).toBe('varies_by_storage_class');
  expect((await world.anonymous.get('/bucket')).status).toBe(200);
  expect(await tasksOf(world.context, 'notify')).toMatchObject([{ message: { Event: 's3:TestEvent' } }]);
  const list = (await admin.must('GET', '/buckets/bucket/configurations'))['configurations'];
  expect(list).toMatchObject({ inventory: { daily: documents['inventory/daily'] } });
  for (const path of Object.keys(documents)) {
    const at = `/buckets/bucket/configurations/${path}`;
    expect((await admin.ask('DELETE', at)).status, path).toBe(204);
  }
  expect((await world.anonymous.get('/bucket')).status).toBe(403);
  const after = (await admin.must('GET', '/buckets/bucket/configurations'))['configurations'];
  expect(Object.keys(after as object)).toEqual(['acl']);
});

test('a change names its family in the audit log, and a dry run is told from a change', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const tags = { TagSet: [{ Key: 'a', Value: 'b' }] };
  await dryRun(world, 'tagging', tags);
  expect((await world.client.get('/bucket?tagging')).status).toBe(404);
  const admin = operatorOf(world);
  await admin.must('PUT', '/buckets/bucket/configurations/tagging', tags);
  await admin.ask('DELETE', '/buckets/bucket/configurations/tagging');
  const rows = (await auditRows(world.context)).filter(({ action }) => action.startsWith('admin:'));
  expect(rows.map(({ action, resource, status }) => `${action} ${resource} ${status}`).sort()).toEqual([
    'admin:DeleteBucketConfiguration/tagging bucket:bucket 204',
    'admin:PutBucketConfiguration/tagging bucket:bucket 200',
    'admin:PutBucketConfiguration/tagging?dry-run bucket:bucket 200',
  ]);
  const digest = { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), characters: JSON.stringify(tags).length };
  expect(Object.fromEntries(rows.map(({ action, changes }) => [action, changes]))).toEqual({
    'admin:PutBucketConfiguration/tagging?dry-run': undefined,
    'admin:PutBucketConfiguration/tagging': [{ field: 'configuration', new: digest }],
    'admin:DeleteBucketConfiguration/tagging': [{ field: 'configuration', old: digest }],
  });
});

describe('a dry run', () => {
  test('names every part that would be refused, and stores nothing', async () => {
    await using world = await openGateway({ settings });
    await world.client.put('/bucket');
    const refused: Readonly<Record<string, readonly [unknown, readonly string[]]>> = {
      cors: [
        {
          CORSRule: [
            { AllowedMethod: ['GET', 'LIST'], AllowedOrigin: ['**'] },
            { AllowedMethod: ['PUT'], AllowedOrigin: ['*'], ExposeHeader: ['x-*', 'a b'] },
          ],
        },
        [
          'CORSRule[0].AllowedMethod[1] InvalidRequest',
          'CORSRule[0].AllowedOrigin[0] InvalidRequest',
          'CORSRule[1].ExposeHeader[0] InvalidRequest',
          'CORSRule[1].ExposeHeader[1] InvalidRequest',
        ],
      ],
      lifecycle: [
        {
          Rule: [
            { Status: 'Enabled', Filter: {}, Expiration: { Days: 0 } },
            { Status: 'Enabled', Filter: {}, Transition: [{ Days: 3, StorageClass: 'ICE' }] },
            { Status: 'Enabled', Filter: {} },
          ],
        },
        [
          'Rule[0].Expiration InvalidArgument',
          'Rule[1].Transition[0] MalformedXML',
          'Rule[2] InvalidRequest',
        ],
      ],
      website: [
        {
          IndexDocument: { Suffix: 'a/b' },
          RoutingRules: [{ Redirect: {} }, { Redirect: { HostName: '/' } }],
        },
        ['IndexDocument InvalidArgument', 'RoutingRules[0] InvalidRequest', 'RoutingRules[1] InvalidRequest'],
      ],
      replication: [
        {
          Role: 'me',
          Rule: [
            {
              Status: 'Enabled',
              Filter: {},
              Destination: { Bucket: 'x', AccessControlTranslation: { Owner: 'Destination' } },
            },
          ],
        },
        [
          'Role InvalidArgument',
          'Rule[0] InvalidRequest',
          'Rule[0].Destination InvalidArgument',
          ' InvalidRequest',
        ],
      ],
      'object-lock': [
        { ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention: { Mode: 'GOVERNANCE', Days: 0 } } },
        ['Rule.DefaultRetention InvalidArgument', ' InvalidBucketState'],
      ],
      notification: [
        {
          TopicConfiguration: [{ Event: ['s3:Nothing'], Topic: topic }],
          QueueConfiguration: [{ Event: ['s3:ObjectCreated:*'], Queue: 'arn:aws:sqs:us-east-1:1:none' }],
        },
        ['TopicConfiguration[0] InvalidArgument', 'QueueConfiguration[0] InvalidArgument'],
      ],
      acl: [
        {
          Owner: { ID: 'bob' },
          AccessControlList: [{ Grantee: { type: 'Group', URI: 'x' }, Permission: 'READ' }],
        },
        ['Owner.ID AccessDenied', 'AccessControlList[0].Grantee InvalidArgument'],
      ],
      encryption: [
        { Rule: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256', KMSMasterKeyID: 'k' } }] },
        ['Rule[0].ApplyServerSideEncryptionByDefault InvalidArgument'],
      ],
      tagging: [
        {
          TagSet: [
            { Key: '', Value: 'a' },
            { Key: 'x'.repeat(200), Value: 'b' },
          ],
        },
        ['TagSet[0] InvalidTag', 'TagSet[1] InvalidTag'],
      ],
      logging: [
        { LoggingEnabled: { TargetBucket: 'none', TargetPrefix: 'p'.repeat(1_100) } },
        [
          'LoggingEnabled.TargetPrefix InvalidRequest',
          'LoggingEnabled.TargetBucket InvalidTargetBucketForLogging',
        ],
      ],
      versioning: [
        { MfaDelete: 'Enabled' },
        ['Status IllegalVersioningConfigurationException', 'MfaDelete AccessDenied'],
      ],
      policy: [{ Version: '2012-10-17', Statement: [] }, [' MalformedPolicy']],
      'request-payment': [{ Payer: 'Nobody' }, ['Payer MalformedJSON']],
      'public-access-block': [
        { BlockPublicAcls: 'yes', Other: 1 },
        ['Other MalformedJSON', 'BlockPublicAcls MalformedJSON'],
      ],
    };
    const found = await Promise.all(
      Object.entries(refused).map(async ([family, [body]]) => [
        family,
        placesOf(await dryRun(world, family, body)),
      ]),
    );
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(Object.entries(refused).map(([family, [, places]]) => [family, places])),
    );
    const { configurations } = await operatorOf(world).must('GET', '/buckets/bucket/configurations');
    expect(Object.keys(configurations as object)).toEqual(['acl']);
  });

  test('a write answers with the first of them', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const body = { CORSRule: [{ AllowedMethod: ['LIST'], AllowedOrigin: ['**'] }] };
    const [first] = await dryRun(world, 'cors', body);
    const { status, json } = await operatorOf(world).ask('PUT', '/buckets/bucket/configurations/cors', body);
    expect(status).toBe(400);
    expect(json).toMatchObject({ code: first?.code, message: first?.message });
  });

  test('of an accepted document has no refusals, and sends no test event', async () => {
    await using world = await openGateway({ settings });
    await world.client.put('/bucket');
    const body = { TopicConfiguration: [{ Event: ['s3:ObjectCreated:*'], Topic: topic }] };
    expect(await dryRun(world, 'notification', body)).toEqual([]);
    expect(await tasksOf(world.context, 'notify')).toEqual([]);
  });
});

test('unknown families, ids where there are none, and configurations that stay are refused by name', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const admin = operatorOf(world);
  const ask = async (method: string, path: string) => {
    const { status, json } = await admin.ask(method, `/buckets/${path}`, method === 'PUT' ? {} : undefined);
    return `${status} ${String(json['code'])}`;
  };
  expect(await ask('GET', 'bucket/configurations/kors')).toBe('400 InvalidArgument');
  expect(await ask('GET', 'bucket/configurations/cors')).toBe('404 NoSuchCORSConfiguration');
  expect(await ask('GET', 'bucket/configurations/cors/one')).toBe('400 InvalidArgument');
  expect(await ask('PUT', 'bucket/configurations/inventory')).toBe('400 InvalidArgument');
  expect(await ask('DELETE', 'bucket/configurations/versioning')).toBe('405 MethodNotAllowed');
  expect(await ask('GET', 'none/configurations')).toBe('404 NoSuchBucket');
});

test('a lifecycle of a thousand rules fits into a body', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const Rule = Array.from({ length: 1_000 }, (_, n) => ({
    ID: `rule ${n} ${'x'.repeat(200)}`,
    Status: 'Enabled',
    Filter: { Prefix: `p${n}/` },
    Expiration: { Days: 1 },
  }));
  const admin = operatorOf(world);
  await admin.must('PUT', '/buckets/bucket/configurations/lifecycle', { Rule });
  expect((await world.client.get('/bucket?lifecycle')).all('ID')).toHaveLength(1_000);
});

test('the OpenAPI document has the schema of every family', () => {
  const { schemas } = adminOpenApi().components;
  for (const family of configurationFamilies) expect(schemas).toHaveProperty([family]);
});
