/** The access log of a bucket has one line for each request to that bucket. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { AccessLogTask } from '../../src/metadata/records/queues.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { policyOf } from '../support/access.ts';
import { acting } from '../support/access-points.ts';
import { openActions } from '../support/actions.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type Backend, backends, bob, openGateway } from '../support/gateway.ts';
import { complete, createUpload, deletion, MiB, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { allow, assume, must, openUser, trusting } from '../support/iam-users.ts';
import { tasksOf, tickingClock } from '../support/recorded.ts';

const logging = (format = ''): string =>
  `<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>${format}</LoggingEnabled></BucketLoggingStatus>`;

async function openWorld(backend: Backend = 'memory', body = logging()) {
  const world = await openGateway({ backend, clock: tickingClock() });
  for (const bucket of ['bucket', 'logs', 'silent']) await world.client.put(`/${bucket}`);
  const put = await world.client.put('/bucket?logging', { body });
  if (put.status !== 200) throw new Error(put.text);
  return world;
}

/** The lines, split into their fields; quoted ones without their quotes. */
async function linesOf(context: Context): Promise<string[][]> {
  await context.lateWrites.flush();
  const tasks = await tasksOf<AccessLogTask>(context, 'access-log');
  return tasks.map(({ line }) =>
    [...line.matchAll(/"([^"]*)"|\[([^\]]*)\]|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? ''),
  );
}
const at = {
  requester: 4,
  requestId: 5,
  operation: 6,
  key: 7,
  target: 8,
  status: 9,
  error: 10,
  sent: 11,
  size: 12,
  accessPoint: 24,
  byAcl: 25,
} as const;
const fields = 26;

test('Object Size is that of the version that was read or written, and - for configurations', async () => {
  await using world = await openWorld();
  const { client, context } = world;
  await client.put('/bucket/key', { body: '0123456789' });
  await client.put('/bucket/key', { body: '01234' });
  await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } });
  const uploadId = await createUpload(client, '/bucket/parts');
  const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'abcdefgh' })];
  await complete(client, '/bucket/parts', { uploadId, parts });
  await setVersioning(client, 'bucket', 'Enabled');
  await client.get('/bucket/parts');
  const lines = await linesOf(context);
  expect(lines.map((line) => [line[at.operation], line[at.size]].join(' '))).toEqual([
    'REST.PUT.OBJECT 10',
    'REST.PUT.OBJECT 5',
    'REST.COPY.OBJECT 5',
    'REST.POST.UPLOADS -',
    'REST.PUT.PART 8',
    'REST.POST.UPLOAD 8',
    'REST.PUT.VERSIONING -',
    'REST.GET.OBJECT 8',
  ]);
});

describe.each(backends)('on %s', (backend) => {
  test('every request to the bucket leaves a line, reads and refusals too', async () => {
    await using world = await openWorld(backend);
    const { client, context } = world;
    const forged = { tamper: { signature: () => '0'.repeat(64) } };
    await client.put('/bucket/a%20key', { body: 'hello' });
    await client.get('/bucket/a%20key');
    await client.head('/bucket/a%20key');
    await client.get('/bucket/none');
    await client.get('/bucket?list-type=2');
    await world.bob.get('/bucket/a%20key');
    await world.anonymous.get('/bucket/a%20key');
    await client.get('/bucket/a%20key', forged);
    await client.put('/bucket/a%20key?torrent', { body: '' });
    await client.post('/bucket?delete', { body: deletion(['a key']) });
    await client.put('/silent/key', { body: 'hello' });
    await client.get('/');
    await client.get('/none/key');
    const lines = await linesOf(context);
    expect(new Set(lines.map((line) => line.length))).toEqual(new Set([fields]));
    const shown = [at.operation, at.key, at.status, at.error, at.requester];
    // There is no line for the request that turned the log on.
    expect(lines.map((line) => shown.map((field) => line[field]).join(' '))).toEqual([
      `REST.PUT.OBJECT a%20key 200 - ${alice.owner}`,
      `REST.GET.OBJECT a%20key 200 - ${alice.owner}`,
      `REST.HEAD.OBJECT a%20key 200 - ${alice.owner}`,
      `REST.GET.OBJECT none 404 NoSuchKey ${alice.owner}`,
      `REST.GET.BUCKET - 200 - ${alice.owner}`,
      `REST.GET.OBJECT a%20key 403 AccessDenied ${bob.owner}`,
      'REST.GET.OBJECT a%20key 403 AccessDenied -',
      'REST.GET.OBJECT a%20key 403 SignatureDoesNotMatch -',
      `REST.PUT.OBJECT a%20key 501 NotImplemented ${alice.owner}`,
      `REST.POST.MULTI_OBJECT_DELETE - 200 - ${alice.owner}`,
    ]);
  });

  test('a line has the request, the reply and the destination of the log', async () => {
    await using world = await openWorld(
      backend,
      logging(
        '<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat>',
      ),
    );
    const { client, context } = world;
    const body = Buffer.alloc(5 * MiB, 7);
    await client.put('/bucket/key', { body });
    const headers = { 'user-agent': 'tester/1', referer: 'https://example.com/' };
    const got = await client.get('/bucket/key?versionId=null', {
      headers: { ...headers, range: 'bytes=5-' },
    });
    expect(got.bytes).toHaveLength(body.length - 5);
    const [, line = []] = await linesOf(context);
    expect(line.slice(0, 4)).toEqual([
      alice.owner,
      'bucket',
      expect.stringMatching(/^\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d \+0000$/),
      '127.0.0.1',
    ]);
    expect(line[at.requestId]).toBe(got.header('*-request-id'));
    expect(line[at.target]).toBe('GET /bucket/key?versionId=null HTTP/1.1');
    expect([line[at.sent], line[at.size]]).toEqual([String(body.length - 5), String(body.length)]);
    expect(line.slice(15, 26)).toEqual([
      'https://example.com/',
      'tester/1',
      'null',
      got.header('*-id-2'),
      'SigV4',
      '-',
      'AuthHeader',
      'localhost',
      '-',
      '-',
      '-',
    ]);
    const [task] = await tasksOf<AccessLogTask>(context, 'access-log');
    expect(task).toMatchObject({
      bucket: 'bucket',
      target: { bucket: 'logs', prefix: 'p/', partitionedBy: 'EventTime' },
    });
  });
});

test('the line of an interrupted download has the bytes that were sent', async () => {
  await using world = await openWorld();
  const { gateway, context } = world;
  await world.client.put('/bucket/key', {
    body: Buffer.alloc(9 * MiB, 7),
    headers: { '*-acl': 'public-read' },
  });
  for (const pieces of [0, 1]) {
    const request = new Request('http://localhost/bucket/key');
    const response = await gateway.fetch(request);
    expect(response.status).toBe(200);
    const reader = response.body?.getReader();
    for (let piece = 0; piece < pieces; piece += 1) await reader?.read();
    await reader?.cancel();
  }
  const lines = (await linesOf(context)).slice(1);
  expect(lines).toHaveLength(2);
  for (const line of lines) expect(Number(line[at.sent]?.replace('-', '0'))).toBeLessThan(9 * MiB);
});

test('a line names an IAM user by its ARN, and a session by its own ARN', async () => {
  await using world = await openWorld();
  await must(world.client.put('/bucket/key', { body: 'hello' }));
  const iam = openActions(world);
  const user = await openUser(world, 'u', { policy: allow('s3:*') });
  const AssumeRolePolicyDocument = trusting({ AWS: alice.owner });
  await must(iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument }));
  await must(iam('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument: allow('s3:*') }));
  const session = await assume(world, iam, { role: `arn:aws:iam::${alice.owner}:role/reader` });
  for (const options of [{}, { credential: user.credential }, session.options])
    await must(world.as(options).get('/bucket/key'));
  expect((await linesOf(world.context)).slice(1).map((line) => line[at.requester])).toEqual([
    alice.owner,
    `arn:aws:iam::${alice.owner}:user/u`,
    `arn:aws:sts::${alice.owner}:assumed-role/reader/session`,
  ]);
});

test('a line says whether nothing but an ACL allowed the request, and by which access point it came', async () => {
  await using world = await openWorld();
  const { client, anonymous } = world;
  for (const key of ['read', 'policy', 'own'])
    await must(
      client.put(`/bucket/${key}`, {
        body: 'hello',
        headers: key === 'own' ? {} : { '*-acl': 'public-read' },
      }),
    );
  const body = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/policy' });
  expect((await client.put('/bucket?policy', { body })).status).toBe(204);
  const alias = (await must(acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' }))).one(
    'Alias',
  );
  const before = (await linesOf(world.context)).length;
  for (const [who, path] of [
    [anonymous, '/bucket/read'],
    [world.bob, '/bucket/read'],
    [client, '/bucket/read'],
    [anonymous, '/bucket/policy'],
    [anonymous, '/bucket/own'],
    [client, `/${alias}/own`],
  ] as const)
    await who.get(path);
  const found = (await linesOf(world.context)).slice(before);
  const shown = [at.status, at.byAcl, at.accessPoint];
  expect(found.map((line) => shown.map((field) => line[field]).join(' '))).toEqual([
    '200 Yes -',
    '200 Yes -',
    '200 - -',
    '200 - -',
    '403 - -',
    `200 - arn:aws:s3:default:${alice.owner}:accesspoint/photos`,
  ]);
});

test('no secret is in a line', async () => {
  await using world = await openWorld();
  await world.client.presigned('GET', '/bucket/key');
  await world.client.get('/bucket/key');
  const text = JSON.stringify(await tasksOf(world.context, 'access-log').then(() => linesOf(world.context)));
  expect(text).toContain('QueryString');
  expect(text).not.toMatch(/secret|signature=[^-]/i);
});

test('requests to buckets without a log write nothing of it and read nothing for it', async () => {
  let reads = 0;
  const wrap = (context: Context): Context => {
    const get: MetadataStore['get'] = (at, key) => {
      reads += 1;
      return context.metadata.get(at, key);
    };
    return { ...context, metadata: faulty(context.metadata, { get }) };
  };
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  reads = 0;
  await world.client.get('/bucket/key');
  // One read of the bucket's row and one of the object's.
  expect(reads).toBe(2);
  await world.client.get('/none/key');
  expect(reads).toBe(3);
  expect(await linesOf(world.context)).toEqual([]);
});
