/** GET /admin/v1/status: the installation on one page. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { formatSeconds, formatSize, formatStatus } from '../../src/runtime/cli/watch.ts';
import type { DescribeGateway } from '../../src/workers/heartbeats.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { deadAfter } from '../support/dead-writer.ts';
import { recordEverything } from '../support/everything-recorded.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

const gatewayOn =
  (host: string, place = 0): DescribeGateway =>
  () => ({
    node: `${host} http://${host}:9000`,
    place,
    process: `${host}:${place}`,
    address: `http://${host}:9000`,
    version: '0.1.0',
    runtime: 'node 24.0.0',
    processes: 2,
    startedAt: 0,
    uptimeMs: 5_000,
    requests: { seconds: 60, requests: 120, refused: 3, failed: 1 },
  });

const start = (context: Context, host: string, place = 0) =>
  startWorkers(context, place === 0 ? ['bucket-stats'] : [], never, {
    process: `${host}:${place}`,
    gateway: gatewayOn(host, place),
  });

async function read(world: GatewayWorld, credential: typeof operator = operator) {
  const { status, text } = await world.as({ credential }).get('/admin/v1/status');
  expect([status, text]).toEqual([200, expect.stringContaining('"gateways"')]);
  return JSON.parse(text) as Parameters<typeof formatStatus>[0];
}

describe('GetStatus', () => {
  test('lists gateways by their heartbeats: processes, what they lead, requests; one that dies is silent, one that stops is gone', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const dead = new AbortController();
    const dying = deadAfter(dead.signal, world.context.metadata);
    const one = start(world.context, 'one');
    await clock.advance(1_000);
    const second = start(world.context, 'one', 1);
    start({ ...world.context, metadata: dying }, 'two', 1);
    await clock.advance(1_000);
    expect((await read(world)).gateways).toEqual([
      expect.objectContaining({
        host: 'one',
        address: 'http://one:9000',
        state: 'up',
        version: '0.1.0',
        runtime: 'node 24.0.0',
        processes: 2,
        processesUp: 2,
        leads: ['bucket-stats'],
        requests: { seconds: 60, requests: 240, refused: 6, failed: 2, perSecond: 4 },
      }),
      expect.objectContaining({ host: 'two', state: 'up', processesUp: 1, leads: [] }),
    ]);
    dead.abort();
    await clock.advance(10 * 60_000);
    const { gateways, ok, warnings } = await read(world);
    expect(gateways.map(({ host, state }) => [host, state])).toEqual([
      ['one', 'up'],
      ['two', 'silent'],
    ]);
    expect([ok, warnings]).toEqual([
      false,
      [expect.stringMatching(/^gateway two \(http:\/\/two:9000\) is silent since /)],
    ]);
    await Promise.all([one.stop(), second.stop()]);
    expect((await read(world)).gateways.map(({ host }) => host)).toEqual(['two']);
    await clock.advance(31 * 60 * 60_000);
    expect((await read(world)).gateways).toEqual([]);
  });

  test.each(['0', '1MiB'])(
    'shows requests, work that is left, capacity, and the last warnings and errors, with SVC_DISK_RESERVE=%s',
    async (reserve) => {
      const everything = recordEverything('INFO');
      await using world = await openGateway({
        backend: 'embedded+file',
        telemetry: everything.telemetry,
        wrap: everything.wrap,
        settings: { SVC_DISK_RESERVE: reserve },
      });
      const running = startWorkers(world.context, ['gc'], never, { process: 'host:1' });
      await world.client.put('/books');
      await world.client.put('/books/a', { body: 'content' });
      await world.client.get('/books/missing');
      for (let n = 0; n < 8; n += 1)
        world.context.telemetry.log(n === 7 ? 'ERROR' : 'WARN', `trouble ${n}`, { n });
      const path = '/admin/v1/buckets/books/force-empty';
      expect((await world.as({ credential: operator }).post(path)).status).toBe(202);
      const status = await read(world);
      await running.stop();
      expect(status.tasks).toMatchObject([{ kind: 'force-empty', bucket: 'books', state: 'waiting' }]);
      expect(status.requests).toMatchObject({ requests: 3, refused: 1, failed: 0, processes: 1 });
      expect(status.errors.map(({ message }) => message)).toEqual([3, 4, 5, 6, 7].map((n) => `trouble ${n}`));
      expect(status.metadata).toMatchObject([{ backend: 'embedded', state: 'UP' }]);
      expect(status.metadata[0]?.usedBytes).toBeGreaterThan(4_096);
      expect(status.metadata[0]?.freeBytes).toBeGreaterThan(4_096);
      expect(status.pools).toMatchObject([{ backend: 'file', cluster: 'default', state: 'ok' }]);
      expect(status.pools[0]?.freeBytes).toBeGreaterThan(4_096);
      const data = await world.as({ credential: operator }).get('/admin/v1/storage/data');
      const { pools } = JSON.parse(data.text) as {
        readonly pools: readonly { readonly BytesFree?: number }[];
      };
      // Other processes write to the same disk meanwhile.
      expect((pools[0]?.BytesFree ?? 0) / (status.pools[0]?.freeBytes ?? 0)).toBeCloseTo(1, 1);
      expect([status.ok, status.warnings, status.missing]).toEqual([true, [], []]);
      expect((await world.client.get('/admin/v1/status')).status).toBe(403);
    },
  );

  test('names the parts that fail or hang, and shows the others', async () => {
    const clock = virtualClock();
    await using world = await openGateway({
      clock,
      wrap: (context) => ({
        ...context,
        bytes: { ...context.bytes, health: () => new Promise<never>(() => {}) },
        metadata: Object.create(context.metadata, {
          scan: {
            value: (...call: Parameters<typeof context.metadata.scan>) => {
              if (call[0].table.name === 'gateways') throw new Error('the engine is away');
              return context.metadata.scan(...call);
            },
          },
        }),
      }),
    });
    const asked = read(world);
    await clock.advance(10_000);
    const { ok, missing, metadata, gateways } = await asked;
    expect(ok).toBe(false);
    expect(missing.toSorted()).toEqual(['data: no answer within 5 s', 'gateways: the engine is away']);
    expect([metadata.length, gateways]).toEqual([1, []]);
  });

  test('leaves out the pools of clusters and the errors of buckets that a policy denies', async () => {
    const everything = recordEverything('INFO');
    await using world = await openGateway({ telemetry: everything.telemetry, wrap: everything.wrap });
    const statement = { Action: 'admin:*', Resource: '*' };
    const denied = ['clusters/default', 'buckets/secret'].map((path) => `arn:aws:admin:::${path}`);
    const { credential } = await openUser(world, 'carol', {
      root: operator,
      policy: JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          { Effect: 'Allow', ...statement },
          { Effect: 'Deny', ...statement, Resource: denied },
        ],
      }),
    });
    for (const bucket of ['secret', 'open']) world.context.telemetry.log('WARN', `of ${bucket}`, { bucket });
    expect((await read(world)).errors.map(({ message }) => message)).toEqual(['of secret', 'of open']);
    const { pools, errors } = await read(world, credential as typeof operator);
    expect([pools, errors.map(({ message }) => message)]).toEqual([[], ['of open']]);
  });
});

describe('sluice admin status', () => {
  test('is one page of 100 columns, whatever the names', () => {
    const long = 'n\u001b[31m'.repeat(60);
    const counted = { seconds: 90, requests: 1_234_567, refused: 12, failed: 3, perSecond: 13_717.41 };
    const bytes = { usedBytes: 12_345_678_901, freeBytes: 1 };
    const page = formatStatus({
      ok: false,
      time: '2026-01-31T12:00:00.000Z',
      warnings: [`${long} words and more words of a warning that is far too long for one line of a terminal`],
      missing: ['data: no answer within 5 s'],
      gateways: Array.from({ length: 3 }, () => ({
        ...{ host: long, address: long, state: 'up' as const, version: long, runtime: long },
        ...{ startedAt: '', beatAt: '', uptimeSeconds: 93_784, processes: 16, processesUp: 15 },
        leads: Array.from({ length: 17 }, (_, n) => `worker-${n}`),
        requests: counted,
      })),
      metadata: [
        { backend: long, name: long, state: long, ...bytes },
        ...[1, 2].map((n) => ({
          ...{ backend: 'wide-column', name: `10.0.0.${n}`, state: 'UP' },
          sizeUnknown: `the role may not read the table of sizes: GRANT SELECT TO ${long}`,
        })),
      ],
      pools: [{ backend: long, cluster: long, pool: long, state: long }],
      work: [{ worker: long, state: long, of: long, left: 123_456_789, perSecond: 1.5, etaSeconds: 4_000 }],
      tasks: [
        {
          ...{ kind: 'force-empty', name: long, state: 'running', of: 'versions' },
          ...{ done: { count: 123_456_789 }, left: { count: 987_654_321 }, isLeftCut: true },
          ...{ perSecond: { count: 1.5 }, etaSeconds: 700_000, startedAt: 0, updatedAt: 0 },
        },
      ],
      requests: { ...counted, processes: 1, p50Ms: 1.25, p99Ms: 33 },
      errors: [
        { time: '2026-01-31T12:00:00.000Z', level: 'ERROR', message: long, fields: {}, process: long },
      ],
    });
    const lines = page.split('\n');
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
    expect(page).not.toContain('\u001b');
    expect(page.match(/size not known/g)).toHaveLength(1);
    expect(lines[0]).toBe('2 problems, 3 gateways, 2026-01-31T12:00:00Z');
    for (const text of [
      'size not known: the role may not read the table of sizes',
      '1d 2h',
      '15/16',
      '11.5 GiB',
      '1h 6m',
      '1,234,567 requests',
      'not known: data',
      'force-empty',
      '8d 2h',
    ])
      expect(page).toContain(text);
  });

  test('shows sizes and times in their two largest units', () => {
    expect([0, 1, 1_023, 1_024, 1_048_576, undefined].map(formatSize)).toEqual([
      '0 B',
      '1 B',
      '1023 B',
      '1.0 KiB',
      '1.0 MiB',
      '-',
    ]);
    expect([0, 59, 60, 3_599, 3_600, 86_400, undefined].map(formatSeconds)).toEqual([
      '0s',
      '59s',
      '1m 0s',
      '59m 59s',
      '1h 0m',
      '1d 0h',
      '-',
    ]);
  });
});
