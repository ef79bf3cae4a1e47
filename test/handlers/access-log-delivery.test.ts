/** The access-log worker writes each queued line into the target bucket exactly once. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import type { KeyDescription } from '../../src/ports/key-provider.ts';
import { deliverAccessLogs } from '../../src/workers/deliveries.ts';
import { unsupervised } from '../../src/workers/worker.ts';
import { logDelivery } from '../support/access.ts';
import {
  firstKeys,
  keysIn,
  logging,
  must,
  openLogs,
  partitioned,
  policy,
} from '../support/delivered-logs.ts';
import { dyingProcess, stepFor } from '../support/dying-process.ts';
import { encryptingSettings, keyOf, writeKeyFile } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, type GatewayWorld, operator } from '../support/gateway.ts';
import { pausedProcess } from '../support/paused-process.ts';
import { tightQuotas } from '../support/quota-world.ts';
import { auditRows, eventsOf } from '../support/recorded.ts';

const never = new AbortController().signal;

describe.each(backends)('on %s', (backend) => {
  test('the lines of a bucket are written into its target bucket once, in order', async () => {
    await using logs = await openLogs(backend);
    await logs.ask(5);
    const lines = (await logs.queued()).map(({ line }) => line);
    await logs.deliver();
    const [key = '', ...others] = await logs.keys();
    expect(others).toEqual([]);
    const moment = new Date(logs.clock.now()).toISOString().slice(0, 19).replace(/[T:]/g, '-');
    expect(key).toMatch(new RegExp(`^p/${moment}-[0-9A-F]{16}$`));
    const got = await logs.world.client.get(`/logs/${key}`);
    expect(got.text).toBe(`${lines.join('\n')}\n`);
    expect(got.header('content-type')).toBe('text/plain');
    expect(await logs.queued()).toEqual([]);
    await logs.deliver();
    expect(await logs.keys()).toHaveLength(1);
  });

  test('a worker that is killed at any write loses no line and writes none twice', async () => {
    await using logs = await openLogs(backend);
    const { context, client } = logs.world;
    await must(
      client.put('/logs?versioning', {
        body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
      }),
    );
    let total = 0;
    let isOver = false;
    for (let at = 0; !isOver; at += stepFor(backend)) {
      expect(at).toBeLessThan(100);
      for (const when of ['before', 'after'] as const) {
        await logs.ask(2);
        total += 2;
        const first = dyingProcess(context, at, when);
        await logs.deliver(first.context).catch(() => {});
        isOver = !first.hasDied();
        // The next leader dies as well, somewhat earlier.
        await logs.deliver(dyingProcess(context, at >> 1, when).context).catch(() => {});
        // By the clock of an engine, a line that was just queued may be due a moment later.
        await expect.poll(() => logs.deliver().then(logs.queued), { message: `${at} ${when}` }).toEqual([]);
      }
    }
    expect(keysIn(await logs.delivered())).toEqual(firstKeys(total));
    const versions = await client.get('/logs?versions');
    expect(versions.all('Key')).toHaveLength((await logs.keys()).length);
  });

  test('an object is closed at SVC_ACCESSLOG_OBJECT_SIZE', async () => {
    await using logs = await openLogs(backend, { settings: { SVC_ACCESSLOG_OBJECT_SIZE: '4KiB' } });
    await logs.ask(40);
    await logs.deliver();
    const sizes = (await logs.world.client.get('/logs?list-type=2')).all('Size').map(Number);
    expect(sizes.length).toBeGreaterThan(2);
    expect(Math.max(...sizes)).toBeLessThan(4096 + 1024);
    expect(keysIn(await logs.delivered())).toEqual(firstKeys(40));
  });
});

test.each(['EventTime', 'DeliveryTime'])('keys are partitioned by %s', async (by) => {
  await using logs = await openLogs('memory', { body: logging(partitioned(by)) });
  await logs.ask(2);
  await logs.clock.advance(20_000);
  await logs.ask(1);
  logs.clock.jump(7_200_000);
  await logs.deliver();
  const path = (day: string, time: string) =>
    expect.stringMatching(
      new RegExp(`^p/alice-account/default/bucket/2026/02/${day}/2026-02-${day}-${time}-[0-9A-F]{16}$`),
    );
  const keys = await logs.keys();
  if (by === 'EventTime') expect(keys).toEqual([path('05', '00-00-00'), path('06', '00-00-00')]);
  // An object has lines of one hour of the queue.
  else expect(keys).toEqual([path('06', '02-00-10'), path('06', '02-00-10')]);
  expect(keysIn(await logs.delivered())).toEqual(firstKeys(3));
});

test('the delivery of a long log waits for the clients again and again', async () => {
  await using logs = await openLogs();
  await logs.ask(1_200);
  let waits = 0;
  const services = {
    ...unsupervised,
    async yieldToClients() {
      waits += 1;
    },
  };
  await deliverAccessLogs(logs.world.context, 99, services)(never);
  expect(await logs.queued()).toEqual([]);
  expect(waits).toBeGreaterThanOrEqual(2);
});

test('a bucket that logs into itself gets no line about its log objects', async () => {
  await using logs = await openLogs();
  await must(logs.world.client.put('/logs?logging', { body: logging('', 'own/') }));
  await logs.ask(1);
  await logs.deliver();
  await logs.deliver();
  await logs.world.context.lateWrites.flush();
  expect(await logs.keys()).toHaveLength(1);
  // The listing is the only request to the target bucket after its log was turned on.
  await logs.world.context.lateWrites.flush();
  const operations = (await logs.queued()).map(({ line }) => line.split(' ')[7]);
  expect(operations).toEqual(['REST.GET.BUCKET']);
});

describe('the target bucket is authorized when the log is delivered', () => {
  const lockRule =
    '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>';
  const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  const cases: readonly (readonly [string, string, (world: GatewayWorld) => Promise<void>])[] = [
    ['was deleted', 'no-bucket', (world) => must(world.client.delete('/logs'))],
    [
      'was deleted and made again by another account',
      'other-owner',
      async (world) => {
        await must(world.client.delete('/logs'));
        await must(world.bob.put('/logs'));
        await must(world.bob.put('/logs?policy', { body: policy() }));
      },
    ],
    [
      'has no policy and no ACL for log delivery',
      'denied',
      (world) => must(world.client.delete('/logs?policy')),
    ],
    [
      'has Object Lock with a default retention',
      'object-lock',
      async (world) => {
        await must(world.client.put('/logs?versioning', { body: enabled }));
        await must(world.client.put('/logs?object-lock', { body: lockRule }));
      },
    ],
  ];
  test.each(cases)('a target that %s keeps the lines queued: %s', async (_, why, change) => {
    await using logs = await openLogs();
    await logs.ask(3);
    await change(logs.world);
    await logs.deliver();
    await logs.deliver();
    expect(logs.kept).toEqual([why, why]);
    expect(logs.warned.at(-1)).toMatchObject({ bucket: 'bucket', target: 'logs', why });
    expect(await logs.queued()).toHaveLength(3);
  });

  test('lines that were kept are delivered when the target is there again', async () => {
    await using logs = await openLogs();
    await logs.ask(3);
    await must(logs.world.client.delete('/logs'));
    await logs.deliver();
    await must(logs.world.client.put('/logs'));
    await must(logs.world.client.put('/logs?policy', { body: policy() }));
    await logs.deliver();
    expect(keysIn(await logs.delivered())).toEqual(firstKeys(3));
  });

  const conditions = (bucket: string, account: string): string =>
    policy({
      Condition: {
        ArnLike: { 'aws:SourceArn': `arn:aws:s3:::${bucket}` },
        StringEquals: { 'aws:SourceAccount': account },
      },
    });
  const deny = { Effect: 'Deny', Principal: '*', Action: 's3:PutObject', Resource: 'arn:aws:s3:::logs/*' };
  test.each([
    ['the source bucket and its account', conditions('bucket', alice.owner), 1],
    ['another source bucket', conditions('other', alice.owner), 0],
    ['another source account', conditions('bucket', 'bob-account'), 0],
    ['an explicit Deny', policy({}, [deny]), 0],
    ['another service', policy({ Principal: { Service: 's3.amazonaws.com' } }), 0],
  ])('a policy that names %s', async (_, grant, objects) => {
    await using logs = await openLogs('memory', { grant });
    await logs.ask(1);
    await logs.deliver();
    expect(logs.kept).toEqual(objects === 0 ? ['denied'] : []);
  });

  test('an ACL that grants WRITE to log delivery is enough', async () => {
    await using logs = await openLogs('memory', { grant: '' });
    await must(logs.world.client.put('/logs?acl', { headers: { '*-acl': 'log-delivery-write' } }));
    expect((await logs.world.client.get('/logs?acl')).text).toContain(logDelivery);
    await logs.ask(1);
    await logs.deliver();
    expect(await logs.keys()).toHaveLength(1);
  });
});

test('log objects are encrypted as the target bucket asks, and have the grants of the configuration', async () => {
  const grants = `<TargetGrants><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>bob-account</ID></Grantee><Permission>READ</Permission></Grant></TargetGrants>`;
  await using logs = await openLogs('memory', { body: logging(grants) });
  const { client, bob } = logs.world;
  await must(
    client.put('/logs?encryption', {
      body: '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>',
    }),
  );
  await logs.ask(1);
  await logs.deliver();
  const [key = ''] = await logs.keys();
  const read = await bob.get(`/logs/${key}`);
  expect(read.status).toBe(200);
  expect(read.header('*-server-side-encryption')).toBe('AES256');
  expect(keysIn(read.text.trimEnd().split('\n'))).toEqual(['key-0']);
  expect((await logs.world.anonymous.get(`/logs/${key}`)).status).toBe(403);
});

test('a target with SSE-KMS takes the log where its account may use the key', async () => {
  const alices = { key: keyOf(1).toString('base64'), accounts: [alice.owner] };
  const keys = await writeKeyFile({ alices });
  const settings = { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE: keys };
  await using logs = await openLogs('memory', { settings });
  const { client, context } = logs.world;
  await must(
    client.put('/logs?encryption', {
      body: '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>alices</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>',
    }),
  );
  await logs.ask(1);
  if (context.keys === undefined) throw new Error('there is no key provider');
  // The account was removed from the key since the bucket's encryption was configured.
  const describe = async (keyId: string): Promise<KeyDescription> => ({
    keyId,
    encryptsFor: new Set(['bob-account']),
    decryptsFor: 'reader',
  });
  await logs.deliver({ ...context, keys: faulty(context.keys, { describe }) });
  expect([logs.kept, await logs.keys()]).toEqual([['denied'], []]);
  await logs.deliver();
  const [key] = await logs.keys();
  expect((await client.head(`/logs/${key}`)).header('*-server-side-encryption')).toBe('aws:kms');
});

test('a log object is audited under log delivery and causes the events of its bucket', async () => {
  const settings = {
    SVC_NOTIFY_TARGETS: '[{"id":"jobs","accounts":["*"],"type":"webhook","url":"https://example.com/hook"}]',
  };
  await using logs = await openLogs('memory', { settings });
  await must(
    logs.world.client.put('/logs?notification', {
      body: '<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:1:jobs</Queue></QueueConfiguration></NotificationConfiguration>',
    }),
  );
  await logs.ask(1);
  await logs.deliver();
  const [key] = await logs.keys();
  const rows = await auditRows({ ...logs.world.context, clock: logs.clock });
  expect(rows.filter((row) => row.principal === 'logging.s3.amazonaws.com')).toMatchObject([
    { action: 'PutObject', resource: 'bucket:logs', key, status: 200 },
  ]);
  const [event, ...others] = await eventsOf(logs.world.context);
  expect(others).toEqual([]);
  expect(event).toMatchObject({
    eventName: 'ObjectCreated:Put',
    s3: { object: { key } },
  });
});

test('a prefix that makes keys longer than 1,024 bytes keeps the lines queued', async () => {
  await using logs = await openLogs('memory', { body: logging('', 'p'.repeat(1000)) });
  await logs.ask(1);
  await logs.deliver();
  expect(logs.kept).toEqual(['key-too-long']);
  expect(await logs.queued()).toHaveLength(1);
});

test.each(tightQuotas('logs', 1))(
  'a target whose quota is used up keeps the lines queued, and takes them once there is room: %s %o',
  async (path, quota) => {
    await using logs = await openLogs('memory');
    const admin = logs.world.as({ credential: operator });
    await must(logs.world.client.put('/logs/other'));
    await must(admin.put(`/admin/v1${path}`, { body: JSON.stringify(quota) }));
    await logs.ask(1);
    await logs.deliver();
    expect(logs.kept).toEqual(['quota']);
    expect(await logs.queued()).toHaveLength(1);
    await must(admin.delete(`/admin/v1${path}`));
    await logs.deliver();
    expect(await logs.queued()).toHaveLength(0);
    expect(await logs.keys()).toHaveLength(2);
  },
);

test('lines of a bucket that was deleted and made again, and of a log that was changed, go to the target of their time', async () => {
  await using logs = await openLogs();
  const { client, context } = logs.world;
  await logs.ask(2);
  await must(client.put('/second'));
  await must(client.put('/second?policy', { body: policy({ Resource: 'arn:aws:s3:::second/*' }) }));
  await must(client.put('/bucket?logging', { body: logging().replace('>logs<', '>second<') }));
  await client.get('/bucket/key-2');
  await must(client.delete('/bucket'));
  await must(client.put('/bucket'));
  await client.get('/bucket/key-3');
  await context.lateWrites.flush();
  await logs.deliver();
  await logs.deliver();
  const former = (await logs.delivered()).filter((line) => line.includes('REST.GET.OBJECT'));
  expect(keysIn(former)).toEqual(firstKeys(2));
  const lines: string[] = [];
  for (const key of (await client.get('/second?list-type=2')).all('Key'))
    lines.push(...(await client.get(`/second/${key}`)).text.trim().split('\n'));
  expect(lines.filter((line) => line.includes('key-2'))).toHaveLength(1);
  expect(lines.filter((line) => line.includes('key-3'))).toHaveLength(0);
  expect(await logs.queued()).toEqual([]);
});

test('lines from a clock that was ahead and stepped back are delivered once, when the time has come to them', async () => {
  await using logs = await openLogs();
  const { client, context } = logs.world;
  logs.clock.jump(3 * 3_600_000);
  await logs.ask(2);
  logs.clock.jump(-3 * 3_600_000);
  await client.get('/bucket/key-2');
  await context.lateWrites.flush();
  await logs.deliver();
  expect(keysIn(await logs.delivered())).toEqual(['key-2']);
  logs.clock.jump(3 * 3_600_000 + 60_000);
  await logs.deliver();
  await logs.deliver();
  expect(keysIn(await logs.delivered()).toSorted()).toEqual(firstKeys(3));
});

test('a target whose storage fails does not hold up other logs, and gets its lines later', async () => {
  await using logs = await openLogs();
  const { client, context } = logs.world;
  await must(client.put('/second'));
  await must(client.put('/second?logging', { body: logging('', 'q/') }));
  await logs.ask(2);
  await client.get('/second/key-2');
  await context.lateWrites.flush();
  const write: Context['bytes']['write'] = (source, options) => {
    if (options.owner.key.startsWith('p/')) return Promise.reject(new Error('no answer'));
    return context.bytes.write(source, options);
  };
  const failing = { ...context, bytes: faulty(context.bytes, { write }) };
  await logs.deliver(failing);
  expect(logs.kept).toEqual(['error']);
  expect((await logs.keys()).map((key) => key.slice(0, 2))).toEqual(['q/']);
  await logs.deliver();
  expect(keysIn(await logs.delivered())).toEqual(firstKeys(3));
});

test('a leader that was paused before its commit writes nothing after its successor', async () => {
  await using logs = await openLogs();
  const { context, client } = logs.world;
  await logs.ask(2);
  const paused = pausedProcess(context);
  // The first look is for its own term, the second directly before the commit of the object.
  paused.pauseBefore('get', 'tasks', 1);
  const former = deliverAccessLogs(paused.context, 0)(never);
  await paused.stands;
  await logs.deliver();
  const [key = ''] = await logs.keys();
  await must(client.delete(`/logs/${key}`));
  paused.goOn();
  await expect(former).rejects.toThrow(LeaseLost);
  expect(await logs.keys()).toEqual([]);
});

test.each([
  'a client has deleted the object of its successor',
  'the target has refused the lines of its successor and takes them again',
])('a leader that is paused at its commit writes no line again after %s', async (between) => {
  await using logs = await openLogs();
  const { context, client } = logs.world;
  await logs.ask(2);
  const paused = pausedProcess(context);
  paused.pauseBefore('commit', 'objects');
  const former = deliverAccessLogs(paused.context, 0)(never);
  await paused.stands;
  let lines: string[] = [];
  if (between.startsWith('the target')) {
    await must(client.delete('/logs?policy'));
    await logs.deliver();
    expect(logs.kept).toEqual(['denied']);
    await must(client.put('/logs?policy', { body: policy() }));
    await logs.deliver();
  } else {
    await logs.deliver();
    lines = await logs.delivered();
    const [key = ''] = await logs.keys();
    await must(client.delete(`/logs/${key}`));
  }
  paused.goOn();
  await former.catch((cause: unknown) => expect(cause).toBeInstanceOf(LeaseLost));
  await logs.deliver();
  for (const key of await logs.keys())
    lines.push(...(await client.get(`/logs/${key}`)).text.trimEnd().split('\n'));
  expect(keysIn(lines)).toEqual(firstKeys(2));
  expect(await logs.queued()).toEqual([]);
});
