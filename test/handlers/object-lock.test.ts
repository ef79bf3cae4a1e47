/** Retention and legal holds of versions, and every way to delete them. @storage */
import { describe, expect, test } from 'vitest';
import { backends } from '../support/gateway.ts';
import { complete, createUpload, deletion, putPart, setVersioning } from '../support/gateway-bodies.ts';
import {
  bypass,
  dayMs,
  heldUntil,
  legalHold,
  lockIn,
  type Mode,
  openLocked,
  putVersion,
  retention,
} from '../support/locks.ts';

describe.each(backends)('on %s', (backend) => {
  test('a retention is unset, set, returned with the version, and holds until its date', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const version = await putVersion(client, '/bucket/key');
    const unset = await client.get('/bucket/key?retention');
    expect([unset.status, unset.code]).toEqual([404, 'NoSuchObjectLockConfiguration']);
    const until = world.inDays(1);
    const put = await client.put('/bucket/key?retention', { body: retention('COMPLIANCE', until) });
    expect([put.status, put.text]).toEqual([200, '']);
    const got = await client.get(`/bucket/key?retention&versionId=${version}`);
    const date = new Date(until).toISOString();
    expect([got.one('Mode'), got.one('RetainUntilDate')]).toEqual(['COMPLIANCE', date]);
    for (const read of [await client.head('/bucket/key'), await client.get('/bucket/key')])
      expect(lockIn(read)).toEqual(['COMPLIANCE', date, undefined]);
    const at = `/bucket/key?versionId=${version}`;
    for (const headers of [{}, bypass]) {
      const refused = await client.delete(at, { headers });
      expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    }
    clock.jump(dayMs - 1);
    expect((await client.delete(at)).status).toBe(403);
    clock.jump(1);
    expect((await client.delete(at)).status).toBe(204);
    expect((await client.get(at)).status).toBe(404);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('a legal hold protects a version until it is removed', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const at = `versionId=${await putVersion(client, '/bucket/key')}`;
    const unset = await client.get('/bucket/key?legal-hold');
    expect([unset.status, unset.code]).toEqual([404, 'NoSuchObjectLockConfiguration']);
    expect((await client.put('/bucket/key?legal-hold', { body: legalHold('ON') })).status).toBe(200);
    expect((await client.get(`/bucket/key?legal-hold&${at}`)).one('Status')).toBe('ON');
    expect(lockIn(await client.head('/bucket/key'))).toEqual([undefined, undefined, 'ON']);
    clock.jump(1000 * 365 * dayMs);
    expect((await client.delete(`/bucket/key?${at}`, { headers: bypass })).status).toBe(403);
    expect((await client.put(`/bucket/key?legal-hold&${at}`, { body: legalHold('OFF') })).status).toBe(200);
    expect((await client.get('/bucket/key?legal-hold')).one('Status')).toBe('OFF');
    expect(lockIn(await client.head('/bucket/key'))).toEqual([undefined, undefined, 'OFF']);
    // A legal hold alone does not set a retention.
    expect((await client.get('/bucket/key?retention')).code).toBe('NoSuchObjectLockConfiguration');
    expect((await client.delete(`/bucket/key?${at}`)).status).toBe(204);
  });

  test('retention and hold are independent: each holds without the other', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    const headers = { ...heldUntil('GOVERNANCE', world.inDays(1)), '*-object-lock-legal-hold': 'ON' };
    const at = `versionId=${await putVersion(client, '/bucket/key', headers)}`;
    const remove = async () => (await client.delete(`/bucket/key?${at}`, { headers: bypass })).status;
    expect(await remove()).toBe(403);
    await client.put('/bucket/key?legal-hold', { body: legalHold('OFF') });
    expect((await client.delete(`/bucket/key?${at}`)).status).toBe(403);
    await client.put('/bucket/key?legal-hold', { body: legalHold('ON') });
    expect((await client.put('/bucket/key?retention', { body: retention(), headers: bypass })).status).toBe(
      200,
    );
    expect(lockIn(await client.head('/bucket/key'))).toEqual([undefined, undefined, 'ON']);
    expect(await remove()).toBe(403);
    await client.put('/bucket/key?legal-hold', { body: legalHold('OFF') });
    expect(await remove()).toBe(204);
  });

  test('a delete without a version lays a marker on what is held, and a write lays a version on it', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    const held = await putVersion(client, '/bucket/key', heldUntil('COMPLIANCE', world.inDays(9)));
    const laid = await client.delete('/bucket/key');
    expect([laid.status, laid.header('*-delete-marker')]).toEqual([204, 'true']);
    expect((await client.get('/bucket/key')).status).toBe(404);
    const over = await putVersion(client, '/bucket/key');
    expect((await client.get(`/bucket/key?versionId=${held}`)).text).toBe('content');
    const gone = await client.post('/bucket?delete', {
      body: deletion(
        [held, over, laid.header('*-version-id') ?? ''].map(
          (id) => `<Key>key</Key><VersionId>${id}</VersionId>`,
        ),
      ),
    });
    expect([gone.status, gone.all('Code'), gone.all('VersionId').at(-1)]).toEqual([
      200,
      ['AccessDenied'],
      held,
    ]);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([held]);
    expect((await client.delete('/bucket')).code).toBe('BucketNotEmpty');
  });

  test('what was there before the bucket had Object Lock is free, and can be held', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    await client.put('/older');
    await client.put('/older/key', { body: 'null version' });
    await setVersioning(client, 'older', 'Enabled');
    await client.put('/older?object-lock', {
      body: '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>',
    });
    const at = '/older/key?versionId=null';
    await client.put('/older/key?legal-hold&versionId=null', { body: legalHold('ON') });
    expect((await client.put('/older/key', { body: 'newer' })).status).toBe(200);
    expect((await client.delete(at)).status).toBe(403);
    await client.put('/older/key?legal-hold&versionId=null', { body: legalHold('OFF') });
    expect((await client.delete(at)).status).toBe(204);
  });

  test('of a concurrent legal hold and delete one succeeds: the version is held, or deleted', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    for (let round = 0; round < 20; round += 1) {
      const key = `/bucket/round-${round}`;
      const at = `versionId=${await putVersion(client, key)}`;
      if (round % 2 === 0) await putVersion(client, key);
      const hold = () => client.put(`${key}?legal-hold&${at}`, { body: legalHold('ON') });
      const remove = () => client.delete(`${key}?${at}`);
      const [first, second] = round % 4 < 2 ? [hold, remove] : [remove, hold];
      const [one, other] = await Promise.all([first(), second()]);
      const [held, removed] = round % 4 < 2 ? [one, other] : [other, one];
      const isThere = (await client.head(`${key}?${at}`)).status === 200;
      expect([held.status, removed.status]).toEqual(isThere ? [200, 403] : [404, 204]);
    }
  });
});

interface Change {
  readonly from: readonly [Mode, number];
  readonly to: readonly [Mode, number] | undefined;
  readonly free: boolean;
  readonly bypassed: boolean;
}
const [g, c] = ['GOVERNANCE', 'COMPLIANCE'] as const;
const changes: readonly Change[] = [
  { from: [g, 5], to: [g, 6], free: true, bypassed: true },
  { from: [g, 5], to: [g, 5], free: true, bypassed: true },
  { from: [g, 5], to: [g, 4], free: false, bypassed: true },
  { from: [g, 5], to: undefined, free: false, bypassed: true },
  { from: [g, 5], to: [c, 6], free: false, bypassed: true },
  { from: [c, 5], to: [c, 6], free: true, bypassed: true },
  { from: [c, 5], to: [c, 5], free: true, bypassed: true },
  { from: [c, 5], to: [c, 4], free: false, bypassed: false },
  { from: [c, 5], to: undefined, free: false, bypassed: false },
  { from: [c, 5], to: [g, 6], free: false, bypassed: false },
];

test.each(changes)(
  'a retention $from becomes $to: by anybody $free, with bypass $bypassed',
  async (change) => {
    await using world = await openLocked();
    const { client } = world;
    const { from, to, free, bypassed } = change;
    const body = to === undefined ? retention() : retention(to[0], world.inDays(to[1]));
    for (const [headers, isAllowed] of [
      [{}, free],
      [{ '*-bypass-governance-retention': 'false' }, free],
      [bypass, bypassed],
    ] as const) {
      const version = await putVersion(client, '/bucket/key', heldUntil(from[0], world.inDays(from[1])));
      const answer = await client.put('/bucket/key?retention', { body, headers });
      expect([answer.status, answer.code]).toEqual(isAllowed ? [200, ''] : [403, 'AccessDenied']);
      const [mode, days] = isAllowed ? (to ?? []) : from;
      const until = days === undefined ? undefined : new Date(world.inDays(days)).toISOString();
      expect(lockIn(await client.head(`/bucket/key?versionId=${version}`)).slice(0, 2)).toEqual([
        mode,
        until,
      ]);
    }
  },
);

test('once a retention is over, anything may follow it', async () => {
  await using world = await openLocked();
  const { client, clock, inDays } = world;
  for (const to of [retention(), retention('GOVERNANCE', inDays(6))]) {
    const version = await putVersion(client, '/bucket/key', heldUntil('COMPLIANCE', inDays(2)));
    clock.jump(2 * dayMs);
    expect((await client.put('/bucket/key?retention', { body: to })).status).toBe(200);
    expect((await client.delete(`/bucket/key?versionId=${version}`, { headers: bypass })).status).toBe(204);
  }
});

test('a multipart upload keeps the lock that it was begun with, and its object has it', async () => {
  await using world = await openLocked();
  const { client, inDays } = world;
  const until = inDays(3);
  const headers = { ...heldUntil('COMPLIANCE', until), '*-object-lock-legal-hold': 'ON' };
  const uploadId = await createUpload(client, '/bucket/key', { headers });
  const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'part' })];
  const done = await complete(client, '/bucket/key', { uploadId, parts });
  expect(lockIn(await client.head('/bucket/key'))).toEqual([
    'COMPLIANCE',
    new Date(until).toISOString(),
    'ON',
  ]);
  const version = done.header('*-version-id');
  expect((await client.delete(`/bucket/key?versionId=${version}`)).status).toBe(403);
});

test('a copy has the lock of its request, not that of its source', async () => {
  await using world = await openLocked();
  const { client, inDays } = world;
  await putVersion(client, '/bucket/source', heldUntil('COMPLIANCE', inDays(1)));
  const source = { '*-copy-source': '/bucket/source' };
  await client.put('/bucket/free', { headers: source });
  expect(lockIn(await client.head('/bucket/free'))).toEqual([undefined, undefined, undefined]);
  await client.put('/bucket/held', { headers: { ...source, '*-object-lock-legal-hold': 'ON' } });
  expect(lockIn(await client.head('/bucket/held'))).toEqual([undefined, undefined, 'ON']);
});

test('what is no lock is refused, in headers and in bodies', async () => {
  await using world = await openLocked();
  const { client, inDays } = world;
  await putVersion(client, '/bucket/key');
  const date = new Date(inDays(1)).toISOString();
  for (const headers of [
    { '*-object-lock-mode': 'GOVERNANCE' },
    { '*-object-lock-retain-until-date': date },
    { ...heldUntil('governance', inDays(1)) },
    { ...heldUntil('COMPLIANCE', inDays(0)) },
    { ...heldUntil('COMPLIANCE', inDays(-1)) },
    { '*-object-lock-mode': 'COMPLIANCE', '*-object-lock-retain-until-date': 'tomorrow' },
    { '*-object-lock-mode': 'COMPLIANCE', '*-object-lock-retain-until-date': '2030-13-01T00:00:00Z' },
    { '*-object-lock-mode': 'COMPLIANCE', '*-object-lock-retain-until-date': '2030-02-30T00:00:00Z' },
    { '*-object-lock-mode': 'COMPLIANCE', '*-object-lock-retain-until-date': '2030-01-01T24:00:00Z' },
    { '*-object-lock-legal-hold': 'on' },
    { '*-object-lock-legal-hold': '' },
  ]) {
    for (const refused of [
      await client.put('/bucket/new', { body: 'x', headers }),
      await client.put('/bucket/new', { headers: { ...headers, '*-copy-source': '/bucket/key' } }),
      await client.post('/bucket/new?uploads', { headers }),
    ])
      expect([refused.status, refused.code], JSON.stringify(headers)).toEqual([400, 'InvalidArgument']);
  }
  expect((await client.head('/bucket/new')).status).toBe(404);
  for (const [body, code] of [
    [retention('COMPLIANCE', inDays(0)), 'InvalidArgument'],
    [retention('compliance', inDays(1)), 'MalformedXML'],
    [retention('COMPLIANCE', 'tomorrow'), 'MalformedXML'],
    ['<Retention><Mode>COMPLIANCE</Mode></Retention>', 'MalformedXML'],
    [`<Retention><RetainUntilDate>${date}</RetainUntilDate></Retention>`, 'MalformedXML'],
    ['', 'MissingRequestBodyError'],
  ] as const) {
    const refused = await client.put('/bucket/key?retention', { body });
    expect([refused.status, refused.code], body).toEqual([400, code]);
  }
  for (const [body, code] of [
    [legalHold('on'), 'MalformedXML'],
    ['<LegalHold/>', 'MalformedXML'],
    ['', 'MissingRequestBodyError'],
  ] as const) {
    const refused = await client.put('/bucket/key?legal-hold', { body });
    expect([refused.status, refused.code], body).toEqual([400, code]);
  }
  expect(lockIn(await client.head('/bucket/key'))).toEqual([undefined, undefined, undefined]);
});

test('a bucket without Object Lock refuses locks; a delete marker or missing version has none', async () => {
  await using world = await openLocked();
  const { client, inDays } = world;
  await client.put('/plain');
  await client.put('/plain/key', { body: 'x' });
  for (const refused of [
    await client.put('/plain/new', { body: 'x', headers: heldUntil('COMPLIANCE', inDays(1)) }),
    await client.put('/plain/new', { body: 'x', headers: { '*-object-lock-legal-hold': 'OFF' } }),
    await client.put('/plain/key?retention', { body: retention('COMPLIANCE', inDays(1)) }),
    await client.get('/plain/key?retention'),
    await client.put('/plain/key?legal-hold', { body: legalHold('ON') }),
    await client.get('/plain/key?legal-hold'),
  ])
    expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
  expect((await client.head('/plain/new')).status).toBe(404);
  await putVersion(client, '/bucket/marked');
  const marker = (await client.delete('/bucket/marked')).header('*-version-id');
  for (const [path, status, code] of [
    ['/bucket/absent?', 404, 'NoSuchKey'],
    [`/bucket/absent?versionId=${'0'.repeat(32)}&`, 404, 'NoSuchVersion'],
    ['/bucket/marked?', 404, 'NoSuchKey'],
    [`/bucket/marked?versionId=${marker}&`, 405, 'MethodNotAllowed'],
  ] as const) {
    for (const answer of [
      await client.get(`${path}retention`),
      await client.put(`${path}retention`, { body: retention('COMPLIANCE', inDays(1)) }),
      await client.get(`${path}legal-hold`),
      await client.put(`${path}legal-hold`, { body: legalHold('ON') }),
    ])
      expect([answer.status, answer.code], path).toEqual([status, code]);
  }
});
