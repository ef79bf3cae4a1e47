/** BatchRead: several reads of the operator API in one request, each authorized by itself. */
import { describe, expect, test } from 'vitest';
import {
  adminOperationNames,
  describeAdminOperation,
  isBatchable,
} from '../../src/protocol/admin/operations.ts';
import { openAdmin } from '../support/admin-world.ts';
import { alice, operator } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { openUser } from '../support/iam-users.ts';

interface Line {
  readonly index: number;
  readonly status: number;
  readonly etag?: string;
  readonly reply?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string; readonly message: string; readonly details: object };
}

const linesOf = (text: string): readonly Line[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
    .sort((one, other) => one.index - other.index);

async function openBatch() {
  const admin = await openAdmin();
  const as = async (client: Client, ...reads: readonly object[]) => {
    const answer = await client.send('POST', '/admin/v1/batch', { body: JSON.stringify({ reads }) });
    return { ...answer, lines: answer.status === 200 ? linesOf(answer.text) : [] };
  };
  return {
    ...admin,
    as,
    read: (...reads: readonly object[]) => as(admin.world.as({ credential: operator }), ...reads),
  };
}

const allBut = (Action: readonly string[], Resource = '*') =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
      { Effect: 'Deny', Action, Resource },
    ],
  });

describe('BatchRead', () => {
  test('answers each part as its own operation does, with its ETag', async () => {
    await using batch = await openBatch();
    await batch.send('PUT', '/buckets/books/quota', { body: { maxBytes: 5, maxObjects: 6 } });
    const { lines, header } = await batch.read(
      { operation: 'ListClusters' },
      { operation: 'GetBucketQuota', path: { name: 'books' } },
      { operation: 'ListBuckets', query: { prefix: 'bo', limit: '1' } },
      { operation: 'CheckPermissions', body: { questions: [{ action: 'admin:ListClusters' }] } },
    );
    expect(header('content-type')).toBe('application/x-ndjson');
    const alone = [
      await batch.send('GET', '/clusters'),
      await batch.send('GET', '/buckets/books/quota'),
      await batch.send('GET', '/buckets?prefix=bo&limit=1'),
      { json: { answers: [{ allowed: true }] } },
    ];
    expect(lines.map(({ reply }) => reply)).toEqual(alone.map(({ json }) => json));
    expect(lines.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(lines[1]?.etag).toBe((await batch.send('GET', '/buckets/books/quota')).header('etag'));
  });

  test('an answer that the client has already is not sent again', async () => {
    await using batch = await openBatch();
    const list = { operation: 'ListBuckets', query: { prefix: '' } };
    const etag = (await batch.read(list)).lines[0]?.etag;
    expect((await batch.read({ ...list, etag })).lines).toEqual([{ index: 0, status: 304, etag }]);
    await batch.world.client.put('/more');
    const [changed] = (await batch.read({ ...list, etag })).lines;
    expect([changed?.status, changed?.etag === etag]).toEqual([200, false]);
  });

  test('a part that is refused, or wrong, is refused as by itself, and the others are answered', async () => {
    await using batch = await openBatch();
    const { lines, header } = await batch.read(
      { operation: 'GetBucketQuota', path: { name: 'none' } },
      { operation: 'GetBucketQuota' },
      { operation: 'GetBucketQuota', path: { name: '..' } },
      { operation: 'GetBucketQuota', path: { name: 'a/b' } },
      { operation: 'GetBucketQuota', path: { name: 'books', other: 'x' } },
      { operation: 'ListBuckets', query: { limit: '0' } },
      { operation: 'ListBuckets', query: { unknown: '1' } },
      { operation: 'CheckPermissions', body: { questions: 1 } },
      { operation: 'ListClusters' },
    );
    const alone = await batch.send('GET', '/buckets/none/quota');
    expect(lines[0]).toEqual({
      index: 0,
      status: 404,
      error: { ...alone.json, request_id: header('*-request-id') },
    });
    const code = (line: Line) => [line.status, line.error?.code, line.error?.details];
    expect(lines.slice(1).map(code)).toEqual([
      [400, 'InvalidArgument', { field: 'name' }],
      [400, 'InvalidArgument', { field: 'name' }],
      [400, 'InvalidArgument', { field: 'name' }],
      [400, 'InvalidArgument', { field: 'other' }],
      [400, 'InvalidArgument', { field: 'limit' }],
      [400, 'InvalidArgument', { field: 'unknown' }],
      [400, 'MalformedJSON', { field: 'questions' }],
      [200, undefined, undefined],
    ]);
  });

  test('performs nothing that changes, is audited, has a secret, or is no operation', async () => {
    await using batch = await openBatch();
    const others = adminOperationNames.filter((name) => !isBatchable(name));
    for (const name of others) {
      const row = describeAdminOperation(name);
      const path = Object.fromEntries(row.parameters.map((each) => [each, 'books']));
      const { lines } = await batch.read({ operation: name, path });
      expect([name, lines[0]?.status, lines[0]?.error?.code]).toEqual([name, 400, 'InvalidArgument']);
    }
    for (const name of ['constructor', '', 'ListBucket']) {
      const { lines } = await batch.read({ operation: name });
      expect([name, lines[0]?.status]).toEqual([name, 400]);
    }
    expect((await batch.send('GET', '/buckets/books')).status).toBe(200);
  });

  test('authorizes each part by its own name and path, for the caller of the batch', async () => {
    await using batch = await openBatch();
    const { world } = batch;
    const reads = [
      { operation: 'ListClusters' },
      { operation: 'GetBucket', path: { name: 'books' } },
      { operation: 'ListAccounts' },
    ];
    const policy = allBut(['admin:ListClusters', 'admin:GetBucket', 'admin:BatchRead']);
    const restricted = await openUser(world, 'restricted', { root: operator, policy });
    const codes = (lines: readonly Line[]) => lines.map(({ status, error }) => error?.code ?? status);
    const own = await batch.as(world.as(restricted), ...reads);
    expect(codes(own.lines)).toEqual(['AccessDenied', 'AccessDenied', 200]);
    // A Deny of BatchRead itself refuses nothing: what a caller may read alone, it may read in a batch.
    const tenant = await batch.as(world.as({ credential: alice }), ...reads);
    expect(codes(tenant.lines)).toEqual(['AccessDenied', 200, 'AccessDenied']);
    const stranger = await batch.as(world.bob, ...reads);
    expect(codes(stranger.lines)).toEqual(['AccessDenied', 'AccessDenied', 'AccessDenied']);
    expect((await batch.as(world.anonymous, ...reads)).status).toBe(403);
  });

  test('refuses every operation of operators to the root of another account', async () => {
    await using batch = await openBatch();
    const own = adminOperationNames.filter((name) => {
      const { callers, tenants } = describeAdminOperation(name);
      return isBatchable(name) && callers === undefined && tenants === undefined;
    });
    expect(own.length).toBeGreaterThan(20);
    for (const name of own) {
      const { parameters } = describeAdminOperation(name);
      const path = Object.fromEntries(parameters.map((each) => [each, 'books']));
      const { lines } = await batch.as(batch.world.as({ credential: alice }), { operation: name, path });
      expect([name, lines[0]?.status]).toEqual([name, 403]);
    }
  });

  test('leaves entries out of a list as the list itself does', async () => {
    await using batch = await openBatch();
    const { world } = batch;
    await world.client.put('/hidden');
    const policy = allBut(['admin:ListBuckets'], 'arn:aws:admin:::buckets/hidden');
    const user = await openUser(world, 'half-blind', { root: operator, policy });
    const { lines } = await batch.as(world.as(user), { operation: 'ListBuckets' });
    const alone = JSON.parse((await world.as(user).get('/admin/v1/buckets')).text);
    expect(lines[0]?.reply).toEqual(alone);
    expect(JSON.stringify(alone)).not.toContain('hidden');
  });

  test('takes at most 32 parts, and no Idempotency-Key', async () => {
    await using batch = await openBatch();
    const many = (count: number) => Array.from({ length: count }, () => ({ operation: 'ListClusters' }));
    expect((await batch.read(...many(32))).lines.map(({ status }) => status)).toEqual(
      Array.from({ length: 32 }, () => 200),
    );
    expect((await batch.read(...many(33))).status).toBe(400);
    expect((await batch.read()).status).toBe(400);
    const keyed = await batch.send('POST', '/batch', {
      body: { reads: many(1) },
      headers: { 'idempotency-key': 'x' },
    });
    expect([keyed.status, keyed.json.code]).toEqual([400, 'InvalidArgument']);
  });
});
