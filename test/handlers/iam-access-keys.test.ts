/** The access keys of users: their permissions, and when they begin and cease to work. @storage */
import { describe, expect, test } from 'vitest';
import { importAccessKey } from '../../src/domain/iam/access-keys.ts';
import { findAccessKey } from '../../src/metadata/iam.ts';
import { openActions } from '../support/actions.ts';
import { alice, backends, openGateway } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

describe.each(backends)('an access key on %s', (backend) => {
  test('signs from its creation, in either dialect, until it is inactive or deleted', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const { act, credential } = await openUser(world, 'carol');
    expect(credential.accessKey).toMatch(/^AKIA[A-Z2-7]{16}$/);
    expect(credential.secretKey).toHaveLength(40);
    const isGood = async () => (await act('GetCallerIdentity')).status === 200;
    expect(await isGood()).toBe(true);
    const neutral = world.as({ credential, dialect: 'store' });
    expect((await neutral.get('/nothing')).code).toBe('NoSuchBucket');
    const key = { UserName: 'carol', AccessKeyId: credential.accessKey };
    await must(iam('UpdateAccessKey', { ...key, Status: 'Inactive' }));
    const refused = await act('GetCallerIdentity');
    expect([refused.status, refused.code]).toEqual([403, 'InvalidClientTokenId']);
    expect((await neutral.get('/')).code).toBe('InvalidAccessKeyId');
    await must(iam('UpdateAccessKey', { ...key, Status: 'Active' }));
    expect(await isGood()).toBe(true);
    await must(iam('DeleteAccessKey', key));
    expect(await isGood()).toBe(false);
    expect((await iam('DeleteAccessKey', key)).code).toBe('NoSuchEntity');
    expect(await findAccessKey(world.context.metadata, credential.accessKey)).toBeUndefined();
  });

  test('that cannot be is unknown, like any other that is not there', async () => {
    await using world = await openGateway({ backend });
    for (const accessKey of ['AKIANOTHING', 'x'.repeat(5_000), 'a/b', 'a b', '_', '\u0001'.repeat(3)]) {
      const answer = await world.as({ credential: { ...alice, accessKey } }).get('/bucket');
      expect([answer.status, answer.code]).toEqual([403, 'InvalidAccessKeyId']);
    }
  });

  test('is sealed where it is stored', async () => {
    await using world = await openGateway({ backend });
    const { credential } = await openUser(world, 'carol');
    const row = await findAccessKey(world.context.metadata, credential.accessKey);
    expect(row?.account).toBe('alice-account');
    expect(Buffer.from(row?.secret ?? []).includes(credential.secretKey)).toBe(false);
    const listed = await must(openActions(world)('ListAccessKeys', { UserName: 'carol' }));
    expect([listed.one('AccessKeyId'), listed.one('Status')]).toEqual([credential.accessKey, 'Active']);
    expect(listed.text).not.toContain(credential.secretKey);
  });

  test('that an operator imported signs like any other', async () => {
    await using world = await openGateway({ backend });
    await must(openActions(world)('CreateUser', { UserName: 'carol' }));
    const pair = { accessKey: 'moved-from-elsewhere', secretKey: 'a secret of elsewhere' };
    const imported = await importAccessKey(world.context, 'alice-account', { user: 'carol', pair });
    expect(imported).toMatchObject({ accessKey: pair.accessKey, status: 'Active' });
    const act = openActions(world, { credential: { ...alice, ...pair } });
    expect((await act('GetCallerIdentity')).one('Arn')).toMatch(/user\/carol$/);
    for (const taken of [pair.accessKey, alice.accessKey])
      await expect(
        importAccessKey(world.context, 'alice-account', {
          user: 'carol',
          pair: { ...pair, accessKey: taken },
        }),
      ).rejects.toMatchObject({ code: 'EntityAlreadyExists' });
  });

  test('deleted and imported again is valid with the new secret only', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const { act, credential } = await openUser(world, 'carol');
    expect((await act('GetCallerIdentity')).status).toBe(200);
    await must(iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: credential.accessKey }));
    const pair = { accessKey: credential.accessKey, secretKey: 'another secret' };
    await importAccessKey(world.context, 'alice-account', { user: 'carol', pair });
    expect((await act('GetCallerIdentity')).code).toBe('SignatureDoesNotMatch');
    const again = openActions(world, { credential: { ...credential, ...pair } });
    expect((await again('GetCallerIdentity')).status).toBe(200);
  });
});

describe('access keys', () => {
  test('are two for a user at most, also for many who ask at the same time', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    const made = await Promise.all(
      Array.from({ length: 5 }, () => iam('CreateAccessKey', { UserName: 'carol' })),
    );
    expect(made.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(made.filter(({ status, code }) => status === 409 && code === 'LimitExceeded')).toHaveLength(3);
    expect((await must(iam('ListAccessKeys', { UserName: 'carol' }))).all('AccessKeyId')).toHaveLength(2);
  });

  test('follow a user that is renamed', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const { act, credential } = await openUser(world, 'carol');
    await must(iam('UpdateUser', { UserName: 'carol', NewUserName: 'caroline', NewPath: '/x/' }));
    expect((await must(act('GetCallerIdentity'))).one('Arn')).toMatch(/user\/x\/caroline$/);
    await must(iam('DeleteAccessKey', { UserName: 'caroline', AccessKeyId: credential.accessKey }));
  });

  test('tell when they were last used, to within five minutes', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const iam = openActions(world);
    const { act, credential } = await openUser(world, 'carol');
    const used = async () => {
      await world.context.lateWrites.flush();
      return must(iam('GetAccessKeyLastUsed', { AccessKeyId: credential.accessKey }));
    };
    const never = await used();
    expect([never.one('UserName'), never.one('ServiceName'), never.one('LastUsedDate')]).toEqual([
      'carol',
      'N/A',
      undefined,
    ]);
    const first = new Date(clock.now()).toISOString();
    await world.as({ credential: { ...credential, secretKey: 'wrong' } }).get('/');
    expect((await used()).one('LastUsedDate')).toBeUndefined();
    await act('GetCallerIdentity');
    const once = await used();
    expect([once.one('LastUsedDate'), once.one('ServiceName'), once.one('Region')]).toEqual([
      first,
      'sts',
      'us-east-1',
    ]);
    await clock.advance(4 * 60_000);
    await act('GetCallerIdentity');
    expect((await used()).one('LastUsedDate')).toBe(first);
    await clock.advance(60_000);
    await act('GetCallerIdentity');
    expect((await used()).one('LastUsedDate')).toBe(new Date(clock.now()).toISOString());
  });
});
