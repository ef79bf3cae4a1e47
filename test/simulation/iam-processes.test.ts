/** Two processes over one data directory use the same users, keys, policies and sessions, from one request to the next. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allow, trusting } from '../support/iam-users.ts';
import { type Answer, elements, type Keys, type LoadClient, loadClient } from '../support/load-client.ts';
import { type Two, two } from './two.ts';

const turns = 20;

let world: Two;
let here: LoadClient;
let there: LoadClient;
const open: LoadClient[] = [];
beforeAll(async () => {
  world = await two('two servers');
  [here, there] = [world.a, world.b];
  await here.expect({ method: 'PUT', path: '/bucket' });
});
afterAll(async () => {
  for (const client of open) client.close();
  await world?.close();
});

const act = (client: LoadClient, Action: string, parameters: Record<string, string> = {}): Promise<Answer> =>
  client.send({ method: 'POST', path: '/', query: { Action, ...parameters } });
const must = async (client: LoadClient, Action: string, parameters: Record<string, string> = {}) => {
  const answer = await act(client, Action, parameters);
  if (answer.status !== 200) throw new Error(`${Action}: ${answer.status} ${answer.text}`);
  return answer.text;
};
const codeOf = ({ text }: Answer): string => elements(text, 'Code')[0] ?? '';
const keysIn = (text: string): Keys => ({
  accessKey: elements(text, 'AccessKeyId')[0] ?? '',
  secretKey: elements(text, 'SecretAccessKey')[0] ?? '',
});

/** A client of each process, with the same access key. */
function both(keys: Keys): readonly [LoadClient, LoadClient] {
  const clients = world.servers.map(({ url }) => loadClient(url, keys, 1));
  open.push(...clients);
  return clients as [LoadClient, LoadClient];
}

test('a key that one process makes inactive signs at the other no more, and signs again', async () => {
  await must(here, 'CreateUser', { UserName: 'carol' });
  const keys = keysIn(await must(here, 'CreateAccessKey', { UserName: 'carol' }));
  const clients = both(keys);
  for (let turn = 0; turn < turns; turn += 1) {
    const isActive = turn % 2 === 1;
    const [change, other] = turn % 4 < 2 ? [here, clients[1]] : [there, clients[0]];
    const Status = isActive ? 'Active' : 'Inactive';
    await must(change, 'UpdateAccessKey', { UserName: 'carol', AccessKeyId: keys.accessKey, Status });
    for (const client of [other, ...clients]) {
      const answer = await act(client, 'GetCallerIdentity');
      expect([answer.status, codeOf(answer)]).toEqual(isActive ? [200, ''] : [403, 'InvalidClientTokenId']);
    }
  }
});

test('a policy that one process puts or deletes is obeyed by the other immediately', async () => {
  await must(here, 'CreateUser', { UserName: 'dave' });
  const clients = both(keysIn(await must(here, 'CreateAccessKey', { UserName: 'dave' })));
  const named = { UserName: 'dave', PolicyName: 'p' };
  for (let turn = 0; turn < turns; turn += 1) {
    const isAllowed = turn % 2 === 0;
    const [change, other] = turn % 4 < 2 ? [here, clients[1]] : [there, clients[0]];
    if (isAllowed) await must(change, 'PutUserPolicy', { ...named, PolicyDocument: allow('s3:ListBucket') });
    else await must(change, 'DeleteUserPolicy', named);
    const { status } = await other.send({ path: '/bucket' });
    expect(status).toBe(isAllowed ? 200 : 403);
  }
});

test('a session that one process issued is valid at the other, and ends there with its role', async () => {
  const AssumeRolePolicyDocument = trusting({ AWS: 'root-account' });
  await must(here, 'CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument });
  const PolicyDocument = allow('s3:ListBucket');
  await must(there, 'PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument });
  const RoleArn = 'arn:aws:iam::root-account:role/reader';
  const given = await must(here, 'AssumeRole', { RoleArn, RoleSessionName: 'session' });
  const headers = { '*-security-token': elements(given, 'SessionToken')[0] ?? '' };
  const clients = both(keysIn(given));
  for (const client of clients) await client.expect({ path: '/bucket', headers });
  await must(here, 'DeleteRolePolicy', { RoleName: 'reader', PolicyName: 'p' });
  await must(here, 'DeleteRole', { RoleName: 'reader' });
  for (const client of [...clients].reverse())
    expect(codeOf(await client.send({ path: '/bucket', headers }))).toBe('InvalidToken');
});

test('of concurrent creations at both processes one succeeds, and no limit is exceeded', async () => {
  const clients = world.clients;
  for (let race = 0; race < 5; race += 1) {
    const UserName = `user-${race}`;
    const made = await Promise.all(clients.map((client) => act(client, 'CreateUser', { UserName })));
    expect(made.filter(({ status }) => status === 200)).toHaveLength(1);
    const keys = await Promise.all(clients.map((client) => act(client, 'CreateAccessKey', { UserName })));
    expect(keys.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(new Set(keys.map(codeOf))).toEqual(new Set(['', 'LimitExceeded']));
  }
  const summary = await must(there, 'GetAccountSummary');
  expect(summary).toContain('<key>Users</key><value>7</value>');
});
