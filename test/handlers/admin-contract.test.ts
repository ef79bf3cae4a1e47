/** What all operations of the operator API have in common: errors, methods, conditions, pages, and the document that describes them. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';
import { createGroup } from '../../src/domain/iam/groups.ts';
import { type AdminHandler, jsonReply } from '../../src/handlers/admin/call.ts';
import { failedReplication } from '../../src/metadata/background/replication.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import { adminOpenApi } from '../../src/protocol/admin/openapi.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../src/protocol/admin/operations.ts';
import { openAdmin } from '../support/admin-world.ts';
import { alice, operator } from '../support/gateway.ts';

const peer = { endpoint: 'http://192.0.2.1:9', accessKey: 'abc', secretKey: 'abcdefgh' };
const quota = { maxBytes: 1, maxObjects: 2, maxBytesPerObject: 3 };

describe('the operator API', () => {
  it('has one shape of error, which names the wrong field', async () => {
    await using admin = await openAdmin();
    const wrong: readonly (readonly [string, string, object, string, string])[] = [
      ['PUT', '/buckets/books/quota', { ...quota, maxBytes: -1 }, 'MalformedJSON', 'maxBytes'],
      ['PUT', '/buckets/books/quota', { ...quota, maxObjects: 1.5 }, 'MalformedJSON', 'maxObjects'],
      ['PUT', '/buckets/books/quota', { ...quota, maxBytes: 2 ** 53 }, 'MalformedJSON', 'maxBytes'],
      ['PUT', '/buckets/books/quota', { ...quota, other: 1 }, 'MalformedJSON', 'other'],
      ['PUT', '/buckets/books/quota', { maxBytes: '1 TB' }, 'MalformedJSON', 'maxBytes'],
      ['PUT', '/buckets/books/placement', { placement: { a: -1 } }, 'MalformedJSON', 'placement.a'],
      ['POST', '/clusters/x/undrain', { mode: 'now' }, 'MalformedJSON', 'mode'],
      ['PUT', '/buckets/books/placement', { placement: { none: 1 } }, 'InvalidArgument', 'placement.none'],
      ['PUT', '/buckets/books/placement', { placement: {} }, 'InvalidArgument', 'placement'],
      ['POST', '/buckets/books/reshard', { shards: 3 }, 'InvalidArgument', 'shards'],
      ['POST', '/buckets/books/reshard', { shards: 1 }, 'InvalidArgument', 'shards'],
      ['PUT', '/replication/peers/A', peer, 'InvalidArgument', 'id'],
      [
        'PUT',
        '/replication/peers/a',
        { ...peer, cert: '-----BEGIN CERTIFICATE-----\n' },
        'MalformedJSON',
        'key',
      ],
      [
        'POST',
        '/replication/resync/books',
        { since: '2026-01-02T00:00:00Z', until: '2026-01-01T00:00:00Z' },
        'InvalidRequest',
        'since',
      ],
      ['POST', '/notify/discard', { since: '2026-02-28T25:00:00Z' }, 'InvalidArgument', 'since'],
      ['POST', '/notify/discard', { until: '2026-02-31T12:00:00Z' }, 'InvalidArgument', 'until'],
      ['POST', '/replication/resync/books', { since: '2025-02-29T12:00:00Z' }, 'InvalidArgument', 'since'],
    ];
    for (const [method, path, body, code, field] of wrong) {
      const { status, json, header } = await admin.send(method, path, { body });
      expect([status, json]).toEqual([
        400,
        { code, message: expect.any(String), request_id: header('*-request-id'), details: { field } },
      ]);
    }
    const queries = [
      ['/buckets/books/usage?limit=0', 'limit'],
      ['/buckets/books/usage?limit=1.5', 'limit'],
      ['/buckets/books/usage?start=yesterday', 'start'],
      ['/buckets/books/usage?unknown=1', 'unknown'],
      ['/usage/export', 'day'],
      ['/usage/export?day=2026-02-31', 'day'],
      ['/usage/export?day=2026-01-01&format=xml', 'format'],
    ] as const;
    for (const [path, field] of queries) {
      const { status, json } = await admin.send('GET', path);
      expect([path, status, json.code, json.details.field]).toEqual([path, 400, 'InvalidArgument', field]);
    }
    const missing = await admin.send('GET', '/buckets/books/quota');
    expect([missing.status, missing.json.code, missing.json.details]).toEqual([
      404,
      'NoSuchBucketQuota',
      { bucketName: 'books' },
    ]);
  });

  it('answers an unknown route with 404, and a wrong method with 405 and the methods that exist', async () => {
    await using admin = await openAdmin();
    const unknown = await admin.send('GET', '/nothing/here');
    expect([unknown.status, unknown.json.code]).toEqual([404, 'NotFound']);
    const wrong = await admin.send('POST', '/buckets/books/quota', { body: quota });
    expect([wrong.status, wrong.json.code, wrong.header('allow')]).toEqual([
      405,
      'MethodNotAllowed',
      'HEAD, GET, PUT, DELETE',
    ]);
    expect((await admin.send('HEAD', '/clusters')).status).toBe(200);
  });

  it('changes a configuration under If-Match only while it is what the client has read', async () => {
    await using admin = await openAdmin();
    const write = (method: string, path: string, headers: Record<string, string>, body?: object) =>
      admin
        .send(method, path, { headers, ...(body === undefined ? {} : { body }) })
        .then(({ status }) => status);
    const cases = [
      ['/buckets/books/quota', quota, { ...quota, maxBytes: 9 }],
      [
        `/iam/users/${alice.owner}/quota`,
        { maxBuckets: 1, totalMaxBytes: 2 },
        { maxBuckets: 3, totalMaxBytes: 4 },
      ],
      ['/buckets/books/placement', { placement: { default: 1 } }, { placement: { default: 2 } }],
      [
        '/replication/peers/far',
        { endpoint: 'http://192.0.2.1:9', accessKey: 'abc', secretKey: 'abcdefgh' },
        { endpoint: 'http://192.0.2.2:9', accessKey: 'abc', secretKey: 'abcdefgh' },
      ],
    ] as const;
    const clusters = await admin.send('GET', '/clusters');
    const id = clusters.json.clusters[0].id;
    for (const [path, first, second] of cases) {
      const rename = (body: object) =>
        JSON.parse(JSON.stringify(body).replace('"default"', JSON.stringify(id)));
      expect([path, await write('PUT', path, { 'if-match': '*' }, rename(first))]).toEqual([path, 412]);
      expect(await write('PUT', path, { 'if-none-match': '*' }, rename(first))).toBeLessThan(300);
      expect(await write('PUT', path, { 'if-none-match': '*' }, rename(first))).toBe(412);
      const read = (await admin.send('GET', path)).header('etag') ?? '';
      expect(read).toMatch(/^"[0-9a-f]{32}"$/);
      expect(await write('PUT', path, { 'if-match': read }, rename(second))).toBeLessThan(300);
      // The state that the client has read is gone.
      expect(await write('PUT', path, { 'if-match': read }, rename(first))).toBe(412);
      expect(await write('DELETE', path, { 'if-match': read })).toBe(412);
      expect((await admin.send('GET', path)).status).toBe(200);
      const now = (await admin.send('GET', path)).header('etag') ?? '';
      expect(await write('DELETE', path, { 'if-match': now })).toBe(204);
      expect((await admin.send('GET', path)).status).toBe(404);
    }
    expect(await write('POST', '/buckets/books/force-empty', { 'if-match': '"x"' })).toBe(400);
  });

  it('changes a default class and a cluster under If-Match only while they are what the client has read', async () => {
    await using admin = await openAdmin();
    const id = (await admin.send('GET', '/clusters')).json.clusters[0].id;
    const cluster = `/clusters/${id}`;
    const defaultClass = '/buckets/books/default-class';
    // These always exist, so If-Match: * holds and If-None-Match: * does not. Each write changes the state.
    const cases: readonly (readonly [string, string, string, object?])[] = [
      [defaultClass, 'PUT', defaultClass, { defaultClass: 'STANDARD_IA' }],
      [defaultClass, 'DELETE', defaultClass],
      [cluster, 'PUT', `${cluster}/weight`, { weight: 7 }],
      [cluster, 'POST', `${cluster}/drain`, { mode: 'readonly' }],
      [cluster, 'POST', `${cluster}/undrain`],
    ];
    const read = async (path: string) => {
      const { text, header } = await admin.send('GET', path);
      return { text, etag: header('etag') ?? '' };
    };
    for (const [shown, method, path, body] of cases) {
      const write = async (headers: Record<string, string>) =>
        (await admin.send(method, path, { headers, ...(body === undefined ? {} : { body }) })).status;
      const before = await read(shown);
      expect([path, before.etag]).toEqual([path, expect.stringMatching(/^"[0-9a-f]{32}"$/)]);
      for (const wrong of [{ 'if-match': '"x"' }, { 'if-none-match': '*' }])
        expect([path, await write(wrong)]).toEqual([path, 412]);
      for (const malformed of [{ 'if-none-match': before.etag }, { 'if-match': '*', 'if-none-match': '*' }])
        expect([path, await write(malformed)]).toEqual([path, 400]);
      expect(await read(shown)).toEqual(before);
      expect([path, await write({ 'if-match': `"x", ${before.etag}` })]).toEqual([
        path,
        method === 'DELETE' ? 204 : 200,
      ]);
      const after = await read(shown);
      expect(after.etag).not.toBe(before.etag);
      // The state that the client has read is gone.
      expect([path, await write({ 'if-match': before.etag })]).toEqual([path, 412]);
      expect(await read(shown)).toEqual(after);
    }
    expect(
      (
        await admin.send('PUT', '/clusters/none/weight', {
          headers: { 'if-match': '*' },
          body: { weight: 1 },
        })
      ).status,
    ).toBe(404);
  });

  it('of 16 writers with the same If-Match one succeeds', async () => {
    await using admin = await openAdmin();
    await admin.send('PUT', '/buckets/books/quota', { body: quota });
    const cluster = `/clusters/${(await admin.send('GET', '/clusters')).json.clusters[0].id}`;
    const cases: readonly (readonly [string, string, (n: number) => object])[] = [
      ['/buckets/books/quota', '/buckets/books/quota', (n) => ({ ...quota, maxBytes: n + 9 })],
      [
        '/buckets/books/default-class',
        '/buckets/books/default-class',
        (n) => ({ defaultClass: n % 2 === 0 ? 'STANDARD_IA' : 'GLACIER_IR' }),
      ],
      [cluster, `${cluster}/weight`, (n) => ({ weight: n + 9 })],
    ];
    for (const [shown, path, bodyOf] of cases) {
      const read = (await admin.send('GET', shown)).header('etag') ?? '';
      const answers = await Promise.all(
        Array.from({ length: 16 }, (_, n) =>
          admin.send('PUT', path, { headers: { 'if-match': read }, body: bodyOf(n) }),
        ),
      );
      const statuses = answers.map(({ status }) => status);
      expect([path, statuses.filter((status) => status < 300)]).toEqual([path, [expect.any(Number)]]);
      expect([path, statuses.filter((status) => status === 412)]).toEqual([path, Array(15).fill(412)]);
    }
  });

  it('has the same parameters in every list with pages, and describes how long a page is unless the request says', async () => {
    await using admin = await openAdmin();
    const lists = adminOperationNames
      .map((name) => ({ name, ...describeAdminOperation(name) }))
      .filter(({ reply }) => reply?.schema.properties?.['next'] !== undefined);
    expect(lists.length).toBeGreaterThan(14);
    for (const { name, query } of lists.filter(({ name }) => name !== 'GetDrainImpact'))
      expect([name, Object.keys(query)]).toEqual([name, expect.arrayContaining(['limit', 'after'])]);
    const described = (name: AdminOperationName) =>
      describeAdminOperation(name).query['limit']?.schema.description;
    expect(described('ListIamGroups')).toBe('Entries of a page; 1,000 unless given.');
    expect(described('ListBuckets')).toBe('Entries of a page; 100 unless given.');
    const { context } = admin.world;
    for (let n = 0; n < 101; n += 1) {
      await createGroup(context, operator.owner, { name: `group-${n}`, path: '/' });
      await admin.world.client.put(`/bucket-${n}`);
    }
    const page = async (path: string) => {
      const { rows, next } = (await admin.send('GET', path)).json;
      return [rows.length, typeof next];
    };
    expect(await page(`/accounts/${operator.owner}/groups`)).toEqual([101, 'undefined']);
    expect(await page('/buckets')).toEqual([100, 'string']);
    for (const path of ['/buckets', `/accounts/${operator.owner}/groups`]) {
      expect(await page(`${path}?limit=7`)).toEqual([7, 'string']);
      for (const limit of ['0', '1001', 'x', ''])
        expect((await admin.send('GET', `${path}?limit=${limit}`)).json).toMatchObject({
          code: 'InvalidArgument',
          details: { field: 'limit' },
        });
    }
  });

  it('lists replications that were given up in pages, each once', async () => {
    await using admin = await openAdmin();
    const destination = { Bucket: 'arn:aws:s3:::far' };
    for (let n = 0; n < 7; n += 1) {
      const task = { bucket: 'books', key: `key-${n}`, version: '0'.repeat(32), isNull: false, destination };
      const row = {
        slot: 0,
        id: `id-${n}`,
        requestId: 'r',
        attempts: 1,
        due: n,
        task,
      } as unknown as QueueRow;
      const failure = { error: 'gone', now: 1_000 + n, expiresAt: Date.now() + 60_000 };
      await admin.world.context.metadata.apply(failedReplication(row, failure));
    }
    const seen: string[] = [];
    let after = '';
    do {
      const { json } = await admin.send('GET', `/replication/failed?limit=3${after}`);
      expect(json.failed.length).toBeLessThanOrEqual(3);
      seen.push(...json.failed.map(({ id }: { id: string }) => id));
      after = json.next === undefined ? '' : `&after=${encodeURIComponent(json.next)}`;
    } while (after !== '');
    expect(seen.sort()).toEqual(Array.from({ length: 7 }, (_, n) => `id-${n}`));
    expect((await admin.send('GET', '/replication/failed?after=x')).json.details).toEqual({ field: 'after' });
  });

  it('has no handler whose reply differs from its row: it does not compile', () => {
    const right: AdminHandler<'GetLogLevel'> = async () => jsonReply({ level: 'INFO' });
    // @ts-expect-error: the row has no such level.
    const wrong: AdminHandler<'GetLogLevel'> = async () => jsonReply({ level: 'LOUD' });
    // @ts-expect-error: the reply has a level.
    const empty: AdminHandler<'GetLogLevel'> = async () => jsonReply({});
    // @ts-expect-error: the row has no reply.
    const full: AdminHandler<'DeleteBucketQuota'> = async () => jsonReply({ level: 'INFO' });
    expect([right, wrong, empty, full]).toHaveLength(4);
  });

  it('serves an OpenAPI document that a validator accepts', async () => {
    await using admin = await openAdmin();
    const { status, json } = await admin.send('GET', '/openapi.json');
    expect([status, json]).toEqual([200, JSON.parse(JSON.stringify(adminOpenApi()))]);
    const { valid, errors } = await new Validator().validate(json);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });
});
