/** Access to an account whose keys left the settings, and that has no profile. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway, person } from '../support/gateway.ts';
import { allow, assume, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';

test('an account that left the settings is refused with its users, keys and sessions until it is adopted', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-accounts-'));
  const settings = { SVC_META_BACKEND: 'embedded', SVC_DATA_DIR: directory };
  const carol = person('carol');
  const openUsers = async (world: GatewayWorld) => {
    const root = world.as({ credential: carol });
    await root.put('/of-carol');
    const dan = await openUser(world, 'dan', { root: carol, policy: allow('s3:*', 'sts:*') });
    const token = sessionOf(world, await must(dan.act('GetSessionToken', {})));
    const ofAlice = openActions(world);
    const AssumeRolePolicyDocument = trusting({ AWS: carol.owner });
    const role = await must(ofAlice('CreateRole', { RoleName: 'guest', AssumeRolePolicyDocument }));
    const guest = await assume(world, dan.act, { role: role.one('Arn') ?? '' });
    return [{ credential: dan.credential }, token.options, guest.options] as const;
  };
  const codes = (world: GatewayWorld, callers: Awaited<ReturnType<typeof openUsers>>) =>
    Promise.all(
      callers.map(async (options) => (await openActions(world, options)('GetCallerIdentity', {})).code),
    );
  try {
    let callers: Awaited<ReturnType<typeof openUsers>>;
    {
      await using world = await openGateway({ settings, people: [carol] });
      callers = await openUsers(world);
      expect(await codes(world, callers)).toEqual(['', '', '']);
    }
    {
      await using world = await openGateway({ settings });
      const admin = operatorOf(world);
      const refused = ['InvalidClientTokenId', 'AccountProblem', 'AccountProblem'];
      expect(await codes(world, callers)).toEqual(refused);
      expect((await admin.ask('GET', `/accounts/${carol.owner}`)).status).toBe(404);
      const { status, json } = await admin.ask('POST', '/accounts', { account: carol.owner });
      expect([status, json['error'] ?? json]).toEqual([
        409,
        expect.objectContaining({ code: 'EntityAlreadyExists' }),
      ]);
      const records = [{ kind: 'account', name: carol.owner }];
      const imported = await admin.must('POST', `/accounts/${carol.owner}/import`, { records });
      expect(imported['rows']).toMatchObject([{ outcome: 'conflict' }]);
      expect(await codes(world, callers)).toEqual(refused);
      await admin.must('POST', '/accounts', { account: carol.owner, adopt: true });
      expect(await codes(world, callers)).toEqual(['', '', '']);
      await admin.must('PUT', `/accounts/${carol.owner}`, { status: 'Suspended' });
      expect(await codes(world, callers)).toEqual(['AccountProblem', 'AccountProblem', 'AccountProblem']);
    }
    // The settings name it again: the profile decides.
    await using again = await openGateway({ settings, people: [carol] });
    expect((await again.as({ credential: carol }).get('/of-carol')).code).toBe('AccountProblem');
    await operatorOf(again).must('PUT', `/accounts/${carol.owner}`, { status: 'Active' });
    expect(await codes(again, callers)).toEqual(['', '', '']);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
