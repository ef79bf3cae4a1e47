/** The audit log: one row for every request that changes or would have changed something. @storage */

import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import {
  describeOperation,
  type OperationName,
  operationNames,
} from '../../src/protocol/operations/operations.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, bob, openGateway, operator } from '../support/gateway.ts';
import { complete, createUpload, deletion, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { onCount } from '../support/metric-calls.ts';
import { auditRows, inShort, tickingClock } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** Counts the writes of rows outside of commits. */
function countingApplies() {
  let applies = 0;
  return {
    applies: () => applies,
    wrap: (context: Context): Context => {
      const apply: MetadataStore['apply'] = (changes) => {
        applies += 1;
        return context.metadata.apply(changes);
      };
      return { ...context, metadata: faulty(context.metadata, { apply }) };
    },
  };
}

async function changeEverything(client: Client): Promise<void> {
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const { header } = await client.put('/bucket/key', { body: 'one' });
  await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } });
  await client.delete('/bucket/key');
  await client.delete(`/bucket/key?versionId=${header('*-version-id')}`);
  await client.post('/bucket?delete', { body: deletion(['key', 'copy', 'none']) });
  const uploadId = await createUpload(client, '/bucket/key');
  const part = await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'part' });
  await client.put('/bucket/key', {
    query: { uploadId, partNumber: '2' },
    headers: { '*-copy-source': `/bucket/key?versionId=none` },
  });
  await complete(client, '/bucket/key', { uploadId, parts: [part] });
  await client.delete('/bucket/key', { query: { uploadId: await createUpload(client, '/bucket/key') } });
  await client.delete('/bucket');
}

describe.each(backends)('on %s', (backend) => {
  test('every state-changing request leaves one row, DeleteObjects one more for its keys, and no other request does', async () => {
    await using world = await openGateway({ backend, clock: tickingClock() });
    const { client } = world;
    await changeEverything(client);
    for (const path of ['/', '/bucket', '/bucket?versions', '/bucket/key']) await client.get(path);
    await client.head('/bucket/none');
    expect((await auditRows(world.context)).map(inShort)).toEqual([
      'CreateBucket bucket:bucket 200',
      'PutBucketVersioning bucket:bucket 200',
      'PutObject bucket:bucket/key 200',
      'CopyObject bucket:bucket/copy 200',
      'DeleteObject bucket:bucket/key 204',
      'DeleteObject bucket:bucket/key 204',
      'DeleteObjects bucket:bucket 200',
      // The page of its keys.
      'DeleteObjects bucket:bucket 200',
      'CreateMultipartUpload bucket:bucket/key 200',
      'UploadPart bucket:bucket/key 200',
      'UploadPartCopy bucket:bucket/key 400 InvalidArgument',
      'CompleteMultipartUpload bucket:bucket/key 200',
      'CreateMultipartUpload bucket:bucket/key 200',
      'AbortMultipartUpload bucket:bucket/key 204',
      'DeleteBucket bucket:bucket 409 BucketNotEmpty',
    ]);
  });

  test('a row has the caller, the address, the time and the request id', async () => {
    await using world = await openGateway({ backend });
    const since = Date.now();
    const answer = await world.client.put('/bucket');
    const [row] = await auditRows(world.context);
    expect(row).toMatchObject({
      id: answer.header('*-request-id'),
      principal: `arn:aws:iam::${alice.owner}:root`,
      accessKey: alice.accessKey,
      account: alice.owner,
      source: '127.0.0.1',
    });
    expect(row?.time).toBeGreaterThanOrEqual(since);
    expect(row?.time).toBeLessThanOrEqual(Date.now());
  });

  test('a refused request leaves one row with its error code', async () => {
    await using world = await openGateway({ backend, clock: tickingClock() });
    await world.client.put('/bucket');
    await world.bob.put('/bucket/key', { body: 'x' });
    await world.anonymous.delete('/bucket/key');
    await world.client.put('/none/key', { body: 'x' });
    await world.client.put('/bucket/key', { body: 'x', headers: { 'if-match': '"e"' } });
    await world.client.put('/bucket/key', { body: 'x', tamper: { signature: () => '0'.repeat(64) } });
    await world.client.put(`/bucket/${'k'.repeat(2000)}`, { body: 'x' });
    await world.client.get('/bucket/key', { tamper: { signature: () => '0'.repeat(64) } });
    const [, ...rows] = await auditRows(world.context);
    expect(rows.map((row) => [row.key?.length, row.accessKey, row.status, row.error])).toEqual([
      [3, bob.accessKey, 403, 'AccessDenied'],
      [3, undefined, 403, 'AccessDenied'],
      [3, alice.accessKey, 404, 'NoSuchBucket'],
      [3, alice.accessKey, 404, 'NoSuchKey'],
      [3, undefined, 403, 'SignatureDoesNotMatch'],
      [1024, alice.accessKey, 400, 'KeyTooLongError'],
    ]);
  });

  test('the row is written in the commit of the change, without a separate write', async () => {
    const { applies, wrap } = countingApplies();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    await client.put('/bucket/key', { body: 'one' });
    await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } });
    await client.delete('/bucket/key');
    await client.post('/bucket?delete', { body: deletion(['key', 'copy']) });
    const uploadId = await createUpload(client, '/bucket/key');
    const part = await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'part' });
    await complete(client, '/bucket/key', { uploadId, parts: [part] });
    // The page of keys of DeleteObjects: before the first deletion, and with what became of the keys.
    expect(applies()).toBe(2);
    await client.delete('/bucket');
    expect(applies()).toBe(3);
    expect(await auditRows(world.context)).toHaveLength(11);
  });

  test('a request of many commits brings its row along until one has applied', async () => {
    const rows = { count: 0 };
    const wrap = (context: Context): Context => {
      const commit: MetadataStore['commit'] = (at, changes, options) => {
        rows.count += options?.then?.filter((change) => change.at.table === audit).length ?? 0;
        return context.metadata.commit(at, changes, options);
      };
      return { ...context, metadata: faulty(context.metadata, { commit }) };
    };
    await using world = await openGateway({ backend, wrap });
    await world.client.put('/bucket');
    const keys = Array.from({ length: 200 }, (_, n) => `key ${n}`);
    await Promise.all(
      keys.map((key) => world.client.put(`/bucket/${encodeURIComponent(key)}`, { body: key })),
    );
    rows.count = 0;
    expect((await world.client.post('/bucket?delete', { body: deletion(keys) })).status).toBe(200);
    // At most one write for each group of keys that is deleted concurrently.
    expect(rows.count).toBeLessThanOrEqual(16);
    expect((await auditRows(world.context)).map(({ action }) => action).at(-1)).toBe('DeleteObjects');
  });

  test('no secret and no signature is in a row', async () => {
    await using world = await openGateway({ backend });
    await changeEverything(world.client);
    await world.client.presigned('PUT', '/bucket/key', { body: 'x' });
    const text = JSON.stringify(await auditRows(world.context));
    expect(text).not.toMatch(/secret|signature=|credential/i);
  });
});

test('rows go when their time is over', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock, settings: { SVC_AUDIT_RETENTION: '1h' } });
  await world.client.put('/bucket');
  await clock.advance(3_599_000);
  expect(await auditRows(world.context)).toHaveLength(1);
  await clock.advance(2_000);
  expect(await auditRows(world.context)).toHaveLength(0);
});

test('a log that cannot be written does not undo what was done', async () => {
  const wrap = (context: Context): Context => {
    const apply = async (): Promise<void> => {
      throw new Error('full');
    };
    return { ...context, metadata: faulty(context.metadata, { apply }) };
  };
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  expect((await world.client.put('/bucket')).status).toBe(200);
});

test('actions of IAM leave one row that names what they are about, in the commit of what they did', async () => {
  const { applies, wrap } = countingApplies();
  await using world = await openGateway({ clock: tickingClock(), wrap });
  const ask = (query: string) => world.client.get(`/?${query}&Version=2010-05-08`);
  expect((await ask('Action=CreateUser&UserName=carol')).status).toBe(200);
  const before = applies();
  expect((await ask('Action=CreateAccessKey&UserName=carol')).status).toBe(200);
  expect((await ask('Action=GetUser&UserName=carol')).status).toBe(200);
  expect((await ask('Action=CreateUser&UserName=carol')).status).toBe(409);
  const rows = await auditRows(world.context);
  const arn = `arn:aws:iam::${alice.owner}:user/carol`;
  expect(rows.map(inShort)).toEqual([
    `CreateUser ${arn} 200`,
    `CreateAccessKey ${arn} 200`,
    `CreateUser ${arn} 409 EntityAlreadyExists`,
  ]);
  expect(applies() - before).toBe(1);
  expect(JSON.stringify(rows)).not.toMatch(/secret/i);
});

describe('of whatever may change something', () => {
  /** The request that an operation's row describes. */
  function requestOf(name: OperationName) {
    const [method = '', scope = '', ...marks] = describeOperation(name).on.split(' ');
    const path = { service: '/', bucket: '/bucket', object: '/bucket/key' }[scope] ?? '/';
    const query = marks.filter((mark) => mark.startsWith('?')).map((mark) => mark.slice(1));
    const headers = marks.filter((mark) => mark.startsWith('+')).map((mark) => mark.slice(1));
    return {
      method: method === 'ANY' ? 'GET' : method,
      path: query.length === 0 ? path : `${path}?${query.join('&')}`,
      headers: Object.fromEntries(headers.map((header) => [`x-amz-${header}`, '/bucket/source'])),
    };
  }

  test('every operation of the table leaves one row under its name when it is refused', async () => {
    // More refusals of one anonymous caller than a process audits one by one.
    const settings = { SVC_AUDIT_UNKNOWN_CALLERS: '1000' };
    await using world = await openGateway({ clock: tickingClock(), settings });
    await world.client.put('/bucket');
    const audited = operationNames.filter((name) => describeOperation(name).audited);
    for (const name of audited) {
      const { method, path, headers } = requestOf(name);
      const { status } = await world.anonymous.send(method, path, { headers });
      expect(status, name).toBeGreaterThanOrEqual(400);
    }
    const [, ...rows] = await auditRows(world.context);
    expect(rows.map(({ action }) => action).sort()).toEqual(audited.toSorted());
    expect(rows.filter(({ error, status }) => error === undefined || status < 400)).toEqual([]);
  });

  test('every write of operators leaves one row under its name with the bucket that it is about', async () => {
    // More refusals than a process audits one by one.
    await using world = await openGateway({
      settings: { SVC_AUDIT_UNKNOWN_CALLERS: '1000', SVC_AUDIT_REFUSALS: '1000' },
    });
    // A log-in is for every caller, and its body is read before it is refused.
    const audited = adminOperationNames.filter((name) => {
      const { audited: isAudited, callers } = describeAdminOperation(name);
      return isAudited && callers === undefined;
    });
    for (const name of audited) {
      const { method, path } = describeAdminOperation(name);
      await world.bob.send(method, path.replace(/:\w+/g, 'some-bucket'));
      await world.bob.send(method, path.replace(/:\w+/g, 'some-bucket'), {
        tamper: { signature: () => '0'.repeat(64) },
      });
    }
    const rows = await auditRows(world.context);
    const names = audited.map((name) => `admin:${name}`);
    expect(rows.map(({ action }) => action).sort()).toEqual([...names, ...names].sort());
    for (const { action, resource, status } of rows) {
      const { path, callers } = describeAdminOperation(action.slice(6) as (typeof audited)[number]);
      expect(resource).toBe(/\/buckets\/:|:bucket/.test(path) ? 'bucket:some-bucket' : '');
      // Whoever may call an operation is refused for the body or the session that is missing.
      expect(callers === undefined ? [403] : [403, 404, 411], action).toContain(status);
    }
  });
});

describe('refusals', () => {
  const settings = { SVC_AUDIT_UNKNOWN_CALLERS: '10' };
  const never = { tamper: { signature: () => '0'.repeat(64) } };

  test('of unknown callers beyond the limit of a minute are counted, in one row for each operation and error', async () => {
    const clock = virtualClock();
    const counted: string[] = [];
    const telemetry = {
      ...silentTelemetry,
      ...onCount({ svc_audit_counted_total: ({ error }) => void counted.push(error) }),
    };
    await using world = await openGateway({ clock, settings, telemetry });
    await world.client.put('/bucket');
    for (let round = 0; round < 100; round += 1) {
      await world.anonymous.put(`/bucket/${round}`, { body: 'x' });
      await world.client.delete(`/bucket/${round}`, never);
    }
    await clock.advance(5_000);
    const rows = (await auditRows(world.context)).filter(({ error }) => error !== undefined);
    const sums = rows.filter(({ count }) => count !== undefined);
    expect(rows.length - sums.length).toBe(10);
    expect(sums.map(({ action, error, count }) => [action, error, count]).sort()).toEqual([
      ['DeleteObject', 'SignatureDoesNotMatch', 95],
      ['PutObject', 'AccessDenied', 95],
    ]);
    expect(counted).toHaveLength(190);
    // An operator sees the counts.
    const shown = await world.as({ credential: operator }).get('/?audit');
    expect(shown.all('Count').sort()).toEqual(['95', '95']);
    // The next minute has rows of its own.
    await clock.advance(60_000);
    for (let round = 0; round < 12; round += 1) await world.anonymous.delete('/bucket/key');
    await clock.advance(5_000);
    const later = (await auditRows(world.context)).slice(rows.length + 1);
    expect(later.map(({ count }) => count ?? 0).sort()).toEqual([...Array(10).fill(0), 2]);
  });

  test('of one account have a separate limit: its changes, and other accounts, keep their rows', async () => {
    const clock = virtualClock();
    const limited = { SVC_AUDIT_UNKNOWN_CALLERS: '0', SVC_AUDIT_REFUSALS: '10' };
    await using world = await openGateway({ clock, settings: limited });
    await world.client.put('/bucket');
    await world.bob.put('/of-bob');
    for (let round = 0; round < 50; round += 1) await world.bob.put('/bucket/key', { body: 'x' });
    await world.bob.put('/of-bob/key', { body: 'x' });
    await world.client.put('/of-bob/key', { body: 'x' });
    await clock.advance(5_000);
    const rows = await auditRows(world.context);
    const of = (account: string) =>
      rows
        .filter((row) => row.account === account)
        .map(({ action, error = '', count = 1 }) => `${action} ${error} ${count}`);
    expect(of('bob-account').sort()).toEqual([
      'CreateBucket  1',
      'PutObject  1',
      ...Array<string>(10).fill('PutObject AccessDenied 1'),
      'PutObject AccessDenied 40',
    ]);
    expect(of('alice-account').sort()).toEqual(['CreateBucket  1', 'PutObject AccessDenied 1']);
    // The next minute has rows of its own.
    await clock.advance(60_000);
    await world.bob.put('/bucket/key', { body: 'x' });
    expect((await auditRows(world.context)).at(-1)).toMatchObject({
      account: 'bob-account',
      error: 'AccessDenied',
    });
  });

  test('of a caller who proved who they are each have a row', async () => {
    await using world = await openGateway({ settings: { SVC_AUDIT_UNKNOWN_CALLERS: '0' } });
    await world.client.put('/bucket');
    for (let round = 0; round < 15; round += 1) await world.bob.put('/bucket/key', { body: 'x' });
    const rows = await auditRows(world.context);
    expect(rows.filter(({ error, count }) => error === 'AccessDenied' && count === undefined)).toHaveLength(
      15,
    );
  });

  test('have rows of a bounded size, whatever the request contains', async () => {
    const proxied = { SVC_TRUSTED_PROXIES: '127.0.0.0/8' };
    await using world = await openGateway({ settings: proxied });
    await world.client.put('/bucket');
    const long = '\u{1F600}'.repeat(250);
    await world.anonymous.put(`/bucket/${encodeURIComponent(long)}`, {
      body: 'x',
      unsignedHeaders: { 'x-forwarded-for': 'a'.repeat(8_000) },
    });
    const [row] = (await auditRows(world.context)).filter(({ error }) => error !== undefined);
    expect(Buffer.byteLength(JSON.stringify(row))).toBeLessThan(1_024);
  });
});
