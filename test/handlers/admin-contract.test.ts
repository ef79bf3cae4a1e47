/** What all operations of the operator API have in common: errors, methods, conditions, idempotency, and the document that describes them. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';
import { failedReplication } from '../../src/metadata/background/replication/failed.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/operations/admin.ts';
import { adminOpenApi } from '../../src/protocol/operations/openapi.ts';
import { openGateway, operator } from '../support/gateway.ts';
import type { Ask } from '../support/gateway-client.ts';

async function openAdmin() {
  const world = await openGateway();
  const client = world.as({ credential: operator });
  const send = async (
    method: string,
    path: string,
    { body, ...ask }: Omit<Ask, 'body'> & { body?: object } = {},
  ) => {
    const answer = await client.send(method, `/admin/v1${path}`, {
      ...ask,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { ...answer, json: answer.text === '' ? undefined : JSON.parse(answer.text) };
  };
  await world.client.put('/books');
  return { world, send, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const quota = { maxBytes: 1, maxObjects: 2, maxBytesPerObject: 3 };

describe('the operator API', () => {
  it('has one shape of error, which names the wrong field', async () => {
    await using admin = await openAdmin();
    const wrong: readonly (readonly [string, string, object, string, string])[] = [
      ['PUT', '/buckets/books/quota', { ...quota, maxBytes: -1 }, 'MalformedJSON', 'maxBytes'],
      ['PUT', '/buckets/books/quota', { ...quota, maxObjects: 1.5 }, 'MalformedJSON', 'maxObjects'],
      ['PUT', '/buckets/books/quota', { ...quota, maxBytes: 2 ** 53 }, 'MalformedJSON', 'maxBytes'],
      ['PUT', '/buckets/books/quota', { ...quota, other: 1 }, 'MalformedJSON', 'other'],
      ['PUT', '/buckets/books/quota', { maxBytes: 1, maxObjects: 1 }, 'MalformedJSON', 'maxBytesPerObject'],
      ['PUT', '/buckets/books/placement', { placement: { a: -1 } }, 'MalformedJSON', 'placement.a'],
      ['POST', '/clusters/x/undrain', { mode: 'now' }, 'MalformedJSON', 'mode'],
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
      ['/iam/users/someone/quota', { maxBuckets: 1, totalMaxBytes: 2 }, { maxBuckets: 3, totalMaxBytes: 4 }],
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

  it('of 16 writers with the same If-Match one succeeds', async () => {
    await using admin = await openAdmin();
    await admin.send('PUT', '/buckets/books/quota', { body: quota });
    const read = (await admin.send('GET', '/buckets/books/quota')).header('etag') ?? '';
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, n) =>
        admin.send('PUT', '/buckets/books/quota', {
          headers: { 'if-match': read },
          body: { ...quota, maxBytes: n + 9 },
        }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(15).fill(412)]);
  });

  it('gives a repeated Idempotency-Key the first answer, and refuses it with another request', async () => {
    await using admin = await openAdmin();
    const headers = { 'idempotency-key': 'once-1' };
    const start = (path: string, body: object = {}) => admin.send('POST', path, { headers, body });
    const first = await start('/fsck', { deep: true });
    expect(first.status).toBe(202);
    const second = await start('/fsck', { deep: true });
    expect([second.status, second.text, second.header('idempotency-replayed')]).toEqual([
      202,
      first.text,
      'true',
    ]);
    for (const other of [await start('/fsck', { deep: false }), await start('/buckets/books/force-empty')])
      expect([other.status, other.json.code]).toEqual([422, 'IdempotencyKeyReused']);
    // A refusal is not kept.
    const refused = { 'idempotency-key': 'once-2' };
    expect((await admin.send('POST', '/buckets/later/force-empty', { headers: refused })).status).toBe(404);
    await admin.world.client.put('/later');
    expect((await admin.send('POST', '/buckets/later/force-empty', { headers: refused })).status).toBe(202);
  });

  it('executes one of 8 concurrent requests with the same Idempotency-Key', async () => {
    await using admin = await openAdmin();
    const headers = { 'idempotency-key': 'race' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => admin.send('POST', '/buckets/books/force-empty', { headers })),
    );
    const executed = answers.filter(
      ({ status, header }) => status === 202 && header('idempotency-replayed') === undefined,
    );
    expect(executed).toHaveLength(1);
    for (const { status } of answers) expect([202, 409]).toContain(status);
  });

  it('keeps no secret for an Idempotency-Key, and takes the header on POST alone', async () => {
    await using admin = await openAdmin();
    const headers = { 'idempotency-key': 'k' };
    const pair = { accessKey: 'moved-from-elsewhere', secretKey: 'a-secret-of-elsewhere' };
    for (const [method, path, body] of [
      ['POST', '/buckets/books/signing-key/rotate', {}],
      ['POST', '/iam/users/carol/access-keys', pair],
      ['DELETE', '/buckets/books/quota', {}],
      ['GET', '/clusters', undefined],
    ] as const) {
      const { status, json } = await admin.send(method, path, {
        headers,
        ...(body === undefined ? {} : { body }),
      });
      expect([path, status, json.details.field]).toEqual([path, 400, 'Idempotency-Key']);
    }
    const long = await admin.send('POST', '/fsck', { headers: { 'idempotency-key': 'x'.repeat(256) } });
    expect(long.status).toBe(400);
  });

  it('takes an Idempotency-Key for no body with a secret: a hash of it would let the secret be guessed', () => {
    const withSecret = adminOperationNames
      .map((name) => ({ name, ...describeAdminOperation(name) }))
      .filter(({ body }) => /secret|password|token/i.test(Object.keys(body?.schema.properties ?? {}).join()));
    expect(withSecret.map(({ name }) => name).sort()).toEqual([
      'ImportAccessKey',
      'LogIn',
      'PutReplicationPeer',
    ]);
    for (const { name, repeatable } of withSecret) expect([name, repeatable]).toEqual([name, false]);
    for (const { method, path } of withSecret) {
      const at = path.replace(/:(\w+)/g, '{$1}');
      const described = JSON.stringify(adminOpenApi().paths[at]?.[method.toLowerCase()]);
      expect(described).not.toContain('Idempotency-Key');
    }
  });

  it('knows a repeated request by its decoded path', async () => {
    await using admin = await openAdmin();
    const headers = { 'idempotency-key': 'spelled' };
    const first = await admin.send('POST', '/buckets/books/force-empty', { headers });
    const second = await admin.send('POST', '/buckets/%62ooks/force-empty', { headers });
    expect([first.status, second.status, second.header('idempotency-replayed')]).toEqual([202, 202, 'true']);
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
      await admin.world.context.metadata.apply([failedReplication(row, { error: 'gone', now: 1_000 + n })]);
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

  it('serves an OpenAPI document that a validator accepts', async () => {
    await using admin = await openAdmin();
    const { status, json } = await admin.send('GET', '/openapi.json');
    expect([status, json]).toEqual([200, JSON.parse(JSON.stringify(adminOpenApi()))]);
    const { valid, errors } = await new Validator().validate(json);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });
});
