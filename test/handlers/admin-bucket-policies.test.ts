/** Policies about a bucket hold for every operation of the operator API that names it: in its path, its query or its body. */
import { describe, expect, test } from 'vitest';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import { failedReplication } from '../../src/metadata/background/replication.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../src/protocol/admin/operations.ts';
import { browsingTracer } from '../support/exporting-tracer.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';

const policy = (...statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });
const arn = (path: string): string => `arn:aws:admin:::${path}`;
const everything = { Effect: 'Allow', Action: 'admin:*', Resource: '*' };
const onSecret = { Action: 'admin:*', Resource: [arn('buckets/secret'), arn('buckets/secret/*')] };

/** Where a request names the bucket that it is limited to. */
function bucketIn(name: AdminOperationName): 'path' | 'query' | 'body' | undefined {
  const { names = {}, parameters, query } = describeAdminOperation(name);
  const { bucket } = names;
  if (bucket === undefined || 'noResource' in bucket) return undefined;
  if (parameters.includes('bucket')) return 'path';
  return 'bucket' in query ? 'query' : 'body';
}

const aboutBuckets = adminOperationNames.filter((name) => bucketIn(name) !== undefined);

async function openAdmin(world: GatewayWorld, document: string) {
  const { credential } = await openUser(world, 'carol', { root: operator, policy: document });
  return world.as({ credential });
}
type Client = Awaited<ReturnType<typeof openAdmin>>;

/** What an operation needs beside the bucket. */
const bodies: Partial<Record<AdminOperationName, object>> = {
  ExplainDecision: { action: 's3:GetObject' },
};

/** Sends the operation with the bucket where its row says that it is. */
async function ask(client: Client, name: AdminOperationName, bucket: string) {
  const { method, path } = describeAdminOperation(name);
  const place = bucketIn(name);
  const query = place === 'query' && bucket !== '' ? `?bucket=${bucket}` : '';
  const named = place === 'body' && bucket !== '' ? { bucket } : {};
  const hasBody = describeAdminOperation(name).body !== undefined;
  const body = hasBody ? { body: JSON.stringify({ ...bodies[name], ...named }) } : {};
  return client.send(method, path.replace(':bucket', bucket) + query, body);
}

const isRefused = async (client: Client, name: AdminOperationName, bucket: string): Promise<boolean> => {
  const { status, text } = await ask(client, name, bucket);
  // 501: this gateway keeps no traces.
  expect([200, 202, 204, 400, 403, 404, 501]).toContain(status);
  if (status === 403) expect(JSON.parse(text).code).toBe('AccessDenied');
  return status === 403;
};

/** Whether each operation is refused for a bucket. */
const refusals = async (client: Client, bucket: string) =>
  Object.fromEntries(
    await Promise.all(
      aboutBuckets.map(async (name) => [name, await isRefused(client, name, bucket)] as const),
    ),
  );
const all = (value: boolean, names: readonly string[] = aboutBuckets) =>
  Object.fromEntries(names.map((name) => [name, value]));

test('the rows that are limited to a bucket are many', () => {
  expect(aboutBuckets.length).toBeGreaterThan(8);
});

describe('a policy about a bucket', () => {
  test.each([
    ['a Deny', policy(everything, { Effect: 'Deny', ...onSecret })],
    [
      'an Allow of everything else',
      policy({ Effect: 'Allow', Action: 'admin:*', NotResource: onSecret.Resource }),
    ],
  ])('%s refuses each operation that names the bucket, and no other bucket', async (_, document) => {
    await using world = await openGateway();
    const client = await openAdmin(world, document);
    for (const name of ['secret', 'open']) await world.client.put(`/${name}`);
    expect(await refusals(client, 'secret')).toEqual(all(true));
    expect(await refusals(client, 'open')).toEqual(all(false));
    const shown = await client.post('/admin/v1/why', { body: '{"action":"s3:GetObject","bucket":"secret"}' });
    expect(shown.text).toContain(arn('buckets/secret/why'));
    expect((await client.get('/?audit&bucket=secret')).status).toBe(403);
    expect((await client.get('/?audit&bucket=open')).status).toBe(200);
  });

  test('an Allow for some buckets allows the operations that name one of them, and neither others nor those about all', async () => {
    await using world = await openGateway();
    const client = await openAdmin(world, policy({ ...everything, Resource: arn('buckets/team-*') }));
    for (const name of ['secret', 'team-a']) await world.client.put(`/${name}`);
    expect(await refusals(client, 'team-a')).toEqual(all(false));
    expect(await refusals(client, 'secret')).toEqual(all(true));
    const ofAll = aboutBuckets.filter((name) => bucketIn(name) !== 'path');
    for (const name of ofAll) expect([name, await isRefused(client, name, '')]).toEqual([name, true]);
    expect((await client.get('/?audit&bucket=team-a')).status).toBe(200);
    expect((await client.get('/?audit')).status).toBe(403);
    // It takes no bucket, and lists those of all.
    expect((await client.get('/?notify-dlq&bucket=team-a')).status).toBe(403);
  });

  test('a Deny of the path of an operation holds also where the request names a bucket', async () => {
    await using world = await openGateway();
    const Resource = aboutBuckets.map((name) =>
      arn(describeAdminOperation(name).path.slice('/admin/v1/'.length).replace(':bucket', '*')),
    );
    const client = await openAdmin(
      world,
      policy(everything, { Effect: 'Deny', Action: 'admin:*', Resource }),
    );
    await world.client.put('/open');
    expect(await refusals(client, 'open')).toEqual(all(true));
    expect((await client.get('/?audit&bucket=open')).status).toBe(403);
  });

  test('holds for the bucket of an audited request that `why` is asked about by its id', async () => {
    await using world = await openGateway();
    const client = await openAdmin(world, policy(everything, { Effect: 'Deny', ...onSecret }));
    const why = async (bucket: string) => {
      const made = await world.client.put(`/${bucket}`);
      const requestId = made.header('*-request-id');
      return (await client.post('/admin/v1/why', { body: JSON.stringify({ requestId }) })).status;
    };
    expect([await why('open'), await why('secret')]).toEqual([200, 403]);
  });

  test('a Deny holds for one trace, dead letter or failed replication of the bucket that a request names by its id', async () => {
    const tracer = browsingTracer();
    await using world = await openGateway({
      wrap: (context) => ({ ...context, tracer }),
    });
    // An Allow of the paths themselves is enough for other buckets.
    const paths = ['traces/*', 'notify/*', 'replication/*'].map(arn);
    const allow = { Effect: 'Allow', Action: 'admin:*', Resource: paths };
    const client = await openAdmin(world, policy(allow, { Effect: 'Deny', ...onSecret }));
    const { metadata } = world.context;
    const seed = async (bucket: string) => {
      const letter = { sink: 'audit', message: { Bucket: bucket } };
      const version = { key: 'key', version: '0'.repeat(32), isNull: false };
      const failure = { bucket, ...version, destination: { Bucket: 'arn:aws:s3:::far' } };
      const row = { slot: 0, id: bucket, requestId: 'r', attempts: 1, due: 1 };
      const now = await metadata.now();
      const given = { error: 'gone', now, expiresAt: now + 60_000, bucket };
      await metadata.apply([
        ...deadLetter({ ...row, task: letter } as unknown as QueueRow, given),
        ...failedReplication({ ...row, task: failure } as unknown as QueueRow, given),
      ]);
      // Refused requests are kept.
      const refused = await world.client.get(`/${bucket}/missing`);
      return refused.header('*-request-id') ?? '';
    };
    for (const bucket of ['open', 'secret']) {
      await world.client.put(`/${bucket}`);
      const traced = await seed(bucket);
      const statuses = [await client.get(`/admin/v1/traces/${traced}`)];
      for (const path of ['notify/redrive', 'notify/discard', 'replication/retry']) {
        // What was redriven is seeded again.
        await seed(bucket);
        statuses.push(await client.post(`/admin/v1/${path}`, { body: JSON.stringify({ id: bucket }) }));
      }
      const expected = bucket === 'open' ? 200 : 403;
      expect([bucket, statuses.map(({ status }) => status)]).toEqual([bucket, Array(4).fill(expected)]);
    }
    const admin = world.as({ credential: operator });
    const left = async (path: string) => (await admin.get(`/admin/v1/${path}`)).text;
    expect(await left('notify/dead-letters')).toContain('"secret"');
    expect(await left('replication/failed')).toContain('"secret"');
    expect(await left('replication/failed')).not.toContain('"open"');
  });

  test('leaves its audit row with the bucket, where it refuses', async () => {
    await using world = await openGateway();
    const client = await openAdmin(world, policy(everything, { Effect: 'Deny', ...onSecret }));
    await ask(client, 'DiscardNotifications', 'secret');
    const { text } = await world.as({ credential: operator }).get('/admin/v1/audit?bucket=secret');
    expect(JSON.parse(text).rows).toMatchObject([
      { action: 'admin:DiscardNotifications', error: 'AccessDenied' },
    ]);
  });
});
