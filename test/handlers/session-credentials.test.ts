/** CreateSessionCredentials and CheckPermissions: what a page of the console may do for its caller. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { logIn } from '../support/logins.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const json = { 'content-type': 'application/json' };

describe('CreateSessionCredentials', () => {
  test('gives 15 minutes of the storage protocol as the caller, and nothing of IAM, STS or the operator API', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    for (const who of [operator, alice]) {
      const { signed } = await logIn(world, who);
      const { client, found, act } = await signed();
      expect(Date.parse(found.expiresAt) - clock.now()).toBe(900_000);
      expect(found.region).toBe(world.context.config.SVC_REGION);
      const bucket = `/of-${who.displayName}`;
      expect((await client.put(bucket)).status).toBe(200);
      expect((await client.put(`${bucket}/key`, { body: 'hello' })).status).toBe(200);
      expect((await client.get(`${bucket}/key`)).text).toBe('hello');
      for (const path of ['/admin/v1/clusters', '/admin/v1/settings', '/metrics'])
        expect([path, (await client.get(path)).status]).toEqual([path, 403]);
      expect((await act('ListUsers')).status).toBe(403);
      expect((await act('CreateUser', { UserName: 'x' })).status).toBe(403);
      expect((await act('GetSessionToken')).status).toBe(403);
      const role = { RoleArn: `arn:aws:iam::${who.owner}:role/any`, RoleSessionName: 'any' };
      expect((await act('AssumeRole', role)).status).toBe(403);
      await clock.advance(900_000);
      expect((await client.get(`${bucket}/key`)).text).toContain('ExpiredToken');
    }
  });

  test('are bound by the policies of the user, and end with the log-in and with the access key', async () => {
    await using world = await openGateway();
    await world.client.put('/readable');
    await world.client.put('/readable/key', { body: 'hello' });
    const user = await openUser(world, 'reader', { policy: allow('s3:GetObject', 'iam:*', 'sts:*') });
    const first = await logIn(world, user.credential);
    const { client, act } = await first.signed();
    expect((await client.get('/readable/key')).text).toBe('hello');
    expect((await client.put('/readable/key', { body: 'x' })).status).toBe(403);
    expect((await act('ListUsers')).status).toBe(403);
    expect((await first.send('DELETE', '/session')).status).toBe(204);
    const ended = await client.get('/readable/key');
    expect([ended.status, ended.text]).toEqual([400, expect.stringContaining('ExpiredToken')]);
    const second = await logIn(world, user.credential);
    const again = (await second.signed()).client;
    expect((await again.get('/readable/key')).status).toBe(200);
    const key = { UserName: 'reader', AccessKeyId: user.credential.accessKey, Status: 'Inactive' };
    expect((await openActions(world)('UpdateAccessKey', key)).status).toBe(200);
    expect((await again.get('/readable/key')).status).toBe(400);
  });

  test('are refused without a cookie, and without the CSRF token', async () => {
    await using world = await openGateway();
    const signing = await world.as({ credential: operator }).post('/admin/v1/session/credentials');
    expect(signing.status).toBe(404);
    const reply = await world.anonymous.post('/admin/v1/session', {
      headers: json,
      body: JSON.stringify({ accessKey: operator.accessKey, secretKey: operator.secretKey }),
    });
    const cookie = (reply.header('set-cookie') ?? '').split(';')[0] ?? '';
    expect(
      (await world.anonymous.post('/admin/v1/session/credentials', { headers: { cookie } })).status,
    ).toBe(403);
    expect((await world.anonymous.post('/admin/v1/session/credentials')).status).toBe(403);
  });
});
