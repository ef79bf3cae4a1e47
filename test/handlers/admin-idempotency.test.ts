/** Idempotency-Key of the operator API: a repeated POST gets the first answer. */
import { describe, expect, it } from 'vitest';
import { countKeys, keysOfAccountMax, putAnswer } from '../../src/metadata/idempotency.ts';
import { adminOpenApi } from '../../src/protocol/admin/openapi.ts';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { openAdmin } from '../support/admin-world.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

describe('an Idempotency-Key', () => {
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

  it('keeps a limited number of Idempotency-Keys of an account, and says so', async () => {
    await using admin = await openAdmin();
    const { metadata, hasher } = admin.world.context;
    const expiresAt = (await metadata.now()) + 60_000;
    const seed = async (n: number) => {
      const row = { id: hasher.sha256Hex(`seeded ${n}`), request: 'seeded', status: 202, body: '' };
      await putAnswer(metadata, { row, account: operator.owner }, { expect: 'absent', expiresAt });
    };
    for (let n = 0; n < keysOfAccountMax - 1; n += 1) await seed(n);
    const start = (key: string, path = '/fsck') =>
      admin.send('POST', path, { headers: { 'idempotency-key': key }, body: {} });
    // A refusal is not kept, so it takes no room.
    expect((await start('refused', '/buckets/missing/force-empty')).status).toBe(404);
    const last = await start('last');
    expect(last.status).toBe(202);
    for (const path of ['/fsck', '/buckets/books/force-empty']) {
      const { status, json } = await start('one-too-many', path);
      expect([status, json]).toEqual([
        409,
        expect.objectContaining({
          code: 'LimitExceeded',
          message: expect.stringContaining(`${keysOfAccountMax} values of Idempotency-Key`),
          details: { field: 'Idempotency-Key' },
        }),
      ]);
    }
    // The refused key is not reserved, a kept one is answered as before, and a request without the header is taken.
    expect((await start('one-too-many')).json.code).toBe('LimitExceeded');
    expect([(await start('last')).text, (await start('last')).header('idempotency-replayed')]).toEqual([
      last.text,
      'true',
    ]);
    expect((await admin.send('POST', '/buckets/books/force-empty')).status).toBe(202);
    expect((await admin.send('GET', '/buckets/books/quota')).status).toBe(404);
  });

  it('forgets an Idempotency-Key after a day, and counts it no more', async () => {
    const clock = virtualClock();
    await using world = await openGateway({
      clock,
      wrap: (context) => ({
        ...context,
        metadata: faulty(context.metadata, { now: async () => clock.now() }),
      }),
    });
    const client = world.as({ credential: operator });
    await world.client.put('/books');
    const empty = () =>
      client.post('/admin/v1/buckets/books/force-empty', { headers: { 'idempotency-key': 'daily' } });
    expect((await empty()).header('idempotency-replayed')).toBeUndefined();
    await clock.advance(23 * 3_600_000);
    expect((await empty()).header('idempotency-replayed')).toBe('true');
    expect(await countKeys(world.context.metadata, operator.owner)).toBe(1);
    await clock.advance(2 * 3_600_000);
    expect(await countKeys(world.context.metadata, operator.owner)).toBe(0);
    const again = await empty();
    expect([again.status, again.header('idempotency-replayed')]).toEqual([202, undefined]);
    expect(await countKeys(world.context.metadata, operator.owner)).toBe(1);
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
      'CreateAccount',
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
});
