/** Rate limits of accounts, buckets and anonymous sources. */
import { expect, test } from 'vitest';
import { RateLimiter, type Scope } from '../../src/domain/quotas/rate-limiter.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import type { Siblings } from '../../src/ports/siblings.ts';
import { reconcileQuotas } from '../../src/workers/buckets.ts';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import {
  alice,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { whileHeld } from '../support/held-body.ts';
import { boundary, encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

async function openWorld(options: GatewayWorldOptions = {}) {
  const clock = virtualClock();
  const world = await openGateway({ clock, ...options });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  return { world, clock, admin: operatorOf(world) };
}

const retryAfter = ({ headers }: Answer): string | undefined =>
  headers.find(([name]) => name.toLowerCase() === 'retry-after')?.[1];
const ofAlice = `/accounts/${alice.owner}/limits`;

test('an account beyond its requests per second gets 503 SlowDown with Retry-After, and others are served', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 2 });
  const statuses = async (count: number) => {
    const found: number[] = [];
    for (let index = 0; index < count; index += 1) found.push((await world.client.get('/bucket/key')).status);
    return found;
  };
  expect(await statuses(3)).toEqual([200, 200, 503]);
  const refused = await world.client.get('/bucket/key');
  expect([refused.one('Code'), retryAfter(refused)]).toEqual(['SlowDown', '1']);
  expect(refused.text).toContain('The account is limited to 2 requests per second.');
  expect((await world.bob.get('/')).status).toBe(200);
  await clock.advance(500);
  expect(await statuses(2)).toEqual([200, 503]);
  await clock.advance(60_000);
  // An allowance of one second adds up.
  expect(await statuses(3)).toEqual([200, 200, 503]);
  await admin.must('DELETE', ofAlice);
  expect(await statuses(5)).toEqual([200, 200, 200, 200, 200]);
});

test('burstSeconds lets an unused allowance add up', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 1, burstSeconds: 3 });
  for (let index = 0; index < 3; index += 1) expect((await world.client.get('/bucket/key')).status).toBe(200);
  expect((await world.client.get('/bucket/key')).status).toBe(503);
  await clock.advance(2_000);
  for (const status of [200, 200, 503]) expect((await world.client.get('/bucket/key')).status).toBe(status);
});

test('a limit that is set again counts nothing of the time without it, and a lower limit begins with a debt of one second at most', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await world.client.put('/bucket/key', { body: 'x'.repeat(2_000) });
  const get = async () => (await world.client.get('/bucket/key')).status;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 5, bytesPerSecond: 10_000 });
  expect(await get()).toBe(200);
  await admin.must('PUT', ofAlice, { concurrentRequests: 50 });
  for (let index = 0; index < 40; index += 1) expect(await get()).toBe(200);
  await admin.must('PUT', ofAlice, { requestsPerSecond: 5, concurrentRequests: 50 });
  for (const status of [200, 200, 200, 200, 200, 503]) expect(await get()).toBe(status);
  await admin.must('PUT', ofAlice, { bytesPerSecond: 10_000, concurrentRequests: 50 });
  for (let index = 0; index < 6; index += 1) expect(await get()).toBe(200);
  // A debt of 2,000 bytes would be one of 2,000 seconds.
  await admin.must('PUT', ofAlice, { bytesPerSecond: 1 });
  const refused = await world.client.get('/bucket/key');
  expect([refused.status, retryAfter(refused)]).toEqual([503, '1']);
  await clock.advance(1_000);
  expect((await world.client.head('/bucket/key')).status).toBe(200);
});

test('the limit of a bucket holds for all its callers, and refused strangers use up nothing of it', async () => {
  const { world, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', '/buckets/bucket/limits', { requestsPerSecond: 2 });
  for (let index = 0; index < 5; index += 1) expect((await world.bob.get('/bucket/key')).status).toBe(403);
  for (const status of [200, 200, 503]) expect((await world.client.get('/bucket/key')).status).toBe(status);
  expect((await world.client.get('/')).status).toBe(200);
  // A bucket of the same name that is created later has no limit.
  expect(await admin.must('GET', '/limits')).toEqual({
    rows: [{ bucket: 'bucket', requestsPerSecond: 2 }],
  });
});

test('each address that sends anonymous requests has a limit of its own', async () => {
  const { world, admin } = await openWorld({
    settings: { SVC_TRUSTED_PROXIES: '0.0.0.0/0,::/0' },
  });
  await using _world = world;
  const policy = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' });
  expect((await world.client.put('/bucket?policy', { body: policy })).status).toBe(204);
  await admin.must('PUT', '/limits/anonymous', { requestsPerSecond: 1 });
  expect(await admin.must('GET', '/limits')).toEqual({ rows: [{ isAnonymous: true, requestsPerSecond: 1 }] });
  const from = async (address: string) =>
    (await world.anonymous.get('/bucket/key', { headers: { 'x-forwarded-for': address } })).status;
  expect([await from('192.0.2.1'), await from('192.0.2.1'), await from('192.0.2.2')]).toEqual([
    200, 503, 200,
  ]);
  // An IPv6 client has 2^64 addresses.
  expect([
    await from('2001:db8:0:1::1'),
    await from('2001:db8::1:2:3:4:5'),
    await from('2001:DB8:0:1::1'),
    await from('2001:db8:0:2::1'),
  ]).toEqual([200, 503, 503, 200]);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
});

test('concurrentRequests counts a request until its body and its reply have ended', async () => {
  const { world, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { concurrentRequests: 1 });
  const put = { method: 'PUT', path: '/bucket/other', ask: { body: 'content' } };
  const answer = await whileHeld(world.client, put, async () => {
    const refused = await world.client.get('/bucket/key');
    expect([refused.status, refused.one('Code')]).toEqual([503, 'SlowDown']);
  });
  expect(answer.status).toBe(200);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
  // A request that is refused ends too.
  expect((await world.client.get('/bucket/absent')).status).toBe(404);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
});

test('a form counts for the account that signed it, and not for an account whose signature it lacks', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 2, concurrentRequests: 1 });
  const conditions = [{ bucket: 'bucket' }, ['starts-with', '$key', '']];
  const signed = (secretKey: string) => {
    const fields = signForm({ ...alice, secretKey }, { conditions, now: clock.now() });
    return {
      headers: multipart(),
      body: encodeForm([...fieldsOf({ key: 'form', ...fields }), fileOf('content')]),
    };
  };
  const post = (ask: ReturnType<typeof signed>) => world.anonymous.post('/bucket', ask);
  for (let index = 0; index < 5; index += 1) expect((await post(signed('another'))).status).toBe(403);
  expect((await post(signed(alice.secretKey))).status).toBe(204);
  expect((await post(signed(alice.secretKey))).status).toBe(204);
  const refused = await post(signed(alice.secretKey));
  expect([refused.status, refused.code, retryAfter(refused)]).toEqual([503, 'SlowDown', '1']);
  await clock.advance(1_000);
  const ask = signed(alice.secretKey);
  // The end of the file is held back.
  const held = { method: 'POST', path: '/bucket', ask, early: ask.body.length - boundary.length - 10 };
  const answer = await whileHeld(world.anonymous, held, async () => {
    expect((await world.client.get('/bucket/key')).text).toContain('1 concurrent requests');
  });
  expect(answer.status).toBe(204);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
});

test('requests of a tenant to the operator API count for its account, and those of operators have no limit', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 2 });
  await admin.must('PUT', `/accounts/${operator.owner}/limits`, { requestsPerSecond: 1 });
  const why = { body: JSON.stringify({ bucket: 'bucket', action: 's3:GetObject', key: 'key' }) };
  const parts = { body: JSON.stringify({ reads: [{ operation: 'GetBucket', path: { name: 'bucket' } }] }) };
  expect((await world.client.post('/admin/v1/why', why)).status).toBe(200);
  expect((await world.client.post('/admin/v1/batch', parts)).status).toBe(200);
  for (const path of ['/admin/v1/buckets/bucket', '/bucket/key', '/metrics']) {
    const refused = await world.client.get(path);
    expect([path, refused.status, retryAfter(refused)]).toEqual([path, 503, '1']);
    expect(refused.text).toContain('The account is limited to 2 requests per second.');
  }
  for (let index = 0; index < 5; index += 1) await admin.must('GET', '/buckets/bucket');
  // A log-in is a stranger's request, and what it opens counts for its account.
  await clock.advance(1_000);
  const { accessKey, secretKey } = alice;
  const logIn = {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ accessKey, secretKey }),
  };
  const [cookie = ''] = await Promise.all(
    [1, 2, 3].map(async () => {
      const { status, headers } = await world.anonymous.post('/admin/v1/session', logIn);
      expect(status).toBe(200);
      return headers.find(([name]) => name.toLowerCase() === 'set-cookie')?.[1].split(';')[0] ?? '';
    }),
  );
  const statuses: number[] = [];
  for (let index = 0; index < 3; index += 1)
    statuses.push((await world.anonymous.get('/admin/v1/session', { headers: { cookie } })).status);
  expect(statuses).toEqual([200, 200, 503]);
});

test('bytesPerSecond spreads a large body over time, in both directions', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  const body = Buffer.alloc(12 * 1024 * 1024, 1);
  await admin.must('PUT', ofAlice, { bytesPerSecond: 1024 * 1024 });
  const timed = async (ask: () => Promise<Answer>): Promise<number> => {
    const startedAt = clock.elapsed();
    let isOver = false;
    const asking = ask().finally(() => {
      isOver = true;
    });
    while (!isOver) {
      await clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await asking).status).toBe(200);
    return (clock.elapsed() - startedAt) / 1_000;
  };
  expect(await timed(() => world.client.put('/bucket/large', { body }))).toBeGreaterThan(6);
  await clock.advance(60_000);
  expect(await timed(() => world.client.get('/bucket/large'))).toBeGreaterThan(6);
});

test('a body waits for bytes in whole milliseconds: what is left after rounding ends its wait', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { bytesPerSecond: 999_983 });
  const body = Buffer.alloc(3_000_017, 1);
  let isOver = false;
  const asking = world.client.put('/bucket/odd', { body }).finally(() => {
    isOver = true;
  });
  while (!isOver) {
    await clock.advance(7);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await asking).status).toBe(200);
  expect(clock.slept.filter((ms) => !Number.isInteger(ms))).toEqual([]);
});

test('small bodies count towards bytesPerSecond', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await world.client.put('/bucket/small', { body: Buffer.alloc(4_000) });
  await admin.must('PUT', ofAlice, { bytesPerSecond: 1_000 });
  expect((await world.client.get('/bucket/small')).status).toBe(200);
  const refused = await world.client.get('/bucket/small');
  expect([refused.one('Code'), retryAfter(refused)]).toEqual(['SlowDown', '3']);
  await clock.advance(4_000);
  expect((await world.client.get('/bucket/small')).status).toBe(200);
});

test('limits are shown, take If-Match, are audited, and refuse what makes no sense', async () => {
  const { world, admin } = await openWorld();
  await using _world = world;
  expect((await admin.ask('GET', ofAlice)).status).toBe(404);
  for (const body of [
    { requestsPerSecond: 0 },
    { requestsPerSecond: 1.5 },
    { burstSeconds: -1 },
    { requests: 1 },
    {},
    { burstSeconds: 10 },
  ])
    expect([body, (await admin.ask('PUT', ofAlice, body)).status]).toEqual([body, 400]);
  expect(await admin.must('GET', '/limits')).toEqual({ rows: [] });
  expect((await admin.ask('PUT', '/accounts/none/limits', { requestsPerSecond: 1 })).status).toBe(404);
  expect((await admin.ask('PUT', '/buckets/none/limits', { requestsPerSecond: 1 })).status).toBe(404);
  await admin.must('PUT', ofAlice, { requestsPerSecond: 5, concurrentRequests: 7 });
  expect(await admin.must('GET', ofAlice)).toEqual({ requestsPerSecond: 5, concurrentRequests: 7 });
  const rows = await auditRows(world.context);
  expect(
    rows.find(({ action, status }) => action === 'admin:PutAccountLimit' && status === 204),
  ).toMatchObject({
    resource: `arn:aws:iam::${alice.owner}:root`,
  });
});

/** Rate limiters of some processes of a node, whose announcements reach each other at once. */
async function joinProcesses({ context }: GatewayWorld, count: number) {
  const heeding = new Map<Siblings, Map<string, ((about: string) => void)[]>>();
  const join = (): Siblings => {
    const acts = new Map<string, ((about: string) => void)[]>();
    const siblings: Siblings = {
      async announce({ topic, about }) {
        for (const [other, their] of heeding)
          if (other !== siblings) for (const act of their.get(topic) ?? []) act(about);
        return true;
      },
      subscribe: (topic, act) => void acts.set(topic, [...(acts.get(topic) ?? []), act]),
      ask: async () => [],
      answer() {},
    };
    heeding.set(siblings, acts);
    return siblings;
  };
  const processes = Array.from({ length: count }, () => {
    const ctx = faulty(context, { siblings: join() });
    const limiter = new RateLimiter();
    const admit = (scope: Scope) => limiter.admit(ctx, undefined, scope);
    const isServed = (scope: Scope): boolean => {
      try {
        admit(scope)?.end();
        return true;
      } catch {
        return false;
      }
    };
    return { open: () => limiter.open(ctx), admit, isServed };
  });
  for (const { open } of processes) await open();
  return processes;
}

type LimitedProcess = Awaited<ReturnType<typeof joinProcesses>>[number];

const account: Scope = { kind: 'account', id: alice.owner };
const addresses = (count: number): readonly Scope[] =>
  Array.from({ length: count }, (_, index) => ({ kind: 'anonymous', id: `192.0.2.${index}` }));

test('the limits of a bucket and of an account are removed with them', async () => {
  const { world, admin } = await openWorld();
  await using _world = world;
  await world.client.put('/short-lived');
  await admin.must('POST', '/accounts', { account: 'carol' });
  for (const of of ['/buckets/short-lived', '/buckets/bucket', '/accounts/carol'])
    await admin.must('PUT', `${of}/limits`, { requestsPerSecond: 100 });
  expect((await admin.must('GET', '/limits'))['rows']).toHaveLength(3);
  await world.client.delete('/short-lived');
  await admin.must('DELETE', '/accounts/carol');
  expect((await admin.must('GET', '/limits'))['rows']).toEqual([
    { bucket: 'bucket', requestsPerSecond: 100 },
  ]);
});

test('the limit that a killed DeleteBucket leaves limits no later bucket of the name, and quota-reconcile removes it', async () => {
  let isKilled = false;
  const { world, admin } = await openWorld({
    wrap(context) {
      const { metadata } = context;
      const get: typeof metadata.get = async (at, ...rest) => {
        if (isKilled && at.table.name === 'rate_limits') throw new StoreUnavailable('away');
        return metadata.get(at, ...rest);
      };
      return { ...context, metadata: faulty(metadata, { get }) };
    },
  });
  await using _world = world;
  await world.client.put('/short-lived');
  for (const name of ['short-lived', 'bucket'])
    await admin.must('PUT', `/buckets/${name}/limits`, { requestsPerSecond: 1 });
  isKilled = true;
  expect((await world.client.delete('/short-lived')).status).toBe(204);
  isKilled = false;
  // Another account makes a bucket of the same name.
  expect((await world.bob.put('/short-lived')).status).toBe(200);
  for (let turn = 0; turn < 5; turn += 1) expect((await world.bob.get('/short-lived')).status).toBe(200);
  expect(await admin.ask('GET', '/buckets/short-lived/limits')).toMatchObject({ status: 404 });
  expect((await admin.must('GET', '/limits'))['rows']).toHaveLength(2);
  const unit = reconcileQuotas(world.context, 1);
  while ((await unit(new AbortController().signal)) === 'busy');
  expect((await admin.must('GET', '/limits'))['rows']).toEqual([{ bucket: 'bucket', requestsPerSecond: 1 }]);
});

test('a bucket that is deleted is so, also where the store answers nothing about its limit', async () => {
  let isAway = false;
  const { world } = await openWorld({
    wrap(context) {
      const { metadata } = context;
      const get: typeof metadata.get = async (at, ...rest) => {
        if (isAway && at.table.name === 'rate_limits') throw new StoreUnavailable('away');
        return metadata.get(at, ...rest);
      };
      return { ...context, metadata: faulty(metadata, { get }) };
    },
  });
  await using _world = world;
  await world.client.put('/short-lived');
  isAway = true;
  const { status, code } = await world.client.delete('/short-lived');
  expect([status, code]).toEqual([204, '']);
  const [row] = (await auditRows(world.context)).filter(({ action }) => action === 'DeleteBucket');
  expect(row).toMatchObject({ status: 204 });
});

test('the processes of a node keep one limit together', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 10, concurrentRequests: 3 });
  const processes = await joinProcesses(world, 2);
  const [a, b] = processes as [LimitedProcess, LimitedProcess];
  const open = [1, 2, 3].map(() => a.admit(account));
  await clock.advance(100);
  expect(() => b.admit(account)).toThrow('3 concurrent requests');
  // A report of open requests expires, so it is repeated.
  await clock.advance(10_000);
  expect(() => b.admit(account)).toThrow('3 concurrent requests');
  for (const admission of open) admission?.end();
  await clock.advance(200);
  let served = 0;
  for (let round = 0; round < 20; round += 1) {
    for (const { isServed } of processes) if (isServed(account)) served += 1;
    await clock.advance(100);
  }
  // Two seconds: 20 requests, and what the burst and the delay of reports add.
  expect(served).toBeGreaterThanOrEqual(20);
  expect(served).toBeLessThanOrEqual(33);
});

test.each([0, 150, 500])(
  'the processes of a node keep the limit of an account together while %i busier addresses are limited',
  async (count) => {
    const { world, clock, admin } = await openWorld();
    await using _world = world;
    await admin.must('PUT', ofAlice, { requestsPerSecond: 10 });
    await admin.must('PUT', '/limits/anonymous', { requestsPerSecond: 1_000 });
    const processes = await joinProcesses(world, 4);
    let served = 0;
    for (let round = 0; round < 50; round += 1) {
      for (const { isServed } of processes) {
        for (const address of addresses(count)) for (let n = 0; n < 2; n += 1) isServed(address);
        if (isServed(account)) served += 1;
      }
      await clock.advance(100);
    }
    // Five seconds: 50 requests, the burst, and what four processes admit until they are told.
    expect(served).toBeGreaterThanOrEqual(50);
    expect(served).toBeLessThanOrEqual(65);
  },
);

test('the processes of a node know of each open request of an account while 1,000 addresses have open ones', async () => {
  const { world, clock, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { concurrentRequests: 1 });
  await admin.must('PUT', '/limits/anonymous', { concurrentRequests: 5 });
  const [a, b] = (await joinProcesses(world, 2)) as [LimitedProcess, LimitedProcess];
  const open = [...addresses(1_000), account].map(a.admit);
  for (const waitMs of [100, 10_000]) {
    await clock.advance(waitMs);
    expect(() => b.admit(account)).toThrow('1 concurrent requests');
  }
  open.at(-1)?.end();
  await clock.advance(100);
  expect(b.isServed(account)).toBe(true);
});

test('an account gets no further burst when more addresses send requests than a process can count', async () => {
  const { world, admin } = await openWorld();
  await using _world = world;
  await admin.must('PUT', ofAlice, { requestsPerSecond: 1 });
  await admin.must('PUT', '/limits/anonymous', { requestsPerSecond: 1 });
  const [{ isServed }] = (await joinProcesses(world, 1)) as [LimitedProcess];
  expect([isServed(account), isServed(account)]).toEqual([true, false]);
  for (const address of addresses(20_100)) expect(isServed(address)).toBe(true);
  expect(isServed(account)).toBe(false);
});

test('requests are served while the table of limits cannot be read', async () => {
  await using world = await openGateway({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        scan: ((at: { table: { name: string } }, ...rest: []) => {
          if (at.table.name === 'rate_limits') throw new Error('damaged');
          return context.metadata.scan(at as never, ...rest);
        }) as typeof context.metadata.scan,
      }),
    }),
  });
  expect((await world.client.put('/bucket')).status).toBe(200);
});
