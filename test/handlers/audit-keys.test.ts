/** The audit log by key: rows about one key, and the keys of a DeleteObjects. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { commitLimits, type MetadataStore, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { deletion, setVersioning } from '../support/gateway-bodies.ts';

interface Row {
  readonly action: string;
  readonly requestId: string;
  readonly key?: string;
  readonly page?: number;
  readonly keys?: readonly { key: string; versionId?: string; status?: number; error?: string }[];
}

async function rowsOf(world: GatewayWorld, query: string): Promise<readonly Row[]> {
  const { rows } = await operatorOf(world).must('GET', `/audit?${query}`);
  return rows as readonly Row[];
}

const deleteKeys = (world: GatewayWorld, keys: readonly string[]) =>
  world.client.post('/bucket?delete', { body: deletion(keys) });

describe.each(backends)('on %s', (backend) => {
  test('rows are found by a key and by the beginning of one, also within DeleteObjects', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    for (const key of ['a/1', 'a/2', 'b/1']) await client.put(`/bucket/${key}`, { body: key });
    await client.delete('/bucket/a/1');
    await deleteKeys(world, ['a/2', 'b/1']);
    const actions = async (query: string) => (await rowsOf(world, query)).map(({ action }) => action).sort();
    expect(await actions('key=a/1')).toEqual(['DeleteObject', 'PutObject']);
    expect(await actions('key=a/2')).toEqual(['DeleteObjects', 'PutObject']);
    expect(await actions('key=a/')).toEqual([]);
    expect(await actions('keyPrefix=a/')).toEqual([
      'DeleteObject',
      'DeleteObjects',
      'PutObject',
      'PutObject',
    ]);
    const [both] = await rowsOf(world, 'key=b/1&action=DeleteObjects');
    expect(both?.keys).toEqual([
      { key: 'a/2', status: 204 },
      { key: 'b/1', status: 204 },
    ]);
    const text = await world.as({ credential: operator }).get('/admin/v1/audit/export?key=b/1');
    expect(text.text.trim().split('\n')).toHaveLength(2);
  });
});

test('a DeleteObjects of a thousand long keys is named in pages that every backend can store', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const keys = Array.from({ length: 1_000 }, (_, n) => `${n}/`.padEnd(1_000, 'é'.normalize()).slice(0, 512));
  const answer = await deleteKeys(world, keys);
  expect(answer.status).toBe(200);
  const rows = await rowsOf(world, `requestId=${answer.header('x-amz-request-id')}&limit=1000`);
  const pages = rows.filter(({ page }) => page !== undefined).toReversed();
  expect(pages.map(({ page }) => page)).toEqual(pages.map((_, index) => index + 1));
  expect(pages.flatMap(({ keys: named = [] }) => named.map(({ key }) => key))).toEqual(keys);
  for (const { keys: named } of pages)
    expect(Buffer.byteLength(JSON.stringify(named))).toBeLessThan(commitLimits.rowBytes - 2_048);
  expect(rows.length).toBe(pages.length + 1);
});

test('each key of a DeleteObjects has the status and the error that DeleteObject would have', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const { header } = await client.put('/bucket/kept', { body: 'x' });
  const versionId = header('*-version-id') ?? '';
  await deleteKeys(world, [
    `<Key>kept</Key><VersionId>${versionId}</VersionId>`,
    `<Key>other</Key><ETag>"e"</ETag>`,
    `<Key>${'k'.repeat(1_100)}</Key>`,
  ]);
  const [row] = await rowsOf(world, 'key=kept&action=DeleteObjects');
  expect(row?.keys).toMatchObject([
    { key: 'kept', versionId, status: 204 },
    { key: 'other', status: expect.any(Number), error: expect.any(String) },
    { key: 'k'.repeat(1_024), status: 400, error: 'KeyTooLongError' },
  ]);
});

test('pages of refused keys count against the limit for refusals', async () => {
  await using world = await openGateway({ settings: { SVC_AUDIT_REFUSALS: '2' } });
  await world.client.put('/bucket');
  const policy = {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:ListBucket', Resource: 'arn:aws:s3:::bucket' },
    ],
  };
  expect((await world.client.put('/bucket?policy', { body: JSON.stringify(policy) })).status).toBe(204);
  for (let n = 0; n < 5; n += 1)
    expect((await world.bob.post('/bucket?delete', { body: deletion([`key ${n}`]) })).status).toBe(200);
  expect((await rowsOf(world, 'keyPrefix=key')).length).toBe(2);
});

test('a process that dies within a DeleteObjects leaves the names of the keys that it may have deleted', async () => {
  let isDead = false;
  const wrap = (context: Context): Context => {
    const apply: MetadataStore['apply'] = async (changes) => {
      if (isDead) throw new StoreUnavailable('dead');
      return context.metadata.apply(changes);
    };
    const commit: MetadataStore['commit'] = async (at, changes, options) => {
      if (at.table.name === 'objects' && changes.some((change) => !('put' in change))) isDead = true;
      return context.metadata.commit(at, changes, options);
    };
    return { ...context, metadata: faulty(context.metadata, { apply, commit }) };
  };
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  for (const key of ['one', 'two']) await world.client.put(`/bucket/${key}`, { body: key });
  await deleteKeys(world, ['one', 'two']);
  expect(isDead).toBe(true);
  const [row] = await rowsOf(world, 'key=two&action=DeleteObjects');
  expect(row?.keys).toEqual([{ key: 'one' }, { key: 'two' }]);
});

test('a search by key reads a bounded part of the log, and says how far back it came', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const now = world.context.clock.now();
  // Older than what one page reads: 240 hours.
  const hour = Math.floor(now / 3_600_000) - 300;
  const time = hour * 3_600_000;
  const old = { hour, slot: 0, time, id: 'OLD', action: 'PutObject', resource: 'bucket:bucket', key: 'old' };
  await world.context.metadata.apply([
    { at: { table: audit, in: { hour, slot: 0 } }, put: { ...old, status: 200, source: '' } },
  ]);
  const admin = operatorOf(world);
  let found: readonly unknown[] = [];
  let after: string | undefined;
  const reached: string[] = [];
  do {
    const page = await admin.must(
      'GET',
      `/audit?key=old${after === undefined ? '' : `&after=${encodeURIComponent(after)}`}`,
    );
    found = page['rows'] as readonly unknown[];
    after = page['next'] as string | undefined;
    if (after !== undefined) reached.push(page['searchedTo'] as string);
  } while (found.length === 0 && after !== undefined);
  expect(found).toHaveLength(1);
  expect(reached.length).toBeGreaterThan(0);
  expect(Date.parse(reached[0] ?? '')).toBeLessThan(now - 239 * 3_600_000);
});
