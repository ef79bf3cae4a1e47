/** Exports of the audit log against the public schemas of OCSF (API Activity, 1.3.0) and CloudTrail (record contents, 1.11). */
import { expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { acting } from '../support/access-points.ts';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { allow, assume, must, openUser, trusting } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

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
    'session?': { uid: 'string', is_mfa: 'boolean' },
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
  'unmapped?': { 'changes?': 'any', 'session?': 'any' },
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
    'sessionContext?': { attributes: { mfaAuthenticated: ['true', 'false'] } },
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

const arrived = Date.UTC(2026, 0, 1, 12, 30, 15);

/** A value for each column, of which `text` is found in the exports. */
const samples: Readonly<Record<string, { readonly value: unknown; readonly text: string | RegExp }>> = {
  time: { value: arrived, text: /1767270615000|2026-01-01T12:30:15/ },
  id: { value: 'sample-request', text: 'sample-request' },
  action: { value: 'SampleAction', text: 'SampleAction' },
  resource: { value: 'bucket:sample-bucket', text: 'sample-bucket' },
  key: { value: 'sample/key', text: 'sample/key' },
  status: { value: 418, text: '418' },
  error: { value: 'SampleError', text: 'SampleError' },
  principal: { value: 'arn:aws:sts::sample:assumed-role/writer/day', text: 'assumed-role/writer/day' },
  accessKey: { value: 'SAMPLEKEY', text: 'SAMPLEKEY' },
  account: { value: 'sample-account', text: 'sample-account' },
  source: { value: '203.0.113.77', text: '203.0.113.77' },
  count: { value: 4711, text: '4711' },
  keys: { value: [{ key: 'sample/of/many' }], text: 'sample/of/many' },
  changes: { value: [{ field: 'sampleField', new: 1 }], text: 'sampleField' },
  session: { value: { isMfa: true, policySha256: 'samplesha' }, text: 'samplesha' },
};
/** Columns that no export has, and why. */
const notExported: Readonly<Record<string, string>> = {
  hour: 'a part of the time',
  slot: 'where the row is stored',
};

test.each(['jsonl', 'cloudtrail', 'ocsf'])(
  'the %s export has each column of the audit log',
  async (format) => {
    expect(
      Object.keys(audit.columns).sort(),
      'a new column needs a sample, or a reason not to be exported',
    ).toEqual([...Object.keys(samples), ...Object.keys(notExported)].sort());
    await using world = await openGateway({ clock: virtualClock(arrived + 60_000) });
    const { key, keys, ...common } = Object.fromEntries(
      Object.entries(samples).map(([column, { value }]) => [column, value]),
    );
    // A row is about one key or about many.
    const rows = [
      { ...common, key },
      { ...common, keys, id: `${common['id']}/0000` },
    ] as unknown as readonly Parameters<typeof audited>[0][];
    await world.context.metadata.apply(rows.map((row) => audited(row, { retentionMs: 86_400_000 })));
    const text = await exported(world, format);
    const missing = Object.entries(samples).filter(([, sample]) =>
      typeof sample.text === 'string' ? !text.includes(sample.text) : !sample.text.test(text),
    );
    expect(missing.map(([column]) => column)).toEqual([]);
  },
);

test('the exports say what limited temporary credentials, and whether they began with MFA', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const iam = openActions(world);
  const made = await must(
    iam('CreateRole', { RoleName: 'writer', AssumeRolePolicyDocument: trusting({ AWS: alice.owner }) }),
  );
  const { act } = await openUser(world, 'assumer', { policy: allow('sts:*') });
  const session = await assume(world, act, { role: made.one('Arn') ?? '', Policy: allow('s3:*') });
  await world.as(session.options).put('/bucket/of-session', { body: 'x' });
  const { Records } = JSON.parse(await exported(world, 'cloudtrail'));
  const record = Records.find((each: object) => JSON.stringify(each).includes('of-session'));
  expect(faultsOf(record, cloudTrail, '')).toEqual([]);
  const limits = { policySha256: expect.stringMatching(/^[0-9a-f]{64}$/) };
  expect(record).toMatchObject({
    userIdentity: { sessionContext: { attributes: { mfaAuthenticated: 'false' } } },
    additionalEventData: { session: limits },
  });
  const line = (await exported(world, 'ocsf')).split('\n').find((each) => each.includes('of-session')) ?? '';
  const event = JSON.parse(line);
  expect(faultsOf(event, ocsf, '')).toEqual([]);
  expect(event).toMatchObject({
    actor: { session: { uid: session.options.credential.accessKey, is_mfa: false } },
    unmapped: { session: limits },
  });
});
