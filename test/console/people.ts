/** What operators do before a page is looked at: users with narrow policies for tests of what pages offer to whom, and paused workers. */
import { expect } from 'vitest';
import type { TestServer } from '../support/server.ts';
import { send } from './seeds.ts';
import type { Pair } from './world.ts';

const json = { 'content-type': 'application/json' };

/** A user of an account with one managed policy, and its access key. Default: of the operators' account. */
export async function openUser(
  server: TestServer,
  name: string,
  {
    account = 'root-account',
    actions = [],
    statements = [{ Effect: 'Allow', Action: actions, Resource: '*' }],
  }: {
    readonly account?: string;
    readonly actions?: readonly string[];
    readonly statements?: readonly object[];
  },
): Promise<Pair> {
  const post = (path: string, body: object) =>
    send(server, 'POST', `/admin/v1/accounts/${account}${path}`, {
      body: JSON.stringify(body),
      headers: json,
    });
  await post('/users', { name });
  const document = JSON.stringify({
    Version: '2012-10-17',
    Statement: statements,
  });
  const policy = (await (await post('/policies', { name: `of-${name}`, document })).json()) as {
    readonly arn: string;
  };
  await post('/attachments', { kind: 'user', name, policy: policy.arn });
  return (await (await post(`/users/${name}/access-keys`, {})).json()) as Pair;
}

/** Pauses a worker and waits until it has ended, because a process reads what operators ask every two seconds. */
export async function pauseWorker(server: TestServer, worker: string, reason: string): Promise<void> {
  await send(server, 'POST', `/admin/v1/workers/${worker}/pause`, { body: JSON.stringify({ reason }) });
  const findState = async () => {
    const listed = await send(server, 'GET', '/admin/v1/workers');
    const { workers } = (await listed.json()) as { workers: { worker: string; state: string }[] };
    return workers.find((found) => found.worker === worker)?.state;
  };
  await expect.poll(findState, { timeout: 60_000 }).toBe('paused');
}
