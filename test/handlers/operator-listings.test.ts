/** Listings for operators at service scope: the audit log, and notifications that could not be delivered. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { audited } from '../../src/metadata/audit.ts';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import type { NotifyTask, QueueRow } from '../../src/metadata/records/queues.ts';
import { alice, backends, bob, openGateway, operator } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { tickingClock } from '../support/recorded.ts';

/** All pages of a listing, by one of their elements. */
async function everyPage(client: Client, path: string, element: string): Promise<string[][]> {
  const pages: string[][] = [];
  for (let token = ''; pages.length < 100; ) {
    const answer = await client.get(token === '' ? path : `${path}&continuation-token=${token}`);
    if (answer.status !== 200) throw new Error(answer.text);
    pages.push(answer.all(element));
    expect(answer.one('IsTruncated')).toBe(String(answer.one('NextContinuationToken') !== undefined));
    token = answer.one('NextContinuationToken') ?? '';
    if (token === '') return pages;
  }
  throw new Error('the pages do not end');
}

describe.each(backends)('on %s', (backend) => {
  test('authorized operators read the audit log newest first, in pages', async () => {
    await using world = await openGateway({ backend, clock: tickingClock() });
    const reader = world.as({ credential: operator });
    const ids: string[] = [];
    for (const name of ['one', 'two', 'three'])
      ids.unshift((await world.client.put(`/${name}`)).header('*-request-id') ?? '');
    for (const size of [1, 2, 3, 1000])
      expect((await everyPage(reader, `/?audit&max-entries=${size}`, 'RequestId')).flat()).toEqual(ids);
    const answer = await reader.get('/?audit&max-entries=1');
    expect(
      ['Action', 'Resource', 'Status', 'Account', 'AccessKeyId'].map((name) => answer.one(name)),
    ).toEqual(['CreateBucket', 'bucket:three', '200', alice.owner, alice.accessKey]);
    for (const client of [world.client, world.anonymous]) {
      const refused = await client.get('/?audit');
      expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    }
  });

  test('the audit log is searched by bucket, action, identity and time', async () => {
    await using world = await openGateway({ backend, clock: tickingClock() });
    const reader = world.as({ credential: operator });
    const find = async (query: string): Promise<string[]> =>
      (await reader.get(`/?audit&${query}`)).all('RequestId');
    const idOf = async (client: Client, path: string): Promise<string> =>
      (await client.put(path, { body: '' })).header('*-request-id') ?? '';
    const ours = await idOf(world.client, '/ours');
    const theirs = await idOf(world.bob, '/theirs');
    const key = await idOf(world.bob, '/ours/key');
    expect(await find('bucket=ours')).toEqual([key, ours]);
    expect(await find('action=CreateBucket')).toEqual([theirs, ours]);
    for (const identity of [bob.accessKey, bob.owner, `arn:aws:iam::${bob.owner}:root`])
      expect(await find(`identity=${encodeURIComponent(identity)}`)).toEqual([key, theirs]);
    expect(await find(`bucket=ours&identity=${alice.owner}`)).toEqual([ours]);
    const [last = '', middle = '', first = ''] = (await reader.get('/?audit')).all('Time');
    expect(await find(`start=${middle}`)).toEqual([key, theirs]);
    expect(await find(`end=${middle}`)).toEqual([theirs, ours]);
    expect(await find(`start=${first}&end=${last}`)).toEqual([key, theirs, ours]);
    expect(await find(`start=${last}&end=${first}`)).toEqual([]);
  });

  test('authorized operators read dead letters newest first, in pages', async () => {
    await using world = await openGateway({ backend });
    const reader = world.as({ credential: operator });
    await giveUp(world.context, 5);
    const all = ['4', '3', '2', '1', '0'];
    for (const size of [1, 2, 5, 1000])
      expect((await everyPage(reader, `/?notify-dlq&max-entries=${size}`, 'RequestId')).flat()).toEqual(all);
    const answer = await reader.get('/?notify-dlq&max-entries=1');
    expect(answer.one('Sink')).toBe('jobs');
    expect(answer.one('Attempts')).toBe('9');
    expect(answer.one('Error')).toBe('the sink answered 500 <busy>');
    expect(JSON.parse(answer.one('Message') ?? '')).toEqual({ Records: [{ n: 4 }] });
    const refused = await world.client.get('/?notify-dlq');
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
  });
});

/** Moves notifications to the dead letters, as the worker does. */
async function giveUp({ metadata, clock }: Context, count: number): Promise<void> {
  const now = clock.now();
  for (let n = 0; n < count; n += 1) {
    const task: NotifyTask = { sink: 'jobs', message: { Records: [{ n }] } };
    const row: QueueRow = {
      queue: 'notify',
      slot: 0,
      due: now - 1000,
      id: `${n}/v/0`,
      task,
      attempts: 9,
      requestId: String(n),
    };
    const error = 'the sink answered 500 <busy>';
    await metadata.apply(deadLetter(row, { error, now: now + n, expiresAt: now + 60_000, bucket: '' }));
  }
}

test('a page of the audit log reads no more than its share, however little of it matches', async () => {
  await using world = await openGateway();
  const { metadata, clock } = world.context;
  const hourMs = 3_600_000;
  const times = [0, 1, 5, 300, 700].map((hours) => clock.now() - hours * hourMs);
  for (const time of times) {
    const entry = { time, id: `T${time}`, action: 'A', resource: '', status: 200, source: '' };
    await metadata.apply([audited(entry, { retentionMs: 1000 * hourMs })]);
  }
  const pages = await everyPage(world.as({ credential: operator }), '/?audit&action=A', 'RequestId');
  expect(pages.flat()).toEqual(times.map((time) => `T${time}`));
  expect(pages.length).toBeGreaterThan(2);
});

test('what cannot be read is refused by name', async () => {
  await using world = await openGateway();
  const reader = world.as({ credential: operator });
  for (const query of [
    'max-entries=0',
    'max-entries=x',
    'continuation-token=',
    'continuation-token=zzz',
    'start=yesterday',
    'start=2026-02-30',
    'start=2026-01-01%20noon%2012:00',
    'start=2026-01-01T00:00:00',
    'end=1',
  ]) {
    const answer = await reader.get(`/?audit&${query}`);
    expect([answer.status, answer.code], query).toEqual([400, 'InvalidArgument']);
  }
  for (const start of ['2026-01-01', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00.5%2B01:00'])
    expect((await reader.get(`/?audit&start=${start}`)).status).toBe(200);
});
