/**
 * Every operation of the operator API by callers that are no operators. Those that are open to them:
 * `handlers/admin-sessions`, `handlers/tenants`.
 */
import { describe, expect, test } from 'vitest';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { openGateway, operator, person } from '../support/gateway.ts';
import { auditRows, inShort } from '../support/recorded.ts';

const pathOf = (path: string): string => path.replace(/:\w+/g, 'bucket');

const forOperators = adminOperationNames.filter((name) => describeAdminOperation(name).callers === undefined);

test('only the operations on the caller’s own log-in, permissions, keys and MFA devices, and batches of reads and of questions that are authorized one by one, are open to others', () => {
  const open = adminOperationNames.filter((name) => !forOperators.includes(name));
  expect(open).toEqual([
    'LogIn',
    'GetSession',
    'LogOut',
    'CreateSessionCredentials',
    'BatchRead',
    'CheckPermissions',
    'ListOwnAccessKeys',
    'CreateOwnAccessKey',
    'PutOwnAccessKey',
    'DeleteOwnAccessKey',
    'ListOwnLogins',
    'RevokeOwnLogin',
    'ExplainDecisions',
    'ListOwnMfaDevices',
    'CreateOwnMfaDevice',
    'EnableOwnMfaDevice',
    'ResyncOwnMfaDevice',
    'DeleteOwnMfaDevice',
  ]);
});

describe.each(forOperators)('%s', (name) => {
  const { method, path, audited, tenants } = describeAdminOperation(name);

  test('is refused to roots, users of other accounts and anonymous callers, changes nothing, and is audited', async () => {
    const carol = person('carol');
    await using world = await openGateway({ people: [carol] });
    // What every account may read of its own is refused about another's.
    await (tenants === undefined ? world.client : world.as({ credential: carol })).put('/bucket');
    const stolen = world.as({ credential: { ...operator, secretKey: 'not the secret of the operator' } });
    for (const [client, status] of [
      [world.client, 403],
      [world.bob, 403],
      [world.anonymous, 403],
      [stolen, 403],
    ] as const) {
      const reply = await client.send(method, pathOf(path), method === 'GET' ? {} : { body: '{}' });
      expect(reply.status, reply.text).toBe(status);
    }
    const rows = (await auditRows(world.context)).map(inShort);
    const denied = rows.filter((row) => row.startsWith(`admin:${name} `));
    expect(denied.every((row) => / 403 /.test(row))).toBe(true);
    if (audited) expect(denied.length).toBeGreaterThanOrEqual(3);
    else expect(denied).toEqual([]);
  });
});
