/** MFA delete: permanent deletion of versions, and turning it off, need a code of the owner's device. @storage */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { ambush } from '../support/ambush.ts';
import { authenticator } from '../support/authenticator.ts';
import { setPolicy } from '../support/bucket-policy.ts';
import {
  alice,
  type Backend,
  backends,
  bob,
  type GatewayWorldOptions,
  openGateway,
} from '../support/gateway.ts';
import { deletion } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { must } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const state = (status: string, mfaDelete?: string): string =>
  `<VersioningConfiguration><Status>${status}</Status>${mfaDelete === undefined ? '' : `<MfaDelete>${mfaDelete}</MfaDelete>`}</VersioningConfiguration>`;

/** A device of an account's root; each of its codes belongs to another minute. */
async function openDevice(
  world: Awaited<ReturnType<typeof openGateway>>,
  clock: ReturnType<typeof virtualClock>,
  credential = alice,
) {
  const iam = openActions(world, { credential });
  const made = await must(iam('CreateVirtualMFADevice', { VirtualMFADeviceName: 'root-device' }));
  const SerialNumber = made.one('SerialNumber') ?? '';
  const app = authenticator(made.one('Base32StringSeed') ?? '', clock.now);
  const codes = { AuthenticationCode1: app.code(-1), AuthenticationCode2: app.code() };
  await must(iam('EnableMFADevice', { UserName: credential.owner, SerialNumber, ...codes }));
  return {
    SerialNumber,
    /** A header with a code that was not used before. */
    show(): Record<string, string> {
      clock.jump(60_000);
      return { '*-mfa': `${SerialNumber} ${app.code()}` };
    },
  };
}

async function openWorld(backend: Backend = 'memory', options: GatewayWorldOptions = {}) {
  const clock = virtualClock();
  const world = await openGateway({ ...options, backend, clock });
  await world.client.put('/bucket');
  const device = await openDevice(world, clock);
  const put = (body: string, headers = {}, client: Client = world.client) =>
    client.put('/bucket?versioning', { body, headers });
  return Object.assign(world, { clock, device, putVersioning: put });
}

const putVersion = async (client: Client): Promise<string> =>
  (await client.put('/bucket/key', { body: 'content' })).header('*-version-id') ?? '';

describe.each(backends)('on %s', (backend) => {
  test('is enabled and disabled with a code, and returned by GetBucketVersioning', async () => {
    await using world = await openWorld(backend);
    const { client, device, putVersioning } = world;
    const readVersioning = async () => {
      const { one } = await client.get('/bucket?versioning');
      return [one('Status'), one('MfaDelete')];
    };
    expect((await putVersioning(state('Enabled'))).status).toBe(200);
    expect(await readVersioning()).toEqual(['Enabled', undefined]);
    const refused = await putVersioning(state('Enabled', 'Enabled'));
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    expect(await readVersioning()).toEqual(['Enabled', undefined]);
    // Setting MFA delete to Disabled while it is off needs no code.
    expect((await putVersioning(state('Enabled', 'Disabled'))).status).toBe(200);
    expect(await readVersioning()).toEqual(['Enabled', 'Disabled']);
    expect((await putVersioning(state('Enabled', 'Enabled'), device.show())).status).toBe(200);
    expect(await readVersioning()).toEqual(['Enabled', 'Enabled']);
    for (const body of [state('Enabled', 'Disabled'), state('Suspended'), state('Enabled')])
      expect((await putVersioning(body)).status, body).toBe(403);
    expect(await readVersioning()).toEqual(['Enabled', 'Enabled']);
    expect((await putVersioning(state('Suspended'), device.show())).status).toBe(200);
    expect(await readVersioning()).toEqual(['Suspended', 'Enabled']);
    expect((await putVersioning(state('Enabled', 'Disabled'), device.show())).status).toBe(200);
    expect(await readVersioning()).toEqual(['Enabled', 'Disabled']);
  });

  test('a version goes with a code only; markers and writes need none', async () => {
    await using world = await openWorld(backend);
    const { client, device, putVersioning } = world;
    await putVersioning(state('Enabled', 'Enabled'), device.show());
    const versions = [await putVersion(client), await putVersion(client)];
    const marker = (await client.delete('/bucket/key')).header('*-version-id') ?? '';
    const at = (id: string | undefined) => `/bucket/key?versionId=${id}`;
    for (const id of [...versions, marker]) {
      const refused = await client.delete(at(id));
      expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    }
    expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(3);
    expect((await client.delete(at(marker), { headers: device.show() })).status).toBe(204);
    const headers = device.show();
    expect((await client.delete(at(versions[0]), { headers })).status).toBe(204);
    // A code is accepted only once.
    expect((await client.delete(at(versions[1]), { headers })).status).toBe(403);
    expect((await client.get('/bucket/key')).text).toBe('content');
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
  });

  test('one code is valid for all keys of DeleteObjects; without it, or with a wrong one, nothing is deleted', async () => {
    await using world = await openWorld(backend);
    const { client, device, putVersioning } = world;
    await putVersioning(state('Enabled', 'Enabled'), device.show());
    const versions = [await putVersion(client), await putVersion(client)];
    const named = versions.map((id) => `<Key>key</Key><VersionId>${id}</VersionId>`);
    const wrong = { '*-mfa': `${device.SerialNumber} 000000` };
    for (const [objects, headers] of [
      [[...named, 'other'], {}],
      [named, wrong],
      [['other'], wrong],
    ] as const) {
      const refused = await client.post('/bucket?delete', { body: deletion(objects), headers });
      expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    }
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual(versions.toReversed());
    const laid = await client.post('/bucket?delete', { body: deletion(['key']) });
    expect([laid.status, laid.all('Code')]).toEqual([200, []]);
    const gone = await client.post('/bucket?delete', { body: deletion(named), headers: device.show() });
    expect([gone.status, gone.all('Code'), gone.all('VersionId').toSorted()]).toEqual([
      200,
      [],
      versions.toSorted(),
    ]);
  });
});

test('a delete that began before MFA delete was turned on is refused, and nothing was deleted', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openWorld('memory', { wrap });
  const { client, device, putVersioning } = world;
  await putVersioning(state('Enabled'));
  const version = await putVersion(client);
  rightBefore('objects', () => putVersioning(state('Enabled', 'Enabled'), device.show()));
  expect((await client.delete(`/bucket/key?versionId=${version}`)).status).toBe(403);
  expect((await client.get('/bucket/key')).text).toBe('content');
});

test('a code is the owner’s: no other device, no other caller, no other form of it will do', async () => {
  await using world = await openWorld();
  const { client, device, putVersioning, clock } = world;
  await putVersioning(state('Enabled', 'Enabled'), device.show());
  const version = await putVersion(client);
  const at = `/bucket/key?versionId=${version}`;
  await setPolicy(world, 'bucket', [
    { Effect: 'Allow', Action: ['s3:DeleteObjectVersion', 's3:PutBucketVersioning', 's3:GetObjectVersion'] },
  ]);
  const foreign = await openDevice(world, clock, bob);
  for (const [caller, headers] of [
    [world.bob, device.show()],
    [world.bob, foreign.show()],
    [client, foreign.show()],
    [client, { '*-mfa': '' }],
    [client, { '*-mfa': device.SerialNumber }],
    [client, { '*-mfa': device.show()['*-mfa']?.replace(' ', '') ?? '' }],
    [client, { '*-mfa': `${device.SerialNumber.replace('alice', 'bob')} 123456` }],
  ] as const) {
    expect((await caller.delete(at, { headers })).status).toBe(403);
    expect((await putVersioning(state('Enabled', 'Disabled'), headers, caller)).status).toBe(403);
  }
  expect((await client.get(at)).text).toBe('content');
  expect((await client.delete(at, { headers: device.show() })).status).toBe(204);
});

test('a lock holds against a code too', async () => {
  await using world = await openWorld();
  const { client, device } = world;
  await client.put('/locked', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/locked?versioning', { body: state('Enabled', 'Enabled'), headers: device.show() });
  const headers = { '*-object-lock-legal-hold': 'ON' };
  const put = await client.put('/locked/key', { body: 'held', headers });
  const at = `/locked/key?versionId=${put.header('*-version-id')}`;
  expect((await client.delete(at, { headers: device.show() })).status).toBe(403);
  expect((await client.get(at)).text).toBe('held');
});

test('MFA delete and a lifecycle configuration keep each other out', async () => {
  await using world = await openWorld();
  const { client, device, putVersioning } = world;
  const body =
    '<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
  const putLifecycle = () => client.put('/bucket?lifecycle', { body });
  expect((await putLifecycle()).status).toBe(200);
  const enable = () => putVersioning(state('Enabled', 'Enabled'), device.show());
  const refused = await enable();
  expect([refused.status, refused.code]).toEqual([409, 'InvalidBucketState']);
  await client.delete('/bucket?lifecycle');
  expect((await enable()).status).toBe(200);
  expect((await putLifecycle()).code).toBe('InvalidBucketState');
});

test('another device of the root counts too, and the root gets one without a code of the former', async () => {
  await using world = await openWorld();
  const { client, clock, device, putVersioning } = world;
  expect((await putVersioning(state('Enabled', 'Enabled'), device.show())).status).toBe(200);
  const version = await putVersion(client);
  expect((await client.delete(`/bucket/key?versionId=${version}`)).status).toBe(403);
  const { SerialNumber } = device;
  const iam = openActions(world, { credential: alice });
  await must(iam('DeactivateMFADevice', { SerialNumber }));
  const former = await client.delete(`/bucket/key?versionId=${version}`, { headers: device.show() });
  expect([former.status, former.code]).toEqual([403, 'AccessDenied']);
  await must(iam('DeleteVirtualMFADevice', { SerialNumber }));
  const other = await openDevice(world, clock);
  const deleted = await client.delete(`/bucket/key?versionId=${version}`, { headers: other.show() });
  expect(deleted.status).toBe(204);
});
