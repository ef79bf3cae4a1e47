/**
 * Every operation of the operator API by callers that are no operators. Those that are open to them:
 * `handlers/admin-sessions`, `handlers/tenants`.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { Credential } from '../../src/ports/credentials.ts';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { openActions } from '../support/actions.ts';
import { openGateway, operator, person } from '../support/gateway.ts';
import { allow, must, openUser } from '../support/iam-users.ts';
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

/** By method and path below `accounts`. */
type Asked = readonly [method: string, path: string, status: number, body?: object];

test('policies that allow every operation give an operator no key of the root of the operators’ account, and no change of one', async () => {
  await using world = await openGateway();
  const { owner } = operator;
  const made = await must(openActions(world, { credential: operator })('CreateAccessKey', {}));
  const accessKey = made.one('AccessKeyId') ?? '';
  const { credential } = await openUser(world, 'clerk', { root: operator, policy: allow('admin:*') });
  const send = (by: Credential, [method, path, , body]: Asked) =>
    world
      .as({ credential: by })
      .send(method, `/admin/v1/accounts${path}`, body === undefined ? {} : { body: JSON.stringify(body) });
  const keys = [{ accessKey: 'A-KEY-OF-ITS-OWN', secretKey: 'a-secret-of-its-own', status: 'Active' }];
  const asked: readonly Asked[] = [
    ['PUT', `/${owner}/root-keys/${accessKey}`, 204, { status: 'Inactive' }],
    ['POST', `/${owner}/export-secrets`, 200, { accessKeys: [accessKey] }],
    ['DELETE', `/${owner}/root-keys/${accessKey}`, 204],
    ['POST', `/${owner}/import`, 200, { records: [{ kind: 'account', name: owner, keys }] }],
    ['POST', `/${owner}/root-keys`, 200],
  ];
  for (const each of asked) {
    const { status, text } = await send(credential, each);
    expect([each[1], status, text]).toEqual([each[1], 403, expect.stringContaining('SVC_CREDENTIALS')]);
  }
  for (const each of asked)
    expect([each[1], (await send(operator, each)).status]).toEqual([each[1], each[2]]);
  expect((await send(credential, ['POST', '', 200, { account: 'carol' }])).status).toBe(200);
  expect((await send(credential, ['POST', '/carol/root-keys', 200])).status).toBe(200);
});

test('each operation that changes an account, or shows secrets of it, is one that operators.md names as worth all, or harmless to operators', () => {
  const page = readFileSync(new URL('../../docs/operations/operators.md', import.meta.url), 'utf8');
  const paragraph = page.split('\n\n').find((each) => each.includes('amount to all of them')) ?? '';
  const named = [...paragraph.matchAll(/`admin:([\w*]+)`/g)].map(([, name = '']) => name);
  const patterns = named.map((name) => new RegExp(`^${name.replaceAll('*', '.*')}$`));
  const rest = forOperators.filter((name) => {
    const { method, path } = describeAdminOperation(name);
    return (
      method !== 'GET' && /\/(?:accounts|iam)\b/.test(path) && !patterns.some((pattern) => pattern.test(name))
    );
  });
  // Operators' accounts are neither made, suspended nor deleted at run time; quotas and limits give nothing.
  expect(rest).toEqual([
    'CreateAccount',
    'PutAccount',
    'DeleteAccount',
    'PutUserQuota',
    'DeleteUserQuota',
    'PutAccountLimit',
    'DeleteAccountLimit',
  ]);
});
