/** Virtual MFA devices, and requests that need one of their codes. @storage */
import { describe, expect, test } from 'vitest';
import { verifyMfaHeader } from '../../src/auth/session/mfa.ts';
import { type Act, openActions } from '../support/actions.ts';
import { authenticator } from '../support/authenticator.ts';
import { alice, backends, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { allow, assume, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const serialOf = (name: string): string => `arn:aws:iam::alice-account:mfa/${name}`;

async function createDevice(iam: Act, clock: VirtualClock, name = 'phone') {
  const made = await must(iam('CreateVirtualMFADevice', { VirtualMFADeviceName: name }));
  const SerialNumber = made.one('SerialNumber') ?? '';
  return { SerialNumber, app: authenticator(made.one('Base32StringSeed') ?? '', clock.now) };
}

/** An enabled device, a minute later, because the codes that enabled it cannot be used again. */
async function openDevice(
  world: GatewayWorld,
  clock: VirtualClock,
  {
    UserName,
    iam = openActions(world),
    name = 'phone',
  }: { readonly UserName: string; readonly iam?: Act; readonly name?: string },
) {
  const device = await createDevice(iam, clock, name);
  const { SerialNumber, app } = device;
  const codes = { AuthenticationCode1: app.code(-1), AuthenticationCode2: app.code() };
  await must(iam('EnableMFADevice', { UserName, SerialNumber, ...codes }));
  await clock.advance(60_000);
  return device;
}

describe.each(backends)('a device on %s', (backend) => {
  test('is created, enabled, listed, deactivated and deleted', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ backend, clock });
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    const { SerialNumber, app } = await createDevice(iam, clock);
    expect(SerialNumber).toBe(serialOf('phone'));
    const status = async (AssignmentStatus: string) =>
      (await must(iam('ListVirtualMFADevices', { AssignmentStatus }))).all('SerialNumber');
    expect([await status('Any'), await status('Assigned'), await status('Unassigned')]).toEqual([
      [SerialNumber],
      [],
      [SerialNumber],
    ]);
    const enable = { UserName: 'carol', SerialNumber };
    for (const [first, second] of [
      [app.code(), app.code()],
      [app.code(), app.code(-1)],
      ['000000', app.code()],
    ] as const) {
      const refused = await iam('EnableMFADevice', {
        ...enable,
        AuthenticationCode1: first,
        AuthenticationCode2: second,
      });
      expect([refused.status, refused.code]).toEqual([403, 'InvalidAuthenticationCode']);
    }
    const codes = { AuthenticationCode1: app.code(-1), AuthenticationCode2: app.code() };
    await must(iam('EnableMFADevice', { ...enable, ...codes }));
    expect((await iam('EnableMFADevice', { ...enable, ...codes })).code).toBe('EntityAlreadyExists');
    const listed = await must(iam('ListMFADevices', { UserName: 'carol' }));
    expect([listed.one('SerialNumber'), listed.one('UserName')]).toEqual([SerialNumber, 'carol']);
    const shown = await must(iam('ListVirtualMFADevices', { AssignmentStatus: 'Assigned' }));
    expect([shown.one('UserName'), shown.one('Base32StringSeed')]).toEqual(['carol', undefined]);
    expect((await must(iam('GetAccountSummary'))).text).toContain(
      '<key>MFADevicesInUse</key><value>1</value>',
    );
    expect((await iam('DeleteVirtualMFADevice', { SerialNumber })).code).toBe('DeleteConflict');
    expect((await iam('DeleteUser', { UserName: 'carol' })).code).toBe('DeleteConflict');
    await must(iam('DeactivateMFADevice', enable));
    expect((await iam('DeactivateMFADevice', enable)).code).toBe('NoSuchEntity');
    await must(iam('DeleteVirtualMFADevice', { SerialNumber }));
    expect((await iam('DeleteVirtualMFADevice', { SerialNumber })).code).toBe('NoSuchEntity');
    await must(iam('DeleteUser', { UserName: 'carol' }));
  });

  test('accepts each code once, also among concurrent requests', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ backend, clock });
    const carol = await openUser(world, 'carol');
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const show = (TokenCode: string) => carol.act('GetSessionToken', { SerialNumber, TokenCode });
    const code = app.code();
    const answers = await Promise.all(Array.from({ length: 6 }, () => show(code)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ code: refused }) => refused === 'AccessDenied')).toHaveLength(5);
    await clock.advance(10 * 60_000);
    expect((await show(app.code(-1))).status).toBe(200);
    expect((await show(app.code(-1))).code).toBe('AccessDenied');
    expect((await show(app.code())).status).toBe(200);
    expect((await show(app.code(-1))).code).toBe('AccessDenied');
  });
});

describe('a device whose clock is off', () => {
  /** How many steps of 30 seconds the clock of the app is ahead. */
  const ahead = 12;

  test('is resynchronized with two codes, and its codes are valid again', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const iam = openActions(world);
    const carol = await openUser(world, 'carol');
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const show = async (TokenCode: string) =>
      (await carol.act('GetSessionToken', { SerialNumber, TokenCode })).code;
    const resync = async (AuthenticationCode1: string, AuthenticationCode2: string, UserName = 'carol') =>
      (await iam('ResyncMFADevice', { UserName, SerialNumber, AuthenticationCode1, AuthenticationCode2 }))
        .code;
    expect(await show(app.code(ahead))).toBe('AccessDenied');
    // Not consecutive, too far off, and of another user.
    expect(await resync(app.code(ahead - 1), app.code(ahead + 1))).toBe('InvalidAuthenticationCode');
    expect(await resync(app.code(30), app.code(31))).toBe('InvalidAuthenticationCode');
    await openUser(world, 'dave');
    expect(await resync(app.code(ahead - 1), app.code(ahead), 'dave')).toBe('NoSuchEntity');
    expect(await resync(app.code(ahead - 1), app.code(ahead))).toBe('');
    // The codes that resynchronized it are used.
    expect(await show(app.code(ahead))).toBe('AccessDenied');
    await clock.advance(60_000);
    expect(await show(app.code(ahead))).toBe('');
    await clock.advance(60_000);
    expect(await show(app.code(ahead + 1))).toBe('');
    expect(await show(app.code(ahead + 1))).toBe('AccessDenied');
    // Its clock was set right: codes that are not later than the last one stay invalid, and later ones are valid.
    expect(await show(app.code())).toBe('AccessDenied');
    await clock.advance((ahead + 4) * 30_000);
    expect(await show(app.code())).toBe('');
  });

  test('is refused for five minutes after five wrong codes, those of a resynchronization included', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const iam = openActions(world);
    await openUser(world, 'carol');
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const resync = async (first: string, second: string) =>
      (
        await iam('ResyncMFADevice', {
          ...{ UserName: 'carol', SerialNumber },
          ...{ AuthenticationCode1: first, AuthenticationCode2: second },
        })
      ).code;
    for (let tries = 0; tries < 5; tries += 1)
      expect(await resync(app.code(40), app.code(50))).toBe('InvalidAuthenticationCode');
    expect(await resync(app.code(ahead - 1), app.code(ahead))).toBe('InvalidAuthenticationCode');
    await clock.advance(5 * 60_000);
    expect(await resync(app.code(ahead - 1), app.code(ahead))).toBe('');
  });
});

describe('a code', () => {
  test('is accepted from the owner of the device only', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const carol = await openUser(world, 'carol');
    const dave = await openUser(world, 'dave');
    const other = openActions(world, { credential: bob });
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const foreign = await createDevice(other, clock);
    const ask = { SerialNumber, TokenCode: app.code() };
    for (const act of [dave.act, openActions(world), other])
      expect((await act('GetSessionToken', ask)).code).toBe('AccessDenied');
    for (const serial of [
      foreign.SerialNumber,
      serialOf('nothing'),
      serialOf('x/phone'),
      'some-text',
      SerialNumber.replace('mfa', 'user'),
    ])
      expect((await carol.act('GetSessionToken', { ...ask, SerialNumber: serial })).code).toBe(
        'AccessDenied',
      );
    expect((await carol.act('GetSessionToken', { SerialNumber })).code).toBe('ValidationError');
    expect((await carol.act('GetSessionToken', { ...ask, TokenCode: '12345x' })).code).toBe(
      'ValidationError',
    );
    await must(carol.act('GetSessionToken', ask));
  });

  test('is refused for five minutes after five wrong ones', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const carol = await openUser(world, 'carol');
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const show = async (TokenCode: string) =>
      (await carol.act('GetSessionToken', { SerialNumber, TokenCode })).code;
    const wrong = (): string => (app.code() === '000000' ? '000001' : '000000');
    for (let tries = 0; tries < 4; tries += 1) expect(await show(wrong())).toBe('AccessDenied');
    expect(await show(app.code())).toBe('');
    await clock.advance(60_000);
    for (let tries = 0; tries < 5; tries += 1) expect(await show(wrong())).toBe('AccessDenied');
    expect(await show(app.code())).toBe('AccessDenied');
    await clock.advance(5 * 60_000);
    expect(await show(app.code())).toBe('');
  });

  test('makes a session that may change IAM, and that policies can tell', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    await world.client.put('/bucket');
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: ['iam:ListUsers', 'sts:*'], Resource: '*' },
        {
          Effect: 'Allow',
          Action: 's3:*',
          Resource: '*',
          Condition: {
            Bool: { 'aws:MultiFactorAuthPresent': 'true' },
            NumericLessThan: { 'aws:MultiFactorAuthAge': '60' },
          },
        },
      ],
    });
    const carol = await openUser(world, 'carol', { policy });
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const bare = sessionOf(world, await must(carol.act('GetSessionToken')));
    const shown = sessionOf(
      world,
      await must(carol.act('GetSessionToken', { SerialNumber, TokenCode: app.code() })),
    );
    const status = async (options: Parameters<typeof world.as>[0]) =>
      (await world.as(options).get('/bucket')).status;
    expect([
      await status({ credential: carol.credential }),
      await status(bare.options),
      await status(shown.options),
    ]).toEqual([403, 403, 200]);
    expect([(await bare.act('ListUsers')).status, (await shown.act('ListUsers')).status]).toEqual([403, 200]);
    await clock.advance(60_000);
    expect(await status(shown.options)).toBe(403);
  });

  test('satisfies a trust policy that requires MFA', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const iam = openActions(world);
    const trust = trusting(
      { AWS: 'arn:aws:iam::alice-account:user/carol' },
      { Bool: { 'aws:MultiFactorAuthPresent': 'true' } },
    );
    await must(iam('CreateRole', { RoleName: 'admin', AssumeRolePolicyDocument: trust }));
    const carol = await openUser(world, 'carol');
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'carol' });
    const role = 'arn:aws:iam::alice-account:role/admin';
    const bare = await carol.act('AssumeRole', { RoleArn: role, RoleSessionName: 'session' });
    expect(bare.code).toBe('AccessDenied');
    const { act } = await assume(world, carol.act, { role, SerialNumber, TokenCode: app.code() });
    expect((await must(act('GetCallerIdentity'))).one('Arn')).toContain('assumed-role/admin/session');
  });

  test('of the root’s own device is the root’s, by header too', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const { SerialNumber, app } = await openDevice(world, clock, { UserName: 'alice-account', name: 'root' });
    const iam = openActions(world);
    expect((await must(iam('ListMFADevices'))).all('SerialNumber')).toEqual([SerialNumber]);
    const show = (identity: typeof alice, header: string) => verifyMfaHeader(world.context, identity, header);
    const header = `${SerialNumber} ${app.code()}`;
    const carol = await openUser(world, 'carol', { policy: allow('*') });
    const { context } = world;
    const found = await context.credentials.find(carol.credential.accessKey);
    for (const [identity, text] of [
      [bob, header],
      [found ?? bob, header],
      [alice, app.code()],
      [alice, SerialNumber],
      [alice, ''],
      [alice, `${SerialNumber}  x${app.code()}`],
    ] as const)
      expect(await show(identity, text)).toBe(false);
    expect(await show(alice, header)).toBe(true);
    expect(await show(alice, header)).toBe(false);
    await must(iam('DeactivateMFADevice', { SerialNumber }));
    await clock.advance(60_000);
    expect(await show(alice, `${SerialNumber} ${app.code()}`)).toBe(false);
  });
});
