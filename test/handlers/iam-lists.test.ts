/** Lists of IAM read the entities of a page a few at a time: the caller chooses how long a page is. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openActions } from '../support/actions.ts';
import { faulty } from '../support/faulty.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { allow, must, trusting } from '../support/iam-users.ts';

test('a page of many roles, users of a group, entities of a policy or MFA devices begins few reads at the same time', async () => {
  const reads = { now: 0, most: 0 };
  const wrap = (context: Context): Context => {
    const get = async (...asked: readonly unknown[]): Promise<unknown> => {
      reads.now += 1;
      reads.most = Math.max(reads.most, reads.now);
      // As of an engine on another machine.
      await new Promise((resolve) => setImmediate(resolve));
      const found = await (context.metadata.get as (...asked: readonly unknown[]) => Promise<unknown>)(
        ...asked,
      );
      reads.now -= 1;
      return found;
    };
    return { ...context, metadata: faulty(context.metadata, { get: get as never }) };
  };
  await using world = await openGateway({ wrap });
  const iam = openActions(world);
  const count = 60;
  await must(iam('CreateGroup', { GroupName: 'all' }));
  const made = await must(iam('CreatePolicy', { PolicyName: 'read', PolicyDocument: allow('s3:GetObject') }));
  const PolicyArn = made.one('Arn') ?? '';
  const devices: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const name = `n${n}`;
    await must(iam('CreateUser', { UserName: name }));
    await must(iam('AddUserToGroup', { UserName: name, GroupName: 'all' }));
    await must(iam('AttachUserPolicy', { UserName: name, PolicyArn }));
    await must(
      iam('CreateRole', { RoleName: name, AssumeRolePolicyDocument: trusting({ AWS: alice.owner }) }),
    );
    devices.push(
      (await must(iam('CreateVirtualMFADevice', { VirtualMFADeviceName: name }))).one('SerialNumber') ?? '',
    );
  }
  expect(new Set(devices).size).toBe(count);
  const lists = [
    ['ListRoles', {}, 'RoleName'],
    ['GetGroup', { GroupName: 'all' }, 'UserName'],
    ['ListEntitiesForPolicy', { PolicyArn }, 'UserName'],
    ['ListVirtualMFADevices', {}, 'SerialNumber'],
  ] as const;
  for (const [action, parameters, element] of lists) {
    reads.most = 0;
    const listed = await must(iam(action, { ...parameters, MaxItems: '1000' }));
    expect([action, listed.all(element).length]).toEqual([action, count]);
    expect(reads.most, action).toBeLessThanOrEqual(20);
  }
});
