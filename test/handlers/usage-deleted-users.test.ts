/** Buckets of a user that is deleted, and of an account that leaves the settings, while they are billed. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openActions } from '../support/actions.ts';
import { faulty } from '../support/faulty.ts';
import { alice, bob, operator } from '../support/gateway.ts';
import { allow, must, openUser } from '../support/iam-users.ts';
import { openUsageWorld, type UsageWorld } from '../support/usage-world.ts';

const daySeconds = 86_400;

/** What the feed says of an account: its rows, and what its buckets hold now. */
async function feedOf(world: UsageWorld, account: string) {
  const { status, text } = await world.ask(`/iam/users/${account}/usage?start=2026-01-01`);
  expect([status, text]).toEqual([200, expect.any(String)]);
  return JSON.parse(text) as { readonly rows: readonly object[]; readonly totals: object };
}

const day = (bucket: string, date: string, bytes: number) => ({
  bucket,
  day: date,
  storageClass: 'STANDARD',
  byteSeconds: bytes * daySeconds,
  objectCountAvg: 1,
  objectCountMax: 1,
});

describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('the buckets of an IAM user that DeleteUser removes at noon are billed to the account, that day and the next', async () => {
    await using world = await openUsageWorld(backend);
    const carol = await openUser(world, 'carol', { policy: allow('s3:*') });
    const client = world.as({ credential: carol.credential });
    expect((await client.put('/carols')).status).toBe(200);
    expect((await client.put('/carols/key', { body: 'ten bytes.' })).status).toBe(200);
    await world.rollUp();
    await world.hours(12);
    const totals = { bytes: 10, objects: 1 };
    expect(await feedOf(world, alice.owner)).toEqual({ rows: [], totals });
    const iam = openActions(world);
    await must(iam('DeleteUserPolicy', { UserName: 'carol', PolicyName: 'test' }));
    await must(iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: carol.credential.accessKey }));
    await must(iam('DeleteUser', { UserName: 'carol' }));
    expect((await client.get('/carols/key')).code).toBe('InvalidAccessKeyId');
    // The day is still open, and what the buckets hold has not changed.
    expect(await feedOf(world, alice.owner)).toEqual({ rows: [], totals });
    await world.hours(12);
    const first = day('carols', '2026-01-01', 10);
    expect(await feedOf(world, alice.owner)).toEqual({ rows: [first], totals });
    // Another user of the same name has no part in the feed: accounts are billed, users are not.
    await openUser(world, 'carol');
    await world.hours(24);
    expect(await feedOf(world, alice.owner)).toEqual({
      rows: [first, day('carols', '2026-01-02', 10)],
      totals,
    });
    expect(await feedOf(world, 'carol')).toEqual({ rows: [], totals: { bytes: 0, objects: 0 } });
  });
});

/** Credentials without those of an account, as after a restart with settings that no longer have its key. */
const without = (credentials: Context['credentials'], owner: string): Context['credentials'] =>
  faulty(credentials, {
    find: async (...call) => {
      const found = await credentials.find(...call);
      return found?.owner === owner ? undefined : found;
    },
    account: async (by) => {
      const found = await credentials.account(by);
      return found?.owner === owner ? undefined : found;
    },
    accounts: async (page) => (await credentials.accounts(page)).filter((each) => each.owner !== owner),
  });

test('an account that leaves the settings is billed for its buckets until an operator gives them to another', async () => {
  let isGone = false;
  await using world = await openUsageWorld('memory', {
    wrap: (context) => {
      const fewer = without(context.credentials, bob.owner);
      const now = () => (isGone ? fewer : context.credentials);
      return {
        ...context,
        credentials: {
          ...context.credentials,
          find: (...call) => now().find(...call),
          account: (by) => now().account(by),
          accounts: (page) => now().accounts(page),
        },
      };
    },
  });
  const admin = world.as({ credential: operator });
  await world.bob.put('/bobs');
  await world.bob.put('/bobs/key', { body: 'ten bytes.' });
  await world.rollUp();
  await world.hours(12);
  isGone = true;
  expect((await world.bob.get('/bobs/key')).code).toBe('InvalidAccessKeyId');
  expect((await admin.get(`/admin/v1/accounts/${bob.owner}`)).status).toBe(404);
  const totals = { bytes: 10, objects: 1 };
  expect(await feedOf(world, bob.owner)).toEqual({ rows: [], totals });
  await world.hours(36);
  const closed = [day('bobs', '2026-01-01', 10), day('bobs', '2026-01-02', 10)];
  expect(await feedOf(world, bob.owner)).toEqual({ rows: closed, totals });
  const { text } = await world.ask('/usage/export?day=2026-01-02&format=jsonl');
  expect(JSON.parse(text)).toMatchObject({ owner: bob.owner, bucket: 'bobs' });

  await world.hours(12);
  const body = JSON.stringify({ owner: alice.owner });
  expect((await admin.put('/admin/v1/buckets/bobs/owner', { body })).status).toBe(200);
  await world.hours(12);
  const none = { bytes: 0, objects: 0 };
  // Closed days stay with the account that owned the bucket then.
  expect(await feedOf(world, bob.owner)).toEqual({ rows: closed, totals: none });
  expect(await feedOf(world, alice.owner)).toEqual({ rows: [day('bobs', '2026-01-03', 10)], totals });
});
