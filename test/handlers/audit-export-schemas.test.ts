/** Exports of the audit log against the public schemas of OCSF (API Activity, 1.3.0) and CloudTrail (record contents, 1.11). */
import { expect, test } from 'vitest';
import { acting } from '../support/access-points.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';

/** Fields by name, `?` for what may be absent; a value is its type, the values that are possible, or an object of fields. */
interface Shape {
  readonly [field: string]: 'string' | 'integer' | 'boolean' | 'any' | readonly unknown[] | Shape | ShapeList;
}
interface ShapeList {
  readonly listOf: Shape;
}

/** https://schema.ocsf.io/1.3.0/classes/api_activity: what it requires, and of the rest what we write. */
const ocsf: Shape = {
  activity_id: [0, 1, 2, 3, 4, 99],
  activity_name: ['Create', 'Read', 'Update', 'Delete'],
  category_uid: [6],
  category_name: ['Application Activity'],
  class_uid: [6003],
  class_name: ['API Activity'],
  type_uid: [600301, 600302, 600303, 600304],
  type_name: 'string',
  time: 'integer',
  severity_id: [1],
  severity: ['Informational'],
  status_id: [1, 2],
  status: ['Success', 'Failure'],
  'status_code?': 'string',
  'count?': 'integer',
  metadata: {
    version: ['1.3.0'],
    product: { name: 'string', vendor_name: 'string' },
    uid: 'string',
    log_name: 'string',
  },
  actor: {
    user: {
      'name?': 'string',
      'uid?': 'string',
      'account?': { uid: 'string' },
      'credential_uid?': 'string',
      type_id: [0, 1, 2, 3],
      type: ['Unknown', 'User', 'Admin', 'System'],
    },
  },
  api: {
    operation: 'string',
    service: { name: 'string' },
    request: { uid: 'string' },
    response: { code: 'integer', 'error?': 'string' },
  },
  src_endpoint: { 'ip?': 'string', 'svc_name?': 'string' },
  'resources?': { listOf: { uid: 'string', type: 'string', name: 'string' } },
  // What a product has beyond the schema.
  'unmapped?': { changes: 'any' },
};

/** https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html */
const cloudTrail: Shape = {
  eventVersion: ['1.11'],
  userIdentity: {
    type: ['Root', 'IAMUser', 'AssumedRole', 'AWSService', 'AWSAccount'],
    'principalId?': 'string',
    'arn?': 'string',
    'accountId?': 'string',
    'accessKeyId?': 'string',
    'userName?': 'string',
    'invokedBy?': 'string',
  },
  eventTime: 'string',
  eventSource: 'string',
  eventName: 'string',
  awsRegion: 'string',
  sourceIPAddress: 'string',
  'errorCode?': 'string',
  requestParameters: 'any',
  responseElements: [null],
  additionalEventData: 'any',
  requestID: 'string',
  eventID: 'string',
  readOnly: 'boolean',
  resources: { listOf: { type: 'string', ARN: 'string' } },
  eventType: ['AwsApiCall'],
  managementEvent: 'boolean',
  'recipientAccountId?': 'string',
  eventCategory: ['Management', 'Data'],
};

function faultsOf(value: unknown, shape: Shape[string], at: string): readonly string[] {
  if (shape === 'any') return [];
  if (Array.isArray(shape)) return shape.includes(value) ? [] : [`${at} is ${JSON.stringify(value)}`];
  if (shape === 'integer') return Number.isSafeInteger(value) ? [] : [`${at} is no integer`];
  if (typeof shape === 'string') return typeof value === shape ? [] : [`${at} is no ${shape}`];
  const rest = shape as Shape | ShapeList;
  if ('listOf' in rest)
    return (value as unknown[]).flatMap((each, index) =>
      faultsOf(each, rest.listOf as Shape, `${at}[${index}]`),
    );
  const given = value as Readonly<Record<string, unknown>>;
  const known = Object.entries(rest).map(([name, inner]) => ({
    name: name.replace('?', ''),
    isRequired: !name.endsWith('?'),
    inner,
  }));
  const unknown = Object.keys(given).filter((name) => !known.some((each) => each.name === name));
  return [
    ...unknown.map((name) => `${at}.${name} is unknown`),
    ...known.flatMap(({ name, isRequired, inner }) => {
      if (given[name] === undefined) return isRequired ? [`${at}.${name} is missing`] : [];
      return faultsOf(given[name], inner, `${at}.${name}`);
    }),
  ];
}

/** Requests of every kind of resource and caller. */
async function recorded(world: GatewayWorld) {
  await world.client.put('/bucket');
  await world.client.put('/bucket/a/key', { body: 'x' });
  await world.client.delete('/bucket/a/key');
  await world.anonymous.put('/bucket/other', { body: 'x' });
  await acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
  const admin = operatorOf(world);
  await admin.must('POST', '/accounts/alice-account/users', { name: 'ann' });
  await admin.must('POST', '/accounts/alice-account/groups', { name: 'readers' });
  const [{ id } = { id: '' }] = (await admin.must('GET', '/clusters'))['clusters'] as { id: string }[];
  await admin.must('PUT', `/clusters/${id}/weight`, { weight: 7 });
  await admin.ask('POST', '/notify/discard', { target: 'one' });
  await admin.ask('DELETE', '/buckets/none/quota');
  await admin.ask('POST', '/fsck', {});
  return { id };
}

const exported = async (world: GatewayWorld, format: string) =>
  (await world.as({ credential: operator }).get(`/admin/v1/audit/export?format=${format}`)).text.trimEnd();

test('every event of the OCSF export has what the schema requires, and nothing that it does not know', async () => {
  await using world = await openGateway();
  const { id } = await recorded(world);
  const events = (await exported(world, 'ocsf')).split('\n').map((line) => JSON.parse(line));
  expect(events.length).toBeGreaterThan(10);
  for (const event of events) {
    expect(faultsOf(event, ocsf, '')).toEqual([]);
    expect(event.type_uid).toBe(event.class_uid * 100 + event.activity_id);
    expect(event.type_name).toBe(`API Activity: ${event.activity_name}`);
    // "At least one" of the schema.
    expect(Object.keys(event.src_endpoint)).toHaveLength(1);
    const { user } = event.actor;
    expect(user.name ?? user.uid ?? user.account).toBeDefined();
  }
  const byOperation = (name: string) => events.find(({ api }) => api.operation === name);
  expect(byOperation('PutClusterWeight').resources).toEqual([
    { uid: `cluster:${id}`, type: 'Sluice::Cluster', name: id },
  ]);
  expect(byOperation('CreateIamUser').resources).toEqual([
    { uid: 'arn:aws:iam::alice-account:user/ann', type: 'AWS::IAM::User', name: 'ann' },
  ]);
  expect(byOperation('PutObject').resources[0]).toMatchObject({
    type: 'AWS::S3::Object',
    name: 'bucket/a/key',
  });
  expect(byOperation('PutObject').actor.user).toMatchObject({ type_id: 2, type: 'Admin' });
  expect(events.some(({ actor }) => actor.user.name === 'anonymous')).toBe(true);
});

test('every record of the CloudTrail export has what the reference lists, and its resources are ARNs', async () => {
  await using world = await openGateway();
  const { id } = await recorded(world);
  const { Records } = JSON.parse(await exported(world, 'cloudtrail'));
  expect(Records.length).toBeGreaterThan(10);
  for (const record of Records) {
    expect(faultsOf(record, cloudTrail, '')).toEqual([]);
    expect(record.eventTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    for (const { ARN, type } of record.resources)
      expect([ARN, type]).toEqual([
        expect.stringMatching(/^arn:aws:/),
        expect.stringMatching(/^AWS::(S3|IAM)::\w+$/),
      ]);
  }
  const named = (name: string) => Records.find((record: { eventName: string }) => record.eventName === name);
  expect(named('PutClusterWeight')).toMatchObject({
    eventSource: 'admin.sluice',
    requestParameters: { resource: `cluster:${id}` },
    resources: [],
  });
});
