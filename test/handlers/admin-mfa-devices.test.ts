/** MFA devices at the operator API: of the users of an account, and of the caller itself. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { authenticator } from '../support/authenticator.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const account = `/accounts/${alice.owner}`;

/** The app that was given the seed of a reply. */
const appOf = (seed: unknown, clock: { now(): number }) =>
  authenticator(Buffer.from(String(seed)).toString('base64'), () => clock.now());

const lastTwo = (app: ReturnType<typeof authenticator>, ahead = 0) => ({
  code1: app.code(ahead - 1),
  code2: app.code(ahead),
});

describe('operators', () => {
  test('create a device for a user, enable, resynchronize, deactivate and delete it; the seed is shown once', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const admin = operatorOf(world);
    const ann = await openUser(world, 'ann');
    const devices = `${account}/mfa-devices`;
    const made = await admin.must('POST', devices, { name: 'phone' });
    const { seed, uri, ...shown } = made;
    const serialNumber = `arn:aws:iam::${alice.owner}:mfa/phone`;
    expect(shown).toEqual({ name: 'phone', serialNumber, created: expect.any(String) });
    expect(uri).toBe(
      `otpauth://totp/${encodeURIComponent(`sluice:phone@${alice.owner}`)}?secret=${seed}&issuer=sluice`,
    );
    const list = async (query = '') => (await admin.must('GET', devices + query))['rows'];
    expect(await list('?assignment=Unassigned')).toEqual([{ ...shown, isRoot: false }]);
    expect(JSON.stringify(await list())).not.toContain(seed);
    expect(await list('?user=ann')).toEqual([]);
    const app = appOf(seed, clock);
    const own = `${account}/users/ann/mfa-devices/phone`;
    const wrong = await admin.ask('PUT', own, { code1: app.code(), code2: app.code() });
    expect([wrong.status, wrong.json?.['code']]).toEqual([403, 'InvalidAuthenticationCode']);
    expect((await admin.ask('PUT', own, { code1: '12345', code2: app.code() })).status).toBe(400);
    await admin.must('PUT', own, lastTwo(app));
    expect(await list('?user=ann')).toEqual([
      { ...shown, enabled: expect.any(String), user: 'ann', isRoot: false },
    ]);
    expect(await list('?assignment=Unassigned')).toEqual([]);
    expect((await admin.must('GET', `${account}/users/ann`))['mfaDevices']).toEqual(['phone']);
    await clock.advance(60_000);
    const session = () => ann.act('GetSessionToken', { SerialNumber: serialNumber, TokenCode: app.code(9) });
    expect((await session()).status).toBe(403);
    expect((await admin.ask('POST', `${own}/resync`, lastTwo(app))).status).toBe(204);
    await clock.advance(60_000);
    expect((await admin.ask('POST', `${own}/resync`, lastTwo(app, 9))).status).toBe(204);
    await clock.advance(60_000);
    expect((await session()).status).toBe(200);
    expect((await admin.ask('DELETE', `${devices}/phone`)).status).toBe(409);
    expect((await admin.ask('DELETE', `${account}/users/none/mfa-devices/phone`)).status).toBe(404);
    await admin.must('DELETE', own);
    await admin.must('DELETE', `${devices}/phone`);
    expect(await list()).toEqual([]);
    expect((await admin.ask('DELETE', `${devices}/phone`)).status).toBe(404);
    const rows = (await auditRows(world.context)).filter(({ action }) => /MfaDevice/.test(action));
    expect(rows.some((row) => JSON.stringify(row).includes(String(seed)))).toBe(false);
    const done = rows.filter(({ status }) => status < 300);
    const user = `arn:aws:iam::${alice.owner}:user/ann`;
    const changed = done.map(({ action, resource, changes = [] }) => [action, resource, changes]);
    const field = 'devices.phone';
    expect(changed.sort()).toEqual([
      ['admin:CreateIamMfaDevice', serialNumber, [{ field, new: 'created' }]],
      ['admin:DeactivateIamMfaDevice', user, [{ field, old: 'enabled' }]],
      ['admin:DeleteIamMfaDevice', serialNumber, [{ field, old: 'created' }]],
      ['admin:EnableIamMfaDevice', user, [{ field, new: 'enabled' }]],
      ['admin:ResyncIamMfaDevice', user, [{ field, new: 'resynchronized' }]],
      ['admin:ResyncIamMfaDevice', user, [{ field, new: 'resynchronized' }]],
    ]);
  });
  test('a list reads the users of its devices, 16 at a time', async () => {
    const clock = virtualClock();
    const reads = { now: 0, most: 0 };
    const wrap = (context: Context): Context => {
      const { metadata } = context;
      const counting: MetadataStore = Object.create(metadata, {
        get: {
          value: async (...asked: Parameters<MetadataStore['get']>) => {
            reads.now += 1;
            reads.most = Math.max(reads.most, reads.now);
            await new Promise(setImmediate);
            return metadata.get(...asked).finally(() => {
              reads.now -= 1;
            });
          },
        },
      });
      return { ...context, metadata: counting };
    };
    await using world = await openGateway({ clock, wrap });
    const admin = operatorOf(world);
    for (const user of ['ann', 'ben', 'cid']) {
      await openUser(world, user);
      for (const nth of [1, 2, 3, 4, 5, 6]) {
        const name = `${user}-${nth}`;
        const { seed } = await admin.must('POST', `${account}/mfa-devices`, { name });
        await admin.must('PUT', `${account}/users/${user}/mfa-devices/${name}`, lastTwo(appOf(seed, clock)));
      }
    }
    reads.most = 0;
    const { rows } = await admin.must('GET', `${account}/mfa-devices`);
    const names = (rows as readonly { readonly name: string; readonly user: string }[]).map(
      ({ name, user }) => name.startsWith(user),
    );
    expect(names).toEqual(Array.from({ length: 18 }, () => true));
    expect(reads.most).toBe(16);
  });
});

describe('a caller', () => {
  test('creates, enables, resynchronizes and deletes a device of its own, where IAM allows it', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const policy = allow(
      ...['iam:ListMFADevices', 'iam:CreateVirtualMFADevice', 'iam:EnableMFADevice', 'iam:ResyncMFADevice'],
      ...['iam:DeactivateMFADevice', 'iam:DeleteVirtualMFADevice'],
    );
    const carol = await openUser(world, 'carol', { policy });
    const root = world.as({ credential: alice });
    for (const client of [world.as({ credential: carol.credential }), root]) {
      const ask = async (method: string, path = '', body?: object) => {
        const answer = await client.send(method, `/admin/v1/session/mfa-devices${path}`, {
          headers: { 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return { status: answer.status, json: answer.text === '' ? {} : JSON.parse(answer.text) };
      };
      const mayReadAll = client === root;
      expect((await ask('GET')).json).toEqual({ mfaDevices: [], ...(mayReadAll ? { unassigned: [] } : {}) });
      const { json } = await ask('POST', '', { name: 'phone' });
      const app = appOf(json.seed, clock);
      if (mayReadAll) expect((await ask('GET')).json.unassigned).toMatchObject([{ name: 'phone' }]);
      expect((await ask('POST', '', { name: 'phone' })).json.code).toBe('EntityAlreadyExists');
      expect((await ask('PUT', '/phone', { code1: '000000', code2: '000001' })).status).toBe(403);
      expect((await ask('PUT', '/phone', lastTwo(app))).status).toBe(204);
      expect((await ask('GET')).json.mfaDevices).toMatchObject([
        { name: 'phone', enabled: expect.any(String) },
      ]);
      await clock.advance(60_000);
      expect((await ask('POST', '/phone/resync', lastTwo(app, 5))).status).toBe(204);
      expect((await ask('DELETE', '/phone')).status).toBe(204);
      expect((await ask('DELETE', '/phone')).status).toBe(404);
    }
  });

  test('is refused what IAM does not allow it, a device of another user, and everything with temporary credentials', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const root = world.as({ credential: alice });
    const headers = { 'content-type': 'application/json' };
    const path = '/admin/v1/session/mfa-devices';
    const { seed } = JSON.parse((await root.send('POST', path, { headers, body: '{"name":"phone"}' })).text);
    const codes = JSON.stringify(lastTwo(appOf(seed, clock)));
    expect((await root.send('PUT', `${path}/phone`, { headers, body: codes })).status).toBe(204);
    const dave = await openUser(world, 'dave', { policy: allow('admin:*') });
    const eve = await openUser(world, 'eve', { policy: allow('iam:*MFADevice*') });
    const session = await eve.act('GetSessionToken');
    const temporary = world.as({
      credential: {
        ...eve.credential,
        accessKey: session.one('AccessKeyId') ?? '',
        secretKey: session.one('SecretAccessKey') ?? '',
      },
      token: session.one('SessionToken') ?? '',
    });
    const asked = [
      ['GET', ''],
      ['POST', '', '{"name":"other"}'],
      ['PUT', '/phone', codes],
      ['POST', '/phone/resync', codes],
      ['DELETE', '/phone'],
    ] as const;
    const others = [world.as({ credential: dave.credential }), temporary, world.anonymous];
    for (const client of others)
      for (const [method, rest, body] of asked) {
        const answer = await client.send(method, path + rest, { headers, ...(body ? { body } : {}) });
        expect([method, rest, answer.status]).toEqual([method, rest, 403]);
      }
    // IAM allows eve the actions about herself: the device is not hers.
    const other = world.as({ credential: eve.credential });
    expect((await other.send('DELETE', `${path}/phone`)).status).toBe(404);
    expect((await other.send('POST', `${path}/phone/resync`, { headers, body: codes })).status).toBe(404);
    expect((await other.send('PUT', `${path}/phone`, { headers, body: codes })).status).toBe(409);
    expect(JSON.parse((await root.get(path)).text).mfaDevices).toHaveLength(1);
  });
});
