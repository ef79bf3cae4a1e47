/** Object Lock against every operation that deletes, by callers without the right to bypass it. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { objectLock } from '../../src/domain/configurations/families.ts';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { documents } from '../../src/metadata/buckets/records.ts';
import { findLiveHead, objectsAt } from '../../src/metadata/objects/objects.ts';
import type { Lock, ObjectRow } from '../../src/metadata/tables.ts';
import { ambush } from '../support/ambush.ts';
import { setPolicy } from '../support/bucket-policy.ts';
import { backends, type GatewayWorld } from '../support/gateway.ts';
import { deletion } from '../support/gateway-bodies.ts';
import {
  bypass,
  configuration,
  dayMs,
  defaultRule,
  heldUntil,
  legalHold,
  lockIn,
  openLocked,
  putVersion,
  retention,
} from '../support/locks.ts';

/** Changes a stored row directly, in a way that no operation can. */
async function tamper({ context }: GatewayWorld, change: (row: ObjectRow) => ObjectRow): Promise<void> {
  const bucket = await openBucket(context, 'bucket');
  const found = await findLiveHead(context.metadata, bucket, 'key');
  if (found === undefined) throw new Error('no version');
  const at = objectsAt(bucket);
  const outcome = await context.metadata.commit(at, [{ put: change(found.row), expect: found.revision }]);
  expect(outcome.applied).toBe(true);
}

const unreadable: readonly unknown[] = [
  { mode: 'GOVERNANCE' },
  { retainUntil: 1 },
  { mode: 'GOVERNANCE', retainUntil: null },
  { mode: 'GOVERNANCE', retainUntil: '2020-01-01T00:00:00Z' },
  { mode: 'governance', retainUntil: 1 },
  { legalHold: 'OFF' },
  { legalHold: null },
];

describe.each(backends)('on %s', (backend) => {
  test.each(unreadable)('a lock that cannot be read holds: %j (GHSA-j548)', async (lock) => {
    await using world = await openLocked(backend);
    const { client } = world;
    const version = await putVersion(client, '/bucket/key');
    const remove = async () => {
      const one = await client.delete(`/bucket/key?versionId=${version}`, { headers: bypass });
      const body = deletion([`<Key>key</Key><VersionId>${version}</VersionId>`]);
      const many = await client.post('/bucket?delete', { body, headers: bypass });
      return [one.status, many.all('Code')];
    };
    await tamper(world, (row) => ({ ...row, lock: lock as Lock }));
    expect(await remove()).toEqual([403, ['AccessDenied']]);
    expect((await client.get('/bucket/key')).text).toBe('content');
    await tamper(world, (row) => ({
      ...row,
      lock: { mode: 'GOVERNANCE', retainUntil: 1, legalHold: false },
    }));
    expect((await remove())[0]).toBe(204);
  });

  test('where the default retention cannot be read, nothing is written without it (GHSA-j548)', async () => {
    await using world = await openLocked(backend);
    const { client, context } = world;
    const rule = defaultRule('COMPLIANCE', '<Days>1</Days>');
    await client.put('/bucket?object-lock', { body: configuration(rule) });
    const id = (await openBucket(context, 'bucket')).documents[objectLock.name] ?? '';
    await context.metadata.apply([
      { at: { table: documents, in: { id } }, put: { id, segment: 0, text: '{"Rule":' } },
    ]);
    expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(500);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
    await client.put('/bucket?object-lock', { body: configuration(rule) });
    await putVersion(client, '/bucket/key');
    expect(lockIn(await client.head('/bucket/key'))[0]).toBe('COMPLIANCE');
  });

  test('a locked null version is not overwritten in any versioning state', async () => {
    await using world = await openLocked(backend);
    const { client, context } = world;
    for (const versioning of ['', 'Suspended'] as const) {
      const latest = await findBucket(context.metadata, 'bucket');
      if (latest !== undefined)
        await replaceBucket(context.metadata, latest, { ...latest.row, versioning, objectLock: false });
      await client.put('/bucket/key', { body: 'content' });
      await tamper(world, (row) => ({ ...row, lock: { legalHold: true } }));
      for (const refused of [
        await client.put('/bucket/key', { body: 'over' }),
        await client.put('/bucket/key', {
          headers: { '*-copy-source': '/bucket/key', '*-storage-class': 'STANDARD_IA' },
        }),
        await client.delete('/bucket/key'),
        await client.delete('/bucket/key?versionId=null', { headers: bypass }),
      ])
        expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
      expect((await client.get('/bucket/key')).text).toBe('content');
      await world.gc();
      expect(await world.stored()).toEqual(await world.owned('bucket'));
      await tamper(world, (row) => ({ ...row, lock: { legalHold: false } }));
      expect((await client.delete('/bucket/key')).status).toBe(204);
    }
  });

  test('gc deletes no bytes of locked versions, and those of every removed version', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const versions = [
      await putVersion(client, '/bucket/key', heldUntil('COMPLIANCE', world.inDays(1))),
      await putVersion(client, '/bucket/key', { '*-object-lock-legal-hold': 'ON' }),
      await putVersion(client, '/bucket/key'),
    ];
    await client.delete('/bucket/key');
    for (const id of versions) await client.delete(`/bucket/key?versionId=${id}`);
    await client.delete('/bucket');
    clock.jump(3_600_000);
    await world.sweep();
    await world.gc();
    expect(await world.stored()).toHaveLength(2);
    for (const id of versions.slice(0, 2))
      expect((await client.get(`/bucket/key?versionId=${id}`)).text).toBe('content');
    await client.put(`/bucket/key?legal-hold&versionId=${versions[1]}`, { body: legalHold('OFF') });
    expect((await client.delete(`/bucket/key?versionId=${versions[1]}`)).status).toBe(204);
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
  });

  test('a hold that is placed in the middle of a delete wins, and nothing was deleted', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openLocked(backend, { wrap });
    const { client } = world;
    for (const isHead of [true, false]) {
      const version = await putVersion(client, '/bucket/key');
      if (!isHead) await putVersion(client, '/bucket/key');
      const at = `versionId=${version}`;
      for (const [hold, release] of [
        [
          () => client.put(`/bucket/key?legal-hold&${at}`, { body: legalHold('ON') }),
          () => client.put(`/bucket/key?legal-hold&${at}`, { body: legalHold('OFF') }),
        ],
        [
          () => client.put(`/bucket/key?retention&${at}`, { body: retention('COMPLIANCE', world.inDays(1)) }),
          async () => world.clock.jump(dayMs),
        ],
      ] as const) {
        rightBefore('objects', hold);
        const refused = await client.delete(`/bucket/key?${at}`);
        expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
        expect((await client.get(`/bucket/key?${at}`)).text).toBe('content');
        await release();
      }
      expect((await client.delete(`/bucket/key?${at}`)).status).toBe(204);
    }
  });
});

test('a clock that runs ahead releases nothing: the slower of two judges; one put back holds again', async () => {
  let aheadMs = 0;
  const wrap = (context: Context): Context => ({
    ...context,
    clock: { ...context.clock, now: () => context.clock.now() + aheadMs },
  });
  await using world = await openLocked('memory', { wrap });
  const { client, clock } = world;
  const version = await putVersion(client, '/bucket/key', heldUntil('GOVERNANCE', world.inDays(1)));
  const remove = async () => (await client.delete(`/bucket/key?versionId=${version}`)).status;
  // Within the clock skew that signatures allow: by the gateway's clock the retention is over, by the store's it is not.
  aheadMs = 600_000;
  clock.jump(dayMs - 300_000);
  expect(await remove()).toBe(403);
  clock.jump(300_000);
  clock.jump(-1000);
  expect(await remove()).toBe(403);
  clock.jump(1000);
  expect(await remove()).toBe(204);
});

describe('who may not', () => {
  const everything = [
    's3:GetObject',
    's3:GetObjectVersion',
    's3:PutObject',
    's3:DeleteObject',
    's3:DeleteObjectVersion',
  ];
  const locks = [
    's3:PutObjectRetention',
    's3:PutObjectLegalHold',
    's3:GetObjectRetention',
    's3:GetObjectLegalHold',
  ];
  const bypassing = 's3:BypassGovernanceRetention';

  test('bypass governance does not, by header alone, in any operation (CVE-2023-25812)', async () => {
    await using world = await openLocked();
    const { client, bob, inDays } = world;
    const held = async () => putVersion(client, '/bucket/key', heldUntil('GOVERNANCE', inDays(9)));
    const attempts = async (version: string) => {
      const at = `/bucket/key?versionId=${version}`;
      const body = deletion([`<Key>key</Key><VersionId>${version}</VersionId>`]);
      const shorter = { body: retention('GOVERNANCE', inDays(1)), headers: bypass };
      return [
        (await bob.put(`${at}&retention`, shorter)).status,
        (await bob.post('/bucket?delete', { body, headers: bypass })).all('Code'),
        (await bob.delete(at, { headers: bypass })).status,
      ];
    };
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: [...everything, ...locks] }]);
    const version = await held();
    expect(await attempts(version)).toEqual([403, ['AccessDenied'], 403]);
    expect(lockIn(await client.head('/bucket/key'))[1]).toBe(new Date(inDays(9)).toISOString());
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: [...everything, ...locks, bypassing] }]);
    expect(await attempts(version)).toEqual([200, [], 204]);
    // The root of the account may, unless the policy of the bucket denies it.
    await setPolicy(world, 'bucket', [{ Effect: 'Deny', Action: bypassing, Principal: '*' }]);
    const other = `/bucket/key?versionId=${await held()}`;
    expect((await client.delete(other, { headers: bypass })).status).toBe(403);
    await setPolicy(world, 'bucket', [{ Effect: 'Deny', Action: bypassing }]);
    expect((await client.delete(other, { headers: bypass })).status).toBe(204);
  });

  test('set locks does not, along with a write or afterwards', async () => {
    await using world = await openLocked();
    const { client, bob, inDays } = world;
    await putVersion(client, '/bucket/key');
    const attempts = async () => {
      const headers = [heldUntil('GOVERNANCE', inDays(1)), { '*-object-lock-legal-hold': 'ON' }];
      const answers = await Promise.all(
        headers.flatMap((given) => [
          bob.put('/bucket/new', { body: 'x', headers: given }),
          bob.put('/bucket/copy', { headers: { ...given, '*-copy-source': '/bucket/key' } }),
          bob.post('/bucket/parts?uploads', { headers: given }),
        ]),
      );
      const after = [
        await bob.put('/bucket/key?retention', { body: retention('GOVERNANCE', inDays(1)) }),
        await bob.put('/bucket/key?legal-hold', { body: legalHold('ON') }),
      ];
      return [...answers, ...after].map(({ status }) => status);
    };
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: everything }]);
    expect(await attempts()).toEqual(Array(8).fill(403));
    expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(1);
    expect((await bob.put('/bucket/new', { body: 'x' })).status).toBe(200);
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: [...everything, ...locks] }]);
    expect(await attempts()).toEqual(Array(8).fill(200));
  });

  test('read locks is not shown them', async () => {
    await using world = await openLocked();
    const { client, bob, inDays } = world;
    const headers = { ...heldUntil('COMPLIANCE', inDays(1)), '*-object-lock-legal-hold': 'ON' };
    await putVersion(client, '/bucket/key', headers);
    const seen = async () => lockIn(await bob.head('/bucket/key')).map((value) => value !== undefined);
    for (const [more, shown] of [
      [[], [false, false, false]],
      [['s3:GetObjectRetention'], [true, true, false]],
      [['s3:GetObjectLegalHold'], [false, false, true]],
    ] as const) {
      await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: [...everything, ...more] }]);
      expect(await seen()).toEqual(shown);
      expect((await bob.get('/bucket/key?retention')).status).toBe(shown[0] ? 200 : 403);
      expect((await bob.get('/bucket/key?legal-hold')).status).toBe(shown[2] ? 200 : 403);
    }
  });

  test('configure the bucket does not', async () => {
    await using world = await openLocked();
    const { bob, anonymous } = world;
    const body = configuration();
    for (const who of [bob, anonymous]) {
      expect((await who.put('/bucket?object-lock', { body })).status).toBe(403);
      expect((await who.get('/bucket?object-lock')).status).toBe(403);
    }
    await setPolicy(world, 'bucket', [
      {
        Effect: 'Allow',
        Action: ['s3:GetBucketObjectLockConfiguration', 's3:PutBucketObjectLockConfiguration'],
      },
    ]);
    expect((await bob.put('/bucket?object-lock', { body })).status).toBe(200);
    expect((await bob.get('/bucket?object-lock')).status).toBe(200);
    expect((await anonymous.get('/bucket?object-lock')).status).toBe(403);
  });

  test('hold longer than a policy allows does not, whether the header or the body says so', async () => {
    await using world = await openLocked();
    const { bob, inDays } = world;
    const limit = { NumericLessThanEquals: { 's3:object-lock-remaining-retention-days': '10' } };
    await setPolicy(world, 'bucket', [
      { Effect: 'Allow', Action: everything },
      { Effect: 'Allow', Action: 's3:PutObjectRetention', Condition: limit },
      {
        Effect: 'Allow',
        Action: 's3:PutObjectLegalHold',
        Condition: { StringEquals: { 's3:object-lock-legal-hold': 'ON' } },
      },
    ]);
    for (const [days, status] of [
      [10, 200],
      [11, 403],
    ] as const) {
      const headers = heldUntil('GOVERNANCE', inDays(days));
      expect((await bob.put('/bucket/key', { body: 'x', headers })).status).toBe(status);
      const body = retention('GOVERNANCE', inDays(days));
      expect((await bob.put('/bucket/key?retention', { body })).status).toBe(status);
      // The headers have no effect: the body alone sets the retention.
      const short = heldUntil('GOVERNANCE', inDays(1));
      expect((await bob.put('/bucket/key?retention', { body, headers: short })).status).toBe(status);
    }
    for (const [word, status] of [
      ['ON', 200],
      ['OFF', 403],
    ] as const) {
      const headers = { '*-object-lock-legal-hold': 'ON' };
      expect((await bob.put('/bucket/key?legal-hold', { body: legalHold(word), headers })).status).toBe(
        status,
      );
    }
  });

  test('a URL that is presigned for a delete bypasses nothing with a header that it does not cover', async () => {
    await using world = await openLocked();
    const { client, inDays } = world;
    const version = await putVersion(client, '/bucket/key', heldUntil('GOVERNANCE', inDays(9)));
    const at = `/bucket/key?versionId=${version}`;
    expect((await client.presigned('DELETE', at, { unsignedHeaders: bypass })).status).toBe(403);
    expect((await client.get(at)).status).toBe(200);
    expect((await client.presigned('DELETE', at, { headers: bypass })).status).toBe(204);
  });
});
