/** Changes of replicated versions: stamps, Object Lock, owners, races. */
import { expect, test } from 'vitest';
import type { ReplicaDocument } from '../../src/metadata/objects/properties.ts';
import { blockXml, everyone, grantsIn, ownershipXml } from '../support/access.ts';
import { ambush } from '../support/ambush.ts';
import { legalHold, openLocked, retention } from '../support/locks.ts';
import {
  documentOf,
  markerAt,
  openSite,
  rowsOf,
  sendObject,
  sendState,
  versionAt,
  written,
} from '../support/replicas.ts';

const stampAt = (ms: number): string => `${versionAt(ms).slice(0, 16)}-far`;
const tagging = (value: string): string =>
  `<Tagging><TagSet><Tag><Key>t</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;
const tagged = (document: ReplicaDocument, value: string, ms: number): ReplicaDocument => ({
  ...document,
  headers: { tags: [['t', value]] },
  stamp: stampAt(ms),
});
const present = (document: ReplicaDocument) => `/bucket/key?versionId=${document.version}`;

test('ReplicateState applies a later state, and no earlier or equal one', async () => {
  await using site = await openSite();
  const { client } = site;
  const now = Date.now();
  const document = written('x', { version: versionAt(now - 9000) });
  expect((await sendState(client, '/bucket/key', document)).code).toBe('NoSuchVersion');
  await sendObject(client, '/bucket/key', document, 'x');
  const tags = async () => (await client.get('/bucket/key?tagging')).all('Value');
  const steps = [
    ['b', now - 5000, 'stored', 'b'],
    ['a', now - 6000, 'superseded', 'b'],
    ['c', now - 5000, 'present', 'b'],
    ['d', now - 4000, 'stored', 'd'],
  ] as const;
  for (const [value, ms, outcome, shown] of steps) {
    const sent = await sendState(client, '/bucket/key', tagged(document, value, ms));
    expect([value, sent.header('*-replica-outcome'), await tags()]).toEqual([value, outcome, [shown]]);
  }
  // A later state without tags removes them.
  await sendState(client, '/bucket/key', { ...document, stamp: stampAt(now - 3000) });
  expect(await tags()).toEqual([]);
  // ReplicateObject of a version that exists brings its later state too.
  const again = await sendObject(client, '/bucket/key', tagged(document, 'e', now), 'x');
  expect([again.header('*-replica-outcome'), await tags()]).toEqual(['stored', ['e']]);
  expect(await site.usage('bucket')).toEqual({ bytes: 1, objects: 1 });
});

test('a local change of a replica is later than a state that came from a site whose clock is ahead', async () => {
  await using site = await openSite();
  const document = written('x', { version: versionAt(Date.now() - 9000) });
  await sendObject(site.client, '/bucket/key', document, 'x');
  const far = Date.now() + 3_600_000;
  await sendState(site.client, '/bucket/key', tagged(document, 'far', far));
  await site.client.put('/bucket/key?tagging', { body: tagging('near') });
  const [row] = await rowsOf(site.context, 'bucket', 'key');
  expect((row?.stamp ?? '') > stampAt(far)).toBe(true);
  expect(row?.trace).toBeUndefined();
  const again = await sendState(site.client, '/bucket/key', tagged(document, 'far', far));
  expect(again.header('*-replica-outcome')).toBe('superseded');
  expect((await site.client.get('/bucket/key?tagging')).all('Value')).toEqual(['near']);
});

test('a COMPLIANCE retention is never shortened, and the longer one of two sites remains', async () => {
  await using site = await openLocked();
  const { client, clock, inDays } = site;
  const now = clock.now();
  const lock = (days: number) => ({ mode: 'COMPLIANCE', retainUntil: inDays(days) }) as const;
  const document = written('x', { version: versionAt(now - 9000), lock: lock(5) });
  expect((await sendObject(client, '/bucket/key', document, 'x')).status).toBe(200);
  const until = async () => (await client.get('/bucket/key?retention')).one('RetainUntilDate');
  const shown = (days: number) => new Date(inDays(days)).toISOString();
  for (const shorter of [lock(1), { mode: 'GOVERNANCE', retainUntil: inDays(9) } as const, undefined]) {
    const { lock: _, ...rest } = document;
    const state = {
      ...rest,
      ...(shorter === undefined ? {} : { lock: shorter }),
      stamp: stampAt(clock.now()),
    };
    clock.jump(1);
    expect((await sendState(client, '/bucket/key', state)).status).toBe(200);
    expect(Date.parse((await until()) ?? '')).toBeGreaterThanOrEqual(now + 5 * 86_400_000);
    expect((await client.get('/bucket/key?retention')).one('Mode')).toBe('COMPLIANCE');
  }
  // The GOVERNANCE retention of 9 days has made it longer. One with an earlier stamp extends it too.
  const longer = { ...document, lock: lock(12), stamp: stampAt(now - 8000) };
  await sendState(client, '/bucket/key', longer);
  expect(await until()).toBe(shown(12));
  const removal = await client.delete(`/bucket/key?replica=${document.version}`);
  expect(removal.code).toBe('AccessDenied');
  expect((await client.get('/bucket/key')).text).toBe('x');
});

test('a legal hold is never lifted by a replica, and protects from ReplicateDelete', async () => {
  await using site = await openLocked();
  const { client, clock } = site;
  const document = written('x', { version: versionAt(clock.now() - 9000), lock: { legalHold: true } });
  await sendObject(client, '/bucket/key', document, 'x');
  const remove = () => client.delete(`/bucket/key?replica=${document.version}`);
  expect((await remove()).code).toBe('AccessDenied');
  await sendState(client, '/bucket/key', {
    ...document,
    lock: { legalHold: false },
    stamp: stampAt(clock.now()),
  });
  expect((await client.get('/bucket/key?legal-hold')).one('Status')).toBe('ON');
  expect((await remove()).code).toBe('AccessDenied');
  await client.put('/bucket/key?legal-hold', { body: legalHold('OFF') });
  expect((await remove()).status).toBe(204);
});

test('a GOVERNANCE retention is never shortened by a replica, also of a caller that may bypass it', async () => {
  await using site = await openLocked();
  const { client, bob, clock, inDays } = site;
  const governed = (days: number) => ({ mode: 'GOVERNANCE', retainUntil: inDays(days) }) as const;
  const document = written('x', { version: versionAt(clock.now() - 9000), lock: governed(5) });
  await sendObject(client, '/bucket/key', document, 'x');
  const policy = (...actions: string[]) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: 'bob-account' },
          Action: actions,
          Resource: 'arn:aws:s3:::bucket/*',
        },
      ],
    });
  const until = async () => (await client.get('/bucket/key?retention')).one('RetainUntilDate');
  const shorten = (ms: number) =>
    sendState(bob, '/bucket/key', { ...document, lock: governed(1), stamp: stampAt(clock.now() + ms) });
  const more = policy('s3:ReplicateObject', 's3:ReplicateTags', 's3:BypassGovernanceRetention');
  await client.put('/bucket?policy', { body: more });
  expect((await shorten(2)).status).toBe(200);
  expect(await until()).toBe(new Date(inDays(5)).toISOString());
});

test('a replica with a lock is refused by a bucket without Object Lock', async () => {
  await using site = await openSite();
  const lock = { mode: 'COMPLIANCE', retainUntil: Date.now() + 86_400_000 } as const;
  const refused = await sendObject(site.client, '/bucket/key', written('x', { lock }), 'x');
  expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
  expect((await site.client.get('/bucket?versions')).all('VersionId')).toEqual([]);
});

test('a newer null version does not replace one under retention', async () => {
  await using site = await openLocked();
  const { client, clock, inDays } = site;
  const held = { mode: 'COMPLIANCE', retainUntil: inDays(5) } as const;
  const first = written('held', { version: versionAt(clock.now() - 9000), isNull: true, lock: held });
  await sendObject(client, '/bucket/key', first, 'held');
  const next = written('next', { version: versionAt(clock.now() - 5000), isNull: true });
  expect((await sendObject(client, '/bucket/key', next, 'next')).code).toBe('AccessDenied');
  expect((await client.get('/bucket/key?versionId=null')).text).toBe('held');
  await client.put('/bucket/key?retention&versionId=null', { body: retention('COMPLIANCE', inDays(6)) });
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual(['null']);
});

test('an older replica that arrives while the current version is removed becomes the current version', async () => {
  const { rightBefore, wrap } = ambush();
  await using site = await openSite({ wrap });
  const { client } = site;
  const local = await client.put('/bucket/key', { body: 'local' });
  const older = written('older', { version: versionAt(Date.now() - 9000) });
  rightBefore('objects', () => client.delete(`/bucket/key?versionId=${local.header('*-version-id')}`));
  expect((await sendObject(client, '/bucket/key', older, 'older')).status).toBe(200);
  expect((await client.get('/bucket/key')).text).toBe('older');
  const newer = versionAt(Date.now() - 3000);
  rightBefore('objects', () => client.put('/bucket/key', { body: 'won' }));
  await sendState(client, '/bucket/key', markerAt(newer));
  expect((await client.get('/bucket/key')).text).toBe('won');
  expect((await client.get('/bucket?versions')).all('IsLatest')).toEqual(['true', 'false', 'false']);
});

test('owner and ACL of a replica are kept where the site knows the owner, and are those of the bucket otherwise', async () => {
  await using site = await openSite();
  const { client } = site;
  const acl = (owner: string) =>
    [
      { grantee: { is: 'user', id: owner }, permission: 'FULL_CONTROL' },
      { grantee: { is: 'group', group: 'AllUsers' }, permission: 'READ' },
    ] as const;
  const send = (key: string, owner: string) =>
    sendObject(client, `/bucket/${key}`, written('x', { owner, acl: acl(owner) }), 'x');
  const owned = async (key: string) => (await rowsOf(site.context, 'bucket', key))[0]?.owner;
  expect((await send('known', 'bob-account')).status).toBe(200);
  expect(await owned('known')).toBe('bob-account');
  expect((await send('unknown', 'far-account')).status).toBe(200);
  expect(await owned('unknown')).toBe('alice-account');
  const shown = grantsIn(await client.get('/bucket/unknown?acl'));
  expect(shown.toSorted()).toEqual(['alice-account FULL_CONTROL', `${everyone} READ`]);
  expect((await site.anonymous.get('/bucket/unknown')).status).toBe(200);
  await client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicAcls') });
  expect((await send('blocked', 'bob-account')).code).toBe('AccessDenied');
  await client.delete('/bucket?publicAccessBlock');
  await client.put('/bucket?ownershipControls', { body: ownershipXml('BucketOwnerEnforced') });
  expect((await send('enforced', 'bob-account')).status).toBe(200);
  expect(await owned('enforced')).toBe('alice-account');
  expect((await site.anonymous.get('/bucket/enforced')).status).toBe(403);
});

test('the trace of a replica names the sites that have it, the origin first', async () => {
  await using first = await openSite();
  await using second = await openSite();
  const document = written('x');
  await sendObject(first.client, '/bucket/key', document, 'x');
  const [row] = await rowsOf(first.context, 'bucket', 'key');
  if (row === undefined) throw new Error('no row');
  const passedOn = await documentOf(first.context, row);
  const sent = await sendObject(second.client, '/bucket/key', passedOn, 'x');
  const [last] = await rowsOf(second.context, 'bucket', 'key');
  expect(passedOn.trace).toEqual(['elsewhere', expect.any(String)]);
  expect(last?.trace).toEqual([...passedOn.trace, sent.header('*-replica-site')]);
  expect((await second.client.head(present(document))).header('*-replication-status')).toBe('REPLICA');
});
