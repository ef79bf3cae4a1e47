/** FollowAudit: rows of the audit log as they come, also those that come late; and the kinds of rows. */
import { describe, expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const start = Date.UTC(2026, 0, 1, 12, 30);
const minuteMs = 60_000;

const open = async () => {
  const clock = virtualClock(start);
  const world = await openGateway({ clock });
  let drawn = 0;
  /** Rows as other gateways write them. @param at their arrival */
  const write = async (
    at: number,
    rows: readonly { readonly action?: string; readonly [field: string]: unknown }[],
  ) => {
    const common = { action: 'PutObject', resource: 'bucket:books', status: 200, source: '127.0.0.1' };
    drawn += rows.length;
    const ids = rows.map((_, index) => `row-${drawn - rows.length + index + 1}`);
    await world.context.metadata.apply(
      rows.map((row, index) =>
        audited(
          { ...common, ...row, id: ids[index] ?? '', time: at },
          { retentionMs: 30 * 24 * 60 * minuteMs },
        ),
      ),
    );
    return ids;
  };
  return { clock, world, write, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
};

interface Page {
  readonly rows: readonly { readonly requestId: string; readonly action: string }[];
  readonly next: string;
  readonly hasMore: boolean;
  readonly lateFrom: string;
}

const follow = async (world: GatewayWorld, query: string, after?: string): Promise<Page> => {
  const reply = await world
    .as({ credential: operator })
    .get(
      `/admin/v1/audit/follow?${query}${after === undefined ? '' : `&after=${encodeURIComponent(after)}`}`,
    );
  expect(reply.status, reply.text).toBe(200);
  return JSON.parse(reply.text);
};
const ids = ({ rows }: Page): readonly string[] => rows.map(({ requestId }) => requestId);

describe('a follower of the audit log', () => {
  test('gets the newest rows, then each later one once, also one whose request was long', async () => {
    await using at = await open();
    const { world, clock, write } = at;
    const old = await write(start - 2 * minuteMs, [{}, {}, {}]);
    let page = await follow(world, 'limit=2');
    expect(ids(page)).toEqual(old.slice(1));
    // What a full first page left out is not new.
    page = await follow(world, 'limit=2', page.next);
    expect(ids(page)).toEqual([]);
    await clock.advance(1_000);
    const fresh = await write(start + 500, [{}]);
    // The request arrived a minute before the first page, and has ended now.
    const late = await write(start - minuteMs, [{}]);
    page = await follow(world, 'limit=2', page.next);
    expect(ids(page)).toEqual([...late, ...fresh]);
    expect(ids(await follow(world, 'limit=2', page.next))).toEqual([]);
    // The same place answers the same: a process keeps nothing for a reader.
    const again = await write(start + 600, [{}]);
    for (let turn = 0; turn < 2; turn += 1) expect(ids(await follow(world, '', page.next))).toEqual(again);
  });

  test('reads on without a gap where more has come than one page takes, and says how far back it compares', async () => {
    await using at = await open();
    const { world, clock, write } = at;
    let page = await follow(world, 'limit=1000');
    const written: string[] = [];
    for (let second = 0; second < 60; second += 1)
      written.push(
        ...(await write(
          start + second * 1_000,
          Array.from({ length: 50 }, () => ({})),
        )),
      );
    await clock.advance(minuteMs);
    const seen: string[] = [];
    for (let pages = 0; pages < 10; pages += 1) {
      page = await follow(world, 'limit=1000', page.next);
      expect(page.next.length).toBeLessThan(4_096);
      seen.push(...ids(page));
      if (!page.hasMore) break;
    }
    expect(seen.toSorted()).toEqual(written.toSorted());
    // 500 rows are ten seconds here.
    expect(Date.parse(page.lateFrom)).toBeGreaterThan(start + 45_000);
    expect(ids(await follow(world, 'limit=1000', page.next))).toEqual([]);
  });

  test('is filtered as the list is, by bucket, key, caller, result and kind', async () => {
    await using at = await open();
    const { world, clock, write } = at;
    const first = await follow(world, 'bucket=books');
    await clock.advance(1_000);
    const [setting, object, gone, refused, batch] = await write(start + 100, [
      { action: 'admin:PutBucketQuota' },
      { key: 'cat' },
      { action: 'DeleteObject', key: 'cat' },
      {
        action: 'PutObject',
        key: 'dog',
        status: 403,
        error: 'AccessDenied',
        principal: 'arn:aws:iam::x:user/u',
      },
      { action: 'DeleteObjects', keys: [{ key: 'cat' }, { key: 'bird' }] },
    ]);
    await write(start + 100, [{ resource: 'bucket:other' }]);
    const of = async (query: string) => ids(await follow(world, query, first.next)).toSorted();
    expect(await of('bucket=books')).toEqual([setting, object, gone, refused, batch].toSorted());
    expect(await of('bucket=books&kind=settings')).toEqual([setting]);
    expect(await of('bucket=books&kind=writes')).toEqual([object, refused].toSorted());
    expect(await of('bucket=books&kind=deletions')).toEqual([gone, batch].toSorted());
    expect(await of('bucket=books&key=cat')).toEqual([object, gone, batch].toSorted());
    expect(await of('identity=arn:aws:iam::x:user/u&status=4xx')).toEqual([refused]);
    const listed = JSON.parse(
      (await world.as({ credential: operator }).get('/admin/v1/audit?bucket=books&kind=deletions')).text,
    );
    expect(ids(listed).toSorted()).toEqual([gone, batch].toSorted());
  });

  test('does not see rows that policy denies it, and a place that no page gave is refused', async () => {
    await using at = await open();
    const { world, clock, write } = at;
    const statement = (Effect: string, Resource: string) => ({
      Effect,
      Action: 'admin:FollowAudit',
      Resource,
    });
    const { credential } = await openUser(world, 'watcher', {
      root: operator,
      policy: JSON.stringify({
        Version: '2012-10-17',
        Statement: [statement('Allow', '*'), statement('Deny', 'arn:aws:admin:::buckets/secret*')],
      }),
    });
    const client = world.as({ credential });
    const get = async (query: string) => {
      const { status, text } = await client.get(`/admin/v1/audit/follow?${query}`);
      return { status, ...JSON.parse(text) };
    };
    const { next } = await get('');
    await clock.advance(1_000);
    const [shown] = await write(start + 100, [{}]);
    await write(start + 100, [{ resource: 'bucket:secret' }]);
    const page = await get(`after=${next}`);
    expect(ids(page)).toEqual([shown]);
    expect((await get('bucket=secret')).status).toBe(403);
    for (const wrong of ['x', '1', '1:xyz', `1:${'a'.repeat(8)}`, '-1:'])
      expect(await get(`after=${wrong}`)).toMatchObject({
        status: 400,
        code: 'InvalidArgument',
        details: { field: 'after' },
      });
    expect((await get('start=2026-01-01T00:00:00Z')).status).toBe(400);
  });
});

test('a histogram counts requests by result, without those that policy denies, over the last day or a span', async () => {
  await using at = await open();
  const { world, write } = at;
  const hourMs = 60 * minuteMs;
  await write(start - 2 * hourMs, [{}, {}, { status: 403, error: 'AccessDenied', count: 5 }]);
  await write(start - hourMs, [{ status: 500, error: 'InternalError' }, { resource: 'bucket:secret' }]);
  await write(start - 30 * hourMs, [{}]);
  const { credential } = await openUser(world, 'counter', {
    root: operator,
    policy: JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'admin:GetAuditHistogram', Resource: '*' },
        { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::buckets/secret*' },
      ],
    }),
  });
  const get = async (query: string) => {
    const reply = await world.as({ credential }).get(`/admin/v1/audit/histogram?${query}`);
    return { status: reply.status, ...JSON.parse(reply.text) };
  };
  const sum = (
    { points }: { readonly points: readonly Readonly<Record<string, number>>[] },
    of: string,
  ): number => points.reduce((all, point) => all + (point[of] ?? 0), 0);
  const books = await get('bucket=books&points=24');
  expect(books.stepSeconds).toBeGreaterThanOrEqual(3_600);
  expect(books.points.length).toBeLessThanOrEqual(24);
  expect(['done', 'refused', 'failed'].map((each) => sum(books, each))).toEqual([2, 5, 1]);
  const busiest = books.points.find(({ refused }: { readonly refused: number }) => refused > 0);
  expect(Math.abs(Date.parse(busiest.at) - (start - 2 * hourMs))).toBeLessThanOrEqual(hourMs);
  expect(sum(await get('kind=settings&action=PutObject'), 'failed')).toBe(1);
  expect(sum(await get('action=PutObject'), 'done')).toBe(2);
  const longer = await get('bucket=books&start=2025-12-30T00:00:00Z&points=200');
  expect(sum(longer, 'done')).toBe(3);
  expect((await get('points=201')).status).toBe(400);
  expect((await get('bucket=secret')).status).toBe(403);
});
