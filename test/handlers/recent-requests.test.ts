/** ListRequests and ListLogs: what operators see of the last requests and lines, page by page. */
import { describe, expect, test } from 'vitest';
import { RecentLines } from '../../src/base/recent-entries.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { recordEverything } from '../support/everything-recorded.ts';
import { browsingTracer } from '../support/exporting-tracer.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';

interface Entry {
  readonly operation: string;
  readonly status: number;
  readonly bucket: string;
  readonly key: string;
  readonly durationMs: number;
  readonly [field: string]: unknown;
}

const as = (client: ReturnType<GatewayWorld['as']>, path: string) => async (query: object) => {
  const given = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const { status, text } = await client.get(`/admin/v1/${path}?${given}`);
  return { status, ...JSON.parse(text) };
};
const operations = (entries: readonly Entry[]) =>
  entries.map(({ operation, status }) => `${operation} ${status}`);

describe('ListRequests', () => {
  test('lists requests of the storage protocol with caller, place and outcome, the oldest first, and filters them', async () => {
    await using world = await openGateway();
    const ask = as(world.as({ credential: operator }), 'requests');
    await world.client.put('/books');
    await world.client.put('/books/a%20key', { body: 'hello' });
    await world.client.get('/books/missing');
    await world.bob.get('/books/a%20key');
    await world.client.put('/films');
    await world.anonymous.get('/films/x');
    const { requests, lost, processes } = await ask({});
    expect([lost, processes]).toEqual([0, 1]);
    expect(operations(requests)).toEqual([
      'CreateBucket 200',
      'PutObject 200',
      'GetObject 404',
      'GetObject 403',
      'CreateBucket 200',
      'GetObject 403',
    ]);
    expect(requests[1]).toMatchObject({
      method: 'PUT',
      bucket: 'books',
      key: 'a key',
      account: 'alice-account',
      receivedBytes: 5,
      requestId: expect.stringMatching(/^[0-9A-F]{16}$/),
    });
    expect(requests[3]).toMatchObject({ account: 'bob-account', code: 'AccessDenied' });
    expect(requests[5]).toMatchObject({ account: '', bucket: 'films' });
    const found = async (query: object) => operations((await ask(query)).requests);
    expect(await found({ bucket: 'films' })).toEqual(['CreateBucket 200', 'GetObject 403']);
    expect(await found({ status: '4xx', bucket: 'books' })).toEqual(['GetObject 404', 'GetObject 403']);
    expect(await found({ status: '404' })).toEqual(['GetObject 404']);
    expect(await found({ status: 'AccessDenied', account: 'bob-account' })).toEqual(['GetObject 403']);
    expect(await found({ operation: 'PutObject' })).toEqual(['PutObject 200']);
    expect(await found({ minMs: 60_000 })).toEqual([]);
    expect(await found({ limit: 2 })).toEqual(['CreateBucket 200', 'GetObject 403']);
    expect((await world.client.get('/admin/v1/requests')).status).toBe(403);
  });

  test('has requests that were refused before their caller was known, with the bucket that they name', async () => {
    await using world = await openGateway();
    const wrong = world.as({ credential: { ...operator, secretKey: 'wrong' } });
    expect((await wrong.get('/books/key')).status).toBe(403);
    const { requests } = await as(world.as({ credential: operator }), 'requests')({});
    expect(requests).toMatchObject([{ bucket: 'books', code: 'SignatureDoesNotMatch', account: '' }]);
  });

  test('continues after `next`: each request is in one page, whatever the limit', async () => {
    await using world = await openGateway();
    const ask = as(world.as({ credential: operator }), 'requests');
    await world.client.put('/books');
    let { next } = await ask({});
    expect((await ask({ after: next })).requests).toEqual([]);
    for (let n = 0; n < 7; n += 1) await world.client.get(n % 2 === 0 ? `/books/${n}` : '/books');
    const seen: string[] = [];
    for (;;) {
      const page = await ask({ after: next, limit: 2 });
      if (page.requests.length === 0) break;
      expect(page.requests.length).toBeLessThanOrEqual(2);
      seen.push(...page.requests.map(({ requestId }: Entry) => String(requestId)));
      next = page.next;
    }
    expect(new Set(seen).size).toBe(7);
    expect(seen).toHaveLength(7);
    for (const after of ['x', '0.1', `${next}~`, 'aaaaaaaa.-1'])
      expect([after, (await ask({ after })).code]).toEqual([after, 'InvalidArgument']);
  });

  test('tells a slow reader how many requests it has lost, and keeps refusals beside a flood of others', async () => {
    await using world = await openGateway();
    const ask = as(world.as({ credential: operator }), 'requests');
    await world.client.put('/books');
    await world.client.get('/books/missing');
    const { next } = await ask({});
    const flood = 5_000;
    for (let n = 0; n < flood; n += 100)
      await Promise.all(Array.from({ length: 100 }, () => world.client.send('HEAD', '/books')));
    const page = await ask({ after: next, limit: 1_000 });
    expect(page.lost).toBe(flood - 4_096);
    expect(page.requests).toHaveLength(1_000);
    expect((await ask({ after: page.next })).lost).toBe(0);
    expect((await ask({ status: '4xx' })).requests).toHaveLength(1);
  });

  test('a busy account overwrites the requests of no other account, nor of its readers, and a follower learns how many are lost', async () => {
    await using world = await openGateway();
    const ask = as(world.as({ credential: operator }), 'requests');
    const flood = async (requests: number, send: () => Promise<unknown>) => {
      for (let n = 0; n < requests; n += 100) await Promise.all(Array.from({ length: 100 }, send));
    };
    await world.client.put('/busy');
    await world.bob.put('/quiet');
    await world.bob.put('/quiet/key', { body: 'hello' });
    await world.bob.get('/quiet/missing');
    const open = { Effect: 'Allow', Principal: '*', Action: 's3:*', Resource: ['arn:aws:s3:::quiet/*'] };
    const [busy, quiet] = ['busy', 'quiet'].map((bucket) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ ...open, Resource: [`arn:aws:s3:::${bucket}/*`] }],
      }),
    );
    expect((await world.client.put('/busy?policy', { body: busy as string })).status).toBe(204);
    expect((await world.bob.put('/quiet?policy', { body: quiet as string })).status).toBe(204);
    await world.client.put('/busy/key', { body: 'hello' });
    expect((await world.anonymous.get('/quiet/key')).status).toBe(200);
    expect((await world.anonymous.get('/quiet/missing')).status).not.toBe(200);
    const { next } = await ask({});
    await flood(4_200, () => world.client.send('HEAD', '/busy'));
    await flood(1_200, () => world.client.send('HEAD', '/busy/missing'));
    await flood(2_200, () => world.anonymous.send('HEAD', '/busy/key'));
    await flood(1_200, () => world.anonymous.send('HEAD', '/busy/missing'));
    expect(operations((await ask({ account: 'bob-account' })).requests)).toEqual([
      'CreateBucket 200',
      'PutObject 200',
      'GetObject 404',
      'PutBucketPolicy 204',
    ]);
    expect((await ask({ bucket: 'quiet' })).requests).toHaveLength(6);
    // Of the rings, bob and his readers have six; one busy bucket, its policy and the key were added before `next`.
    const { lost } = await ask({ after: next });
    expect(lost).toBe(8_800 - (4_096 + 1_024 - 6));
  });

  test('shows an operator with a policy only requests to the buckets and of the accounts that no Deny covers', async () => {
    await using world = await openGateway();
    const policy = (...statements: object[]) =>
      JSON.stringify({ Version: '2012-10-17', Statement: statements });
    const arn = (path: string) => `arn:aws:admin:::${path}`;
    const { credential: denied } = await openUser(world, 'carol', {
      root: operator,
      policy: policy(
        { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
        {
          Effect: 'Deny',
          Action: 'admin:*',
          Resource: ['buckets/secret', 'buckets/secret/*', 'accounts/bob-account'].map(arn),
        },
      ),
    });
    const { credential: limited } = await openUser(world, 'dave', {
      root: operator,
      policy: policy({ Effect: 'Allow', Action: 'admin:ListRequests', Resource: arn('buckets/open/*') }),
    });
    for (const bucket of ['open', 'secret']) await world.client.put(`/${bucket}`);
    await world.bob.get('/open/key');
    const carol = as(world.as({ credential: denied }), 'requests');
    const ofCarol = (await carol({})).requests.filter(({ bucket }: Entry) => bucket !== '');
    expect(ofCarol).toMatchObject([{ bucket: 'open', operation: 'CreateBucket' }]);
    expect((await carol({ bucket: 'secret' })).status).toBe(403);
    const dave = as(world.as({ credential: limited }), 'requests');
    expect((await dave({})).status).toBe(403);
    expect((await dave({ bucket: 'secret' })).status).toBe(403);
    expect((await dave({ bucket: 'open' })).requests).toHaveLength(2);
  });
});

describe('ListLogs', () => {
  const openLogged = async (level: 'INFO' | 'DEBUG' = 'INFO') => {
    const everything = recordEverything(level);
    const world = await openGateway({ telemetry: everything.telemetry, wrap: everything.wrap });
    return { world, ask: as(world.as({ credential: operator }), 'logs'), log: createLog() };
  };

  test('lists lines by level, bucket, account, operation, status and duration, and continues after `next`', async () => {
    const { world, ask, log } = await openLogged();
    await using _ = world;
    await world.client.put('/books');
    await world.client.get('/books/missing');
    await world.bob.get('/books/missing');
    log('WARN', 'a disk is slow', { disk: 'sda' });
    log('INFO', 'slow request', { operation: 'PutObject', status: 200, duration_ms: 900.5, bucket: 'films' });
    const found = async (query: object) =>
      (await ask(query)).lines.map(({ message, fields }: { message: string; fields: Entry }) =>
        [message, fields.status].join(' ').trim(),
      );
    expect(await found({})).toEqual([
      'request refused 404',
      'request refused 403',
      'a disk is slow',
      'slow request 200',
    ]);
    expect(await found({ level: 'WARN' })).toEqual(['a disk is slow']);
    expect(await found({ bucket: 'books' })).toEqual(['request refused 404', 'request refused 403']);
    expect(await found({ account: 'bob-account' })).toEqual(['request refused 403']);
    expect(await found({ status: 'NoSuchKey' })).toEqual(['request refused 404']);
    expect(await found({ operation: 'PutObject' })).toEqual(['slow request 200']);
    expect(await found({ minMs: 900 })).toEqual(['slow request 200']);
    const { next, lines } = await ask({});
    expect(lines[2]).toMatchObject({ level: 'WARN', fields: { disk: 'sda' }, process: 'host:1' });
    log('ERROR', 'another', {});
    expect((await ask({ after: next })).lines).toMatchObject([{ message: 'another' }]);
  });

  test('at level DEBUG, those who follow do not see their own polls', async () => {
    const { world, ask } = await openLogged('DEBUG');
    await using _ = world;
    await ask({});
    await ask({});
    const { lines } = await ask({ level: 'DEBUG' });
    expect(JSON.stringify(lines)).not.toContain('admin:ListLogs');
    expect((await ask({ operation: 'admin:ListLogs' })).lines.length).toBeGreaterThan(0);
  });

  test('is not there where an application owns the log', async () => {
    await using world = await openGateway({ wrap: (context) => ({ ...context, tracer: browsingTracer() }) });
    expect((await as(world.as({ credential: operator }), 'logs')({})).status).toBe(501);
  });

  test('an account with many lines overwrites those of no other account', async () => {
    const { world, ask, log } = await openLogged();
    await using _ = world;
    await world.bob.get('/books/missing');
    log('WARN', 'a disk is slow', { disk: 'sda' });
    for (let n = 0; n < 1_500; n += 1) await world.client.get(`/books-${n}/missing`);
    for (let n = 0; n < 300; n += 1) log('WARN', 'slow request', { account: 'alice-account', key: `${n}` });
    expect((await ask({ account: 'bob-account' })).lines).toHaveLength(1);
    const { lines } = await ask({ level: 'WARN', limit: 1_000 });
    expect(lines).toHaveLength(200);
    expect(lines[0]).toMatchObject({ message: 'a disk is slow' });
  });

  test('keeps the beginning of a long line as its message', () => {
    const lines = new RecentLines();
    lines.add(`{"time":"2026-01-01T00:00:00.000Z","level":"ERROR","message":"${'x'.repeat(10_000)}"}`, 1);
    expect(lines.severe()[0]).toHaveLength(4_096);
  });
});
