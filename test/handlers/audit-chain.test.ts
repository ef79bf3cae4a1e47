/** The hash chain of the audit log, its retention, and the rows and exports that operators get of it. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { audited, clearAuditHour, findAuditHead } from '../../src/metadata/audit.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { tasks } from '../../src/metadata/records/tasks.ts';
import { MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { retainAudit } from '../../src/workers/retention.ts';
import { operatorOf } from '../support/clusters.ts';
import { DamagedRows } from '../support/damaged-rows.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type Backend, bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { whileHeld } from '../support/held-body.ts';
import { auditRows } from '../support/recorded.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 0, 1);
const firstHour = start / hourMs;
const never = new AbortController().signal;

async function seal({ context }: GatewayWorld): Promise<void> {
  const unit = retainAudit(context, 1);
  for (let turn = 0; turn < 2_000; turn += 1) if ((await unit(never)) === 'idle') return;
  throw new Error('the hours do not end');
}

/** Three hours with two rows each; the first two are sealed. */
async function threeHours(
  options: { readonly backend?: Backend; readonly settings?: Record<string, string> } = {},
): Promise<{ readonly world: GatewayWorld; readonly clock: VirtualClock }> {
  const clock = virtualClock(start);
  const world = await openGateway({ clock, ...options });
  for (const hour of [0, 1, 2]) {
    await world.client.put(`/bucket-${hour}`);
    await world.bob.put(`/bucket-${hour}`);
    if (hour === 2) break;
    await clock.advance(hour === 0 ? hourMs + 16 * 60_000 : hourMs);
    await seal(world);
  }
  return { world, clock };
}

const verify = (world: GatewayWorld, query = '') => operatorOf(world).must('GET', `/audit/verify${query}`);

const rowsOf = async ({ context }: GatewayWorld, hour: number) =>
  (await auditRows(context)).filter((row) => row.hour === firstHour + hour);

describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('sealed hours verify, and the part of the log that is not sealed yet is named', async () => {
    const { world } = await threeHours({ backend });
    await using _ = world;
    const { seal: head, ...verified } = await verify(world);
    expect(head).toMatch(/^[0-9a-f]{64}$/);
    expect(verified).toEqual({
      isIntact: true,
      since: '2026-01-01T00:00:00.000Z',
      sealedThrough: '2026-01-01T01:00:00.000Z',
      hours: 2,
      rows: 4,
      expired: 0,
      removedEarly: 0,
      unauthenticated: 0,
      sealedLate: 0,
    });
  });

  test('a removed, an altered and an added row of a sealed hour are each named by their hour', async () => {
    const { world } = await threeHours({ backend });
    await using _ = world;
    const { metadata } = world.context;
    const [row] = await rowsOf(world, 1);
    if (row === undefined) throw new Error('there is no row');
    const { hour, slot, time, id } = row;
    const at = { table: audit, in: { hour, slot } };
    const named = { hour: '2026-01-01T01:00:00.000Z', sealedRows: 2 };
    await metadata.apply([{ at, remove: { time, id } }]);
    expect((await verify(world))['gap']).toEqual({ kind: 'rows-removed', foundRows: 1, ...named });
    for (const altered of [
      { ...row, source: '192.0.2.1' },
      { ...row, changes: [{ field: 'weight', old: 1, new: 2 }] },
    ]) {
      await metadata.apply([{ at, put: altered, expiresAt: start + 30 * 24 * hourMs }]);
      expect((await verify(world))['gap']).toEqual({ kind: 'rows-altered', foundRows: 2, ...named });
    }
    expect(await verify(world)).toMatchObject({
      isIntact: false,
      hours: 1,
      gap: { kind: 'rows-altered', foundRows: 2, ...named },
    });
    await metadata.apply([
      { at, put: row },
      audited({ ...row, id: 'later' }, { retentionMs: 30 * 24 * hourMs }),
    ]);
    expect((await verify(world))['gap']).toEqual({ kind: 'rows-added', foundRows: 3, ...named });
  });
});

test('a damaged row does not keep its hour and later ones from being sealed and removed', async () => {
  const damaged = new DamagedRows();
  const clock = virtualClock(start);
  let isStuck = false;
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    const clear: typeof metadata.clear = async (...given) => {
      if (isStuck) throw new MetadataDamaged('damaged', { table: 'audit', row: '', key: new Uint8Array() });
      return metadata.clear(...given);
    };
    return damaged.wrap({ ...context, metadata: faulty(metadata, { clear }) });
  };
  await using world = await openGateway({ clock, wrap });
  await world.client.put('/bucket');
  damaged.patterns.add(new RegExp(`^audit .*"time":${start},`));
  for (let hour = 0; hour < 3; hour += 1) {
    await clock.advance(hourMs + 16 * 60_000);
    await world.client.put(`/bucket-${hour}`);
    await seal(world);
  }
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 3, rows: 2 });

  // What is damaged after its seal is no proof of a change, and is not taken for sound either. The hours behind it are compared.
  const later = [...damaged.patterns];
  damaged.patterns.add(new RegExp(`^audit .*"hour":${firstHour + 1},`));
  expect(await verify(world)).toMatchObject({
    isIntact: false,
    hours: 2,
    gap: { kind: 'rows-damaged', sealedRows: 1, foundRows: 0 },
  });
  damaged.patterns.clear();
  expect(await verify(world)).toMatchObject({ isIntact: false, gap: { kind: 'rows-added' } });
  for (const each of later) damaged.patterns.add(each);

  isStuck = true;
  await clock.advance(31 * 24 * hourMs);
  await seal(world);
  await seal(world);
  const head = await findAuditHead(world.context.metadata);
  expect(head?.state.keptFrom).toBeGreaterThan(firstHour + 3);
});

/** Changes a stored seal, like someone with access to the database. */
async function changeSeal(
  world: GatewayWorld,
  hour: number,
  change: (state: never) => unknown,
): Promise<void> {
  const { metadata } = world.context;
  const at = { table: tasks, in: { kind: 'audit-seal' } };
  const name = `hour-${String(firstHour + hour).padStart(10, '0')}`;
  const found = await metadata.get(at, { name });
  if (found === undefined) throw new Error('there is no seal');
  const state = change(found.row.state as never);
  await metadata.commit(at, [
    state === undefined
      ? { remove: { name }, expect: found.revision }
      : { put: { ...found.row, state }, expect: found.revision },
  ]);
}

test('a seal that was removed or altered is named', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  await clock.advance(2 * hourMs);
  await seal(world);
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 4, rows: 6 });
  await changeSeal(world, 1, (state: object) => ({ ...state, rows: 7 }));
  expect((await verify(world))['gap']).toEqual({ kind: 'seal-altered', hour: '2026-01-01T01:00:00.000Z' });
  await changeSeal(world, 1, () => undefined);
  expect((await verify(world))['gap']).toEqual({ kind: 'seal-missing', hour: '2026-01-01T01:00:00.000Z' });
});

test('verification goes on behind a gap, and names each', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  await clock.advance(3 * hourMs);
  await seal(world);
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 5, rows: 6 });
  await changeSeal(world, 1, () => undefined);
  for (const { hour, slot, time, id } of await rowsOf(world, 2))
    await world.context.metadata.apply([{ at: { table: audit, in: { hour, slot } }, remove: { time, id } }]);
  await changeSeal(world, 3, (state: object) => ({ ...state, rows: 7 }));
  const gaps = [
    { kind: 'seal-missing', hour: '2026-01-01T01:00:00.000Z' },
    { kind: 'rows-removed', hour: '2026-01-01T02:00:00.000Z', sealedRows: 2, foundRows: 0 },
    { kind: 'seal-altered', hour: '2026-01-01T03:00:00.000Z' },
  ];
  expect(await verify(world)).toMatchObject({ isIntact: false, hours: 2, rows: 2, gap: gaps[0], gaps });
  expect((await verify(world, '?from=2026-01-01T03:30:00Z'))['gaps']).toEqual([gaps[2]]);
});

test('the end of the chain cannot be cut off without notice', async () => {
  const { world } = await threeHours();
  await using _ = world;
  await changeSeal(world, 1, () => undefined);
  expect(await verify(world)).toMatchObject({
    isIntact: false,
    gap: { kind: 'seal-missing', hour: '2026-01-01T01:00:00.000Z' },
  });
});

test('hours that are sealed again, because the head of the chain was set back, show as sealed late', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  for (let hour = 0; hour < 3; hour += 1) {
    await clock.advance(hourMs);
    await seal(world);
  }
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 5, sealedLate: 0 });
  const { metadata } = world.context;
  const at = { table: tasks, in: { kind: 'audit-seal' } };
  const head = await metadata.get(at, { name: 'head' });
  const first = await metadata.get(at, { name: `hour-${String(firstHour).padStart(10, '0')}` });
  if (head === undefined || first === undefined) throw new Error('nothing is sealed');
  for (const hour of [1, 2, 3, 4]) await changeSeal(world, hour, () => undefined);
  const { seal: firstSeal } = first.row.state as { readonly seal: string };
  const put = { ...head.row, state: { ...(head.row.state as object), hour: firstHour, seal: firstSeal } };
  await metadata.commit(at, [{ put, expect: head.revision }]);
  for (const { hour, slot, time, id } of await rowsOf(world, 1))
    await metadata.apply([{ at: { table: audit, in: { hour, slot } }, remove: { time, id } }]);
  await clock.advance(hourMs);
  await seal(world);
  // The leader has sealed the altered hours with the master key, but it cannot seal them at their time, and the extent names another seal.
  const late = { unauthenticated: 0, sealedLateFrom: '2026-01-01T01:00:00.000Z' };
  const gap = { kind: 'seal-altered', hour: '2026-01-01T04:00:00.000Z' };
  expect(await verify(world)).toMatchObject({ ...late, isIntact: false, gap });
  await removeExtent(world);
  expect(await verify(world)).toMatchObject({ ...late, isIntact: true });
});

test('a chain that was computed anew without the master key is counted as unauthenticated', async () => {
  const { world } = await threeHours();
  await using _ = world;
  await changeSeal(world, 1, (state: object) => ({ ...state, witness: btoa('forged') }));
  expect(await verify(world)).toMatchObject({ isIntact: true, unauthenticated: 1 });
});

test('verification continues where a part ended', async () => {
  const { world } = await threeHours();
  await using _ = world;
  expect(await verify(world, '?from=2026-01-01T01:30:00Z')).toMatchObject({
    isIntact: true,
    hours: 1,
    rows: 2,
  });
});

const sealsAt = { table: tasks, in: { kind: 'audit-seal' } };
const extentAt = { table: tasks, in: { kind: 'audit-sealed' } };

async function removeExtent({ context: { metadata } }: GatewayWorld): Promise<void> {
  const found = await metadata.get(extentAt, { name: '' });
  if (found === undefined) throw new Error('nothing is noted');
  await metadata.commit(extentAt, [{ remove: { name: '' }, expect: found.revision }]);
}

/** Removes the rows, seals and head of the first three hours. */
async function wipe(world: GatewayWorld): Promise<void> {
  const { metadata } = world.context;
  for (const each of [0, 1, 2]) await clearAuditHour(metadata, firstHour + each);
  for (const each of [0, 1]) await changeSeal(world, each, () => undefined);
  const head = await metadata.get(sealsAt, { name: 'head' });
  if (head === undefined) throw new Error('nothing is sealed');
  await metadata.commit(sealsAt, [{ remove: { name: 'head' }, expect: head.revision }]);
}

test('a log whose rows, seals and head were all wiped does not verify, also once later hours are sealed', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  expect(await verify(world)).toMatchObject({ isIntact: true });
  await wipe(world);
  const gap = { kind: 'seal-missing', hour: '2026-01-01T00:00:00.000Z' };
  expect(await verify(world)).toMatchObject({ isIntact: false, gap });
  for (let hour = 0; hour < 3; hour += 1) {
    await clock.advance(hourMs);
    await seal(world);
    expect(await verify(world)).toMatchObject({ isIntact: false, gap });
  }
});

test('an extent that was altered without the master key is named', async () => {
  const { world } = await threeHours();
  await using _ = world;
  const { metadata } = world.context;
  const found = await metadata.get(extentAt, { name: '' });
  if (found === undefined) throw new Error('nothing is noted');
  const state = { ...(found.row.state as object), first: firstHour + 1 };
  await metadata.commit(extentAt, [{ put: { ...found.row, state }, expect: found.revision }]);
  const gap = { kind: 'seal-altered', hour: '2026-01-01T01:00:00.000Z' };
  expect(await verify(world)).toMatchObject({ isIntact: false, gap });
});

test('a log that was wiped with everything that says how far it came is not the one whose seal an operator has noted', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  const { seal: noted, sealedThrough: hour } = await verify(world);
  const query = `?seal=${noted}&sealedHour=${hour}`;
  expect(await verify(world, query)).toMatchObject({ isIntact: true });
  await wipe(world);
  await removeExtent(world);
  const gap = { kind: 'seal-missing', hour };
  expect(await verify(world, query)).toMatchObject({ isIntact: false, gap });
  await clock.advance(hourMs);
  await seal(world);
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 1 });
  expect(await verify(world, query)).toMatchObject({ isIntact: false, gap });
  expect((await operatorOf(world).ask('GET', `/audit/verify?seal=${noted}`)).status).toBe(400);
});

test('a log without seals says so', async () => {
  await using world = await openGateway();
  expect(await verify(world)).toEqual({
    isIntact: true,
    hours: 0,
    rows: 0,
    expired: 0,
    removedEarly: 0,
    unauthenticated: 0,
    sealedLate: 0,
  });
});

test('a request that outlasts its hour is recorded in the hour in which it ends', async () => {
  const clock = virtualClock(start);
  await using world = await openGateway({ clock });
  await world.client.put('/bucket');
  await clock.advance(hourMs - 60_000);
  const held = { method: 'PUT', path: '/bucket/key', ask: { body: 'ab' }, early: 1 };
  const answer = await whileHeld(world.client, held, async () => clock.jump(30 * 60_000));
  expect(answer.status).toBe(200);
  const rows = await auditRows(world.context);
  expect(rows.map(({ action, time }) => [action, (time - start) / 60_000])).toEqual([
    ['CreateBucket', 0],
    ['PutObject', 89],
  ]);
});

test('hours whose retention has ended are removed whole, and the chain still verifies', async () => {
  const { world, clock } = await threeHours({ settings: { SVC_AUDIT_RETENTION: '6h' } });
  await using _ = world;
  await clock.advance(5 * hourMs);
  await seal(world);
  expect(await verify(world)).toMatchObject({ isIntact: true, hours: 5, expired: 2, removedEarly: 0 });
  const head = await findAuditHead(world.context.metadata);
  expect(head?.state.keptFrom).toBe(firstHour + 1);
  await clock.advance(8 * hourMs);
  await seal(world);
  expect(await auditRows(world.context)).toEqual([]);
  await world.client.put('/later');
  expect(await verify(world)).toMatchObject({ isIntact: true, removedEarly: 0 });
});

test('rows of a shorter retention are removed although they were written with a longer one', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  const shorter = { ...world.context, config: { ...world.context.config, SVC_AUDIT_RETENTION: hourMs } };
  await clock.advance(hourMs);
  await seal({ ...world, context: shorter });
  expect(await rowsOf(world, 0)).toEqual([]);
  expect(await rowsOf(world, 2)).toHaveLength(2);
  expect(await verify(world)).toMatchObject({ isIntact: true, removedEarly: 2 });
});

test('a leader whose term has ended seals nothing', async () => {
  const { world, clock } = await threeHours();
  await using _ = world;
  const paused = retainAudit(world.context, 1);
  await paused(never);
  const next = retainAudit(world.context, 2);
  await next(never);
  await clock.advance(hourMs);
  await expect(paused(never)).rejects.toThrow('later holder');
  expect(await next(never)).toBe('busy');
});

test('a leader that died between giving up an hour and removing its rows is completed by the next one', async () => {
  const { world, clock } = await threeHours({ settings: { SVC_AUDIT_RETENTION: '2h' } });
  await using _ = world;
  await clock.advance(hourMs);
  const clear = async () => Promise.reject(new Error('killed'));
  const metadata = Object.create(world.context.metadata, { clear: { value: clear } });
  const dying = retainAudit({ ...world.context, metadata }, 1);
  await expect(
    (async () => {
      for (;;) if ((await dying(never)) === 'idle') return;
    })(),
  ).rejects.toThrow('killed');
  await seal(world);
  const { rows } = await operatorOf(world).must('GET', '/audit?start=2026-01-01T00:00:00Z');
  expect(rows).toHaveLength(2);
  await clearAuditHour(world.context.metadata, firstHour + 2);
});

const statuses = async (world: GatewayWorld, path: string) => [
  (await world.client.get(path)).status,
  (await world.anonymous.get(path)).status,
];

test('only operators read, export and verify the log', async () => {
  await using world = await openGateway();
  for (const path of ['/audit', '/audit/export', '/audit/verify'])
    expect(await statuses(world, `/admin/v1${path}`)).toEqual([403, 403]);
});

test('GET /audit finds rows by bucket, action, identity, status, request id and time, in pages', async () => {
  const { world } = await threeHours();
  await using _ = world;
  const admin = operatorOf(world);
  const find = async (query: string) =>
    (await admin.must('GET', `/audit?${query}`))['rows'] as { requestId: string }[];
  const all = await find('');
  expect(all).toHaveLength(6);
  const [newest] = all;
  expect(newest).toEqual({
    time: '2026-01-01T02:16:00.000Z',
    requestId: expect.stringMatching(/^[0-9A-F]{16}$/),
    action: 'CreateBucket',
    resource: 'bucket:bucket-2',
    status: expect.any(Number),
    principal: expect.any(String),
    accessKey: expect.any(String),
    account: expect.any(String),
    source: '127.0.0.1',
    ...('error' in (newest as object) ? { error: 'BucketAlreadyExists' } : {}),
  });
  expect(await find('bucket=bucket-1')).toHaveLength(2);
  expect(await find(`identity=${bob.accessKey}`)).toHaveLength(3);
  expect(await find(`identity=${alice.owner}&status=200`)).toHaveLength(3);
  expect(await find('status=4xx')).toHaveLength(3);
  expect(await find('action=DeleteBucket')).toEqual([]);
  expect(await find(`requestId=${newest?.requestId}`)).toEqual([newest]);
  expect(await find('start=2026-01-01T01:00:00Z&end=2026-01-01T02:00:00Z')).toHaveLength(2);
  const paged: unknown[] = [];
  for (let token: unknown = ''; token !== undefined; ) {
    const page = await admin.must('GET', `/audit?limit=4${token === '' ? '' : `&after=${token}`}`);
    paged.push(...(page['rows'] as unknown[]));
    token = page['next'];
  }
  expect(paged).toEqual(all);
  for (const wrong of [
    'status=9',
    'limit=0',
    'token=x',
    'start=yesterday',
    'start=2026-02-01&end=2026-01-01',
  ])
    expect((await admin.ask('GET', `/audit?${wrong}`)).status).toBe(400);
});

test('GET /audit/export streams JSON Lines, records of CloudTrail and events of OCSF, the oldest row first', async () => {
  const { world } = await threeHours();
  await using _ = world;
  await world.client.put('/bucket-0/a%22key', { body: 'x' });
  const client = world.as({ credential: operator });
  const read = async (query: string) => client.get(`/admin/v1/audit/export?${query}`);
  const lines = (await read('')).text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(7);
  const put = lines.find(({ action }) => action === 'PutObject');
  expect(put).toMatchObject({
    action: 'PutObject',
    resource: 'bucket:bucket-0',
    key: 'a"key',
    status: 200,
  });
  const trail = await read('format=cloudtrail&bucket=bucket-0');
  expect(trail.header('content-type')).toBe('application/json');
  const { Records } = JSON.parse(trail.text) as { Records: object[] };
  expect(Records).toHaveLength(3);
  expect(Records).toContainEqual(
    expect.objectContaining({ eventName: 'CreateBucket', errorCode: 'BucketAlreadyExists' }),
  );
  expect(Records).toContainEqual({
    eventVersion: '1.11',
    userIdentity: {
      type: 'Root',
      principalId: alice.owner,
      arn: `arn:aws:iam::${alice.owner}:root`,
      accountId: alice.owner,
      accessKeyId: alice.accessKey,
    },
    eventTime: '2026-01-01T02:16:00Z',
    eventSource: 's3.amazonaws.com',
    eventName: 'PutObject',
    awsRegion: world.context.config.SVC_REGION,
    sourceIPAddress: '127.0.0.1',
    requestParameters: { bucketName: 'bucket-0', key: 'a"key' },
    responseElements: null,
    additionalEventData: { httpStatus: 200 },
    requestID: put.requestId,
    eventID: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/),
    readOnly: false,
    resources: [
      { type: 'AWS::S3::Object', ARN: 'arn:aws:s3:::bucket-0/a"key' },
      { type: 'AWS::S3::Bucket', ARN: 'arn:aws:s3:::bucket-0' },
    ],
    eventType: 'AwsApiCall',
    managementEvent: false,
    recipientAccountId: alice.owner,
    eventCategory: 'Data',
  });
  const ocsf = (await read('format=ocsf&status=4xx')).text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(ocsf).toHaveLength(3);
  expect(ocsf[0]).toMatchObject({
    class_uid: 6003,
    category_uid: 6,
    activity_id: 1,
    type_uid: 600301,
    time: start,
    status_id: 2,
    status_code: 'BucketAlreadyExists',
    metadata: { version: '1.3.0', product: { name: 'sluice' } },
    actor: { user: { uid: `arn:aws:iam::${bob.owner}:root`, account: { uid: bob.owner } } },
    api: { operation: 'CreateBucket', response: { code: 409 } },
    src_endpoint: { ip: '127.0.0.1' },
  });
  expect((await read('format=csv')).status).toBe(400);
  expect((await read('bucket=none')).text).toBe('');
});
