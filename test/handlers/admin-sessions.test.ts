/** Log-ins of operators: the cookie, its CSRF token, its end, and what it does not open. */
import { describe, expect, test, vi } from 'vitest';
import { commitLogin, scanLogins } from '../../src/metadata/logins.ts';
import { openActions } from '../support/actions.ts';
import { bob, type GatewayWorld, openGateway, operator, person } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { allow, credentialOf, openUser } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const json = { 'content-type': 'application/json' };
const minuteMs = 60_000;

const logIn = (
  world: GatewayWorld,
  { accessKey, secretKey }: { readonly accessKey: string; readonly secretKey: string } = operator,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> =>
  world.anonymous.post('/admin/v1/session', {
    headers: { ...json, ...headers },
    body: JSON.stringify({ accessKey, secretKey }),
  });

interface Browser {
  readonly csrfToken: string;
  readonly cookie: string;
  send(method: string, path: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
}

async function openBrowser(world: GatewayWorld, answer: Promise<Answer> = logIn(world)): Promise<Browser> {
  const reply = await answer;
  expect(reply.status).toBe(200);
  const cookie = (reply.header('set-cookie') ?? '').split(';')[0] ?? '';
  const { csrfToken } = JSON.parse(reply.text) as { csrfToken: string };
  return {
    csrfToken,
    cookie,
    send: (method, path, headers = {}) =>
      world.anonymous.send(method, path, { headers: { cookie, ...headers } }),
  };
}

describe('a log-in', () => {
  test('answers with a cookie that scripts cannot read, and who it is for', async () => {
    await using world = await openGateway();
    const reply = await logIn(world);
    expect(reply.header('set-cookie')).toMatch(
      /^sluice-login=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    expect(JSON.parse(reply.text)).toMatchObject({
      accessKey: operator.accessKey,
      account: operator.owner,
      principal: 'arn:aws:iam::operator-account:root',
      idleSeconds: 3600,
    });
    expect(reply.text).not.toContain(operator.secretKey);
    const browser = await openBrowser(world);
    expect((await browser.send('GET', '/admin/v1/clusters')).status).toBe(200);
    expect(JSON.parse((await browser.send('GET', '/admin/v1/session')).text).csrfToken).toBe(
      browser.csrfToken,
    );
  });

  test('changes something only with the CSRF token, and from a page of its own origin', async () => {
    await using world = await openGateway();
    const browser = await openBrowser(world);
    const weight = '/admin/v1/clusters/default/drain';
    const ask = (headers: Readonly<Record<string, string>>) =>
      world.anonymous.post(weight, {
        headers: { cookie: browser.cookie, ...headers },
        body: '{"mode":"readonly"}',
      });
    const other = await openBrowser(world);
    for (const token of ['', 'x', other.csrfToken, `${browser.csrfToken}0`])
      expect((await ask({ 'x-csrf-token': token })).status).toBe(403);
    expect((await ask({})).text).toContain('X-CSRF-Token');
    for (const site of ['cross-site', 'same-site'])
      expect((await ask({ 'x-csrf-token': browser.csrfToken, 'sec-fetch-site': site })).status).toBe(403);
    expect((await browser.send('GET', '/admin/v1/clusters', { 'sec-fetch-site': 'same-site' })).status).toBe(
      403,
    );
    const { text } = await browser.send('GET', '/admin/v1/clusters/default');
    expect(text).toContain('"live"');
    const allowed = { 'x-csrf-token': browser.csrfToken, 'sec-fetch-site': 'same-origin' };
    expect((await ask(allowed)).status).toBe(200);
  });

  test('does not open the storage protocol, metrics or the listings at service scope', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const browser = await openBrowser(world);
    expect((await browser.send('GET', '/bucket')).status).toBe(403);
    expect((await browser.send('GET', '/?audit')).status).toBe(403);
    expect((await browser.send('GET', '/metrics')).status).toBe(403);
    expect((await browser.send('POST', '/?Action=ListUsers&Version=2010-05-08')).status).toBe(403);
  });

  test('is refused for a wrong secret, and for an unknown key, with one text', async () => {
    await using world = await openGateway();
    const wrong = await logIn(world, { ...operator, secretKey: 'wrong' });
    const unknown = await logIn(world, { accessKey: 'KEY-unknown', secretKey: 'wrong' });
    const empty = await logIn(world, { accessKey: 'KEY-unknown', secretKey: '' });
    const text = (answer: Answer) => JSON.parse(answer.text).message;
    expect([wrong.status, unknown.status, empty.status]).toEqual([403, 403, 403]);
    expect(text(unknown)).toBe(text(wrong));
    for (const answer of [wrong, unknown]) expect(answer.header('set-cookie')).toBeUndefined();
  });

  test('is refused for a body that another page can post, and for one with other fields', async () => {
    await using world = await openGateway();
    const form = await logIn(world, operator, { 'content-type': 'text/plain' });
    expect([form.status, form.header('set-cookie')]).toEqual([400, undefined]);
    const body = JSON.stringify({ ...operator, remember: true });
    expect((await world.anonymous.post('/admin/v1/session', { headers: json, body })).status).toBe(400);
    expect((await world.anonymous.post('/admin/v1/session', { headers: json, body: '{' })).status).toBe(400);
    const long = { headers: json, body: ' '.repeat(5_000) };
    expect((await world.anonymous.post('/admin/v1/session', long)).status).toBe(400);
  });
});

describe('a log-in ends', () => {
  test('with its idle time, and with its age however busy it is', async () => {
    const clock = virtualClock();
    await using world = await openGateway({
      clock,
      settings: { SVC_LOGIN_IDLE: '10m', SVC_LOGIN_TTL: '30m' },
    });
    const status = async ({ send }: Browser) => (await send('GET', '/admin/v1/clusters')).status;
    const idle = await openBrowser(world);
    const busy = await openBrowser(world);
    for (let minute = 0; minute < 24; minute += 6) {
      await clock.advance(6 * minuteMs);
      expect(await status(busy)).toBe(200);
    }
    expect(await status(idle)).toBe(403);
    await clock.advance(6 * minuteMs);
    expect(await status(busy)).toBe(403);
  });

  test('with a log-out, which also clears the cookie', async () => {
    await using world = await openGateway();
    const browser = await openBrowser(world);
    const other = await openBrowser(world);
    expect((await browser.send('DELETE', '/admin/v1/session')).status).toBe(403);
    const out = await browser.send('DELETE', '/admin/v1/session', { 'x-csrf-token': browser.csrfToken });
    expect([out.status, out.header('set-cookie')]).toEqual([
      204,
      'sluice-login=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0',
    ]);
    expect((await browser.send('GET', '/admin/v1/clusters')).status).toBe(403);
    expect((await other.send('GET', '/admin/v1/clusters')).status).toBe(200);
  });

  test('when an operator revokes it, alone or with all of its access key', async () => {
    await using world = await openGateway();
    const second = person('second', { operator: true });
    const admin = world.as({ credential: operator });
    const browsers = [await openBrowser(world), await openBrowser(world), await openBrowser(world)];
    const listed = JSON.parse((await admin.get('/admin/v1/logins')).text).logins as { id: string }[];
    expect(listed).toHaveLength(3);
    for (const { cookie, csrfToken } of browsers) {
      const text = JSON.stringify(listed);
      expect(text.includes(cookie.slice('sluice-login='.length)) || text.includes(csrfToken)).toBe(false);
    }
    expect((await admin.delete(`/admin/v1/logins/${listed[0]?.id}`)).status).toBe(204);
    expect((await admin.delete(`/admin/v1/logins/${listed[0]?.id}`)).status).toBe(404);
    const statuses = async () =>
      (await Promise.all(browsers.map(({ send }) => send('GET', '/admin/v1/session')))).map(
        ({ status }) => status,
      );
    expect((await statuses()).filter((status) => status === 200)).toHaveLength(2);
    const none = await admin.delete(`/admin/v1/logins?accessKey=${second.accessKey}`);
    expect(JSON.parse(none.text)).toEqual({ revoked: 0 });
    expect(JSON.parse((await admin.delete('/admin/v1/logins')).text)).toEqual({ revoked: 2 });
    expect(await statuses()).toEqual([403, 403, 403]);
  });

  test('when an operator revokes all while some of them log out', async () => {
    await using world = await openGateway();
    const admin = world.as({ credential: operator });
    for (let round = 0; round < 3; round += 1) {
      const browsers = await Promise.all(Array.from({ length: 12 }, () => openBrowser(world)));
      const outs = browsers
        .slice(0, 6)
        .map(({ send, csrfToken }) => send('DELETE', '/admin/v1/session', { 'x-csrf-token': csrfToken }));
      const [revoked] = await Promise.all([admin.delete('/admin/v1/logins'), ...outs]);
      expect(revoked.status).toBe(200);
      for (const { send } of browsers) expect((await send('GET', '/admin/v1/session')).status).toBe(403);
    }
  });

  test('with the access key of a user, and its permissions follow the policies', async () => {
    await using world = await openGateway();
    const user = await openUser(world, 'carol', { root: operator, policy: allow('admin:ListClusters') });
    const browser = await openBrowser(world, logIn(world, user.credential));
    expect((await browser.send('GET', '/admin/v1/clusters')).status).toBe(200);
    expect((await browser.send('GET', '/admin/v1/workers')).status).toBe(403);
    const iam = openActions(world, { credential: operator });
    const key = { UserName: 'carol', AccessKeyId: user.credential.accessKey };
    await iam('UpdateAccessKey', { ...key, Status: 'Inactive' });
    expect((await browser.send('GET', '/admin/v1/clusters')).status).toBe(403);
    expect((await browser.send('GET', '/admin/v1/session')).status).toBe(403);
    expect(
      JSON.parse((await world.as({ credential: operator }).get('/admin/v1/logins')).text).logins,
    ).toEqual([]);
    await iam('UpdateAccessKey', { ...key, Status: 'Active' });
    expect((await browser.send('GET', '/admin/v1/clusters')).status).toBe(403);
  });

  test('with the access key of a root, also where the key is made active again or imported again', async () => {
    await using world = await openGateway();
    const admin = world.as({ credential: operator });
    const send = async (method: string, path: string, body?: object) => {
      const text = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await admin.send(method, `/admin/v1/accounts${path}`, text);
      expect(answer.status, answer.text).toBeLessThan(300);
      return answer.text === '' ? {} : JSON.parse(answer.text);
    };
    const first = await send('POST', '', { account: 'eve' });
    const second = await send('POST', '/eve/root-keys');
    const open = ({ accessKey, secretKey }: Record<string, string>) =>
      openBrowser(world, logIn(world, { accessKey: accessKey ?? '', secretKey: secretKey ?? '' }));
    const [browser, other] = [await open(first), await open(second)];
    for (const status of ['Inactive', 'Active'])
      await send('PUT', `/eve/root-keys/${first.accessKey}`, { status });
    expect((await browser.send('GET', '/admin/v1/session')).status).toBe(403);
    expect((await other.send('GET', '/admin/v1/session')).status).toBe(200);
    await send('DELETE', `/eve/root-keys/${second.accessKey}`);
    expect(JSON.parse((await admin.get('/admin/v1/logins')).text).logins).toEqual([]);
  });
});

describe('own log-ins', () => {
  const listOwn = async ({ send }: Browser) =>
    JSON.parse((await send('GET', '/admin/v1/session/logins')).text).logins as readonly {
      readonly id: string;
      readonly isCurrent: boolean;
      readonly accessKey: string;
    }[];
  const revoke = ({ send, csrfToken }: Browser, id: string) =>
    send('DELETE', `/admin/v1/session/logins/${id}`, { 'x-csrf-token': csrfToken });

  test('a tenant lists and ends its own, with each of its keys, and those of others stay', async () => {
    await using world = await openGateway();
    const carol = await openUser(world, 'carol', { policy: allow('iam:CreateAccessKey') });
    const dora = await openUser(world, 'dora', {});
    const browser = await openBrowser(world, logIn(world, carol.credential));
    const made = await browser.send('POST', '/admin/v1/session/access-keys', {
      'x-csrf-token': browser.csrfToken,
    });
    const second = await openBrowser(world, logIn(world, JSON.parse(made.text)));
    const other = await openBrowser(world, logIn(world, dora.credential));
    const listed = await listOwn(browser);
    expect(new Set(listed.map(({ accessKey }) => accessKey)).size).toBe(2);
    expect(listed.filter(({ isCurrent }) => isCurrent)).toHaveLength(1);
    for (const { cookie } of [browser, second])
      expect(JSON.stringify(listed)).not.toContain(cookie.slice('sluice-login='.length));
    const foreign = (await listOwn(other))[0]?.id ?? '';
    expect([(await revoke(browser, foreign)).status, (await revoke(browser, 'x')).status]).toEqual([
      404, 404,
    ]);
    const away = listed.find(({ isCurrent }) => !isCurrent)?.id ?? '';
    expect((await revoke(browser, away)).status).toBe(204);
    expect((await second.send('GET', '/admin/v1/session')).status).toBe(403);
    expect((await other.send('GET', '/admin/v1/session')).status).toBe(200);
    const { text } = await world.as({ credential: operator }).get('/?audit');
    expect(text).toContain('admin:RevokeOwnLogin');
  });

  test('are for callers that are known, and not for temporary credentials', async () => {
    await using world = await openGateway();
    expect((await world.anonymous.get('/admin/v1/session/logins')).status).toBe(403);
    const session = await openActions(world)('GetSessionToken');
    const credential = credentialOf(session, 'alice-account');
    const temporary = world.as({ credential, token: session.one('SessionToken') ?? '' });
    const answer = await temporary.get('/admin/v1/session/logins');
    expect([answer.status, JSON.parse(answer.text).message]).toEqual([
      403,
      'Temporary credentials have no log-ins of their own.',
    ]);
  });
});

test('an access key has twenty log-ins at most: a further one ends the oldest', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const first = await openBrowser(world);
  await clock.advance(1_000);
  const second = await openBrowser(world);
  for (let i = 0; i < 19; i += 1) await openBrowser(world);
  expect((await first.send('GET', '/admin/v1/session')).status).toBe(403);
  expect((await second.send('GET', '/admin/v1/session')).status).toBe(200);
});

test('where there are a thousand log-ins, a further one ends the oldest of the account that has most, so that no tenant keeps operators out', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const { metadata } = world.context;
  const browser = await openBrowser(world);
  const [own] = await scanLogins(metadata, { limit: 1 });
  if (own === undefined) throw new Error('there is no log-in');
  const login = async (n: number, account: string) => {
    const id = `${n}`.padStart(64, '0');
    const { row } = own;
    const put = { ...row, id, account, accessKey: `KEY-${n}`, createdAt: row.createdAt + n };
    await commitLogin(metadata, { put, expect: 'absent' }, []);
    return id;
  };
  const ids: string[] = [];
  for (let n = 0; n < 999; n += 1) ids.push(await login(n, n < 900 ? bob.owner : `account-${n}`));
  await clock.advance(1_000);
  const second = await openBrowser(world);
  for (const each of [browser, second])
    expect((await each.send('GET', '/admin/v1/session')).status).toBe(200);
  const left = new Set((await scanLogins(metadata, { limit: 2_000 })).map(({ row }) => row.id));
  expect([left.size, ids.filter((id) => !left.has(id))]).toEqual([1_000, [ids[0]]]);
  // The same tenant ends its own.
  expect((await logIn(world, bob)).status).toBe(200);
  const now = new Set((await scanLogins(metadata, { limit: 2_000 })).map(({ row }) => row.id));
  expect([now.size, ids.filter((id) => !now.has(id))]).toEqual([1_000, [ids[0], ids[1]]]);
});

test('where each of a thousand accounts has one log-in, a further one is refused', async () => {
  await using world = await openGateway();
  const { metadata } = world.context;
  await openBrowser(world);
  const [own] = await scanLogins(metadata, { limit: 1 });
  if (own === undefined) throw new Error('there is no log-in');
  for (let n = 0; n < 999; n += 1) {
    const put = { ...own.row, id: `${n}`.padStart(64, '0'), account: `account-${n}`, accessKey: `KEY-${n}` };
    await commitLogin(metadata, { put, expect: 'absent' }, []);
  }
  const refused = await logIn(world, bob);
  expect([refused.status, JSON.parse(refused.text).code]).toEqual([409, 'LimitExceeded']);
});

describe('failed log-ins', () => {
  test('are limited by access key at an address, while requests with a signature still pass', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    const wrong = { ...operator, secretKey: 'wrong' };
    for (let i = 0; i < 10; i += 1) expect((await logIn(world, wrong)).status).toBe(403);
    const limited = await logIn(world);
    expect([limited.status, limited.header('retry-after')]).toEqual([429, '900']);
    expect((await world.as({ credential: operator }).get('/admin/v1/clusters')).status).toBe(200);
    await clock.advance(15 * minuteMs);
    expect((await logIn(world)).status).toBe(200);
  });

  test('are limited by access key also when they arrive together', async () => {
    await using world = await openGateway();
    const user = await openUser(world, 'carol', { root: operator, policy: allow('admin:ListClusters') });
    const wrong = { ...user.credential, secretKey: 'wrong' };
    const tries = await Promise.all(Array.from({ length: 25 }, () => logIn(world, wrong)));
    expect(tries.filter(({ status }) => status === 403)).toHaveLength(10);
    expect(tries.filter(({ status }) => status === 429)).toHaveLength(15);
  });

  test('of strangers at other addresses lock no operator out, and slow the log-ins of the key down', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock, settings: { SVC_TRUSTED_PROXIES: '127.0.0.1' } });
    const from = (address: string, credential: Parameters<typeof logIn>[1]) =>
      logIn(world, credential, { 'x-forwarded-for': address });
    const wrong = { ...operator, secretKey: 'wrong' };
    for (let stranger = 0; stranger < 10; stranger += 1) {
      const address = `192.0.2.${stranger}`;
      for (let i = 0; i < 10; i += 1) expect((await from(address, wrong)).status).toBe(403);
      expect((await from(address, wrong)).status).toBe(429);
      if (stranger < 9) expect((await from('198.51.100.1', operator)).status).toBe(200);
    }
    const sleep = vi.spyOn(clock, 'sleep');
    const slow = from('198.51.100.1', operator);
    await vi.waitFor(() => expect(sleep).toHaveBeenCalledWith(2_000), { timeout: 60_000 });
    await clock.advance(2_000);
    expect((await slow).status).toBe(200);
    await clock.advance(15 * minuteMs);
    expect((await from('198.51.100.1', operator)).status).toBe(200);
  });

  test('are limited by IPv6 network of 64 bits, however an address is written', async () => {
    await using world = await openGateway({ settings: { SVC_TRUSTED_PROXIES: '127.0.0.1' } });
    const from = (address: string, key: string) =>
      logIn(world, { accessKey: key, secretKey: 'wrong' }, { 'x-forwarded-for': address });
    for (let i = 0; i < 15; i += 1) {
      expect((await from(`2001:db8::${i + 1}`, `KEY-${i}`)).status).toBe(403);
      expect((await from(`2001:0DB8:0:0:a:${i}:0:1`, `KEY-long-${i}`)).status).toBe(403);
    }
    expect((await from('2001:db8::ffff', 'KEY-new')).status).toBe(429);
    expect((await from('2001:db8:0:1::1', 'KEY-new')).status).toBe(403);
  });

  test('are limited by address, whatever keys they name', async () => {
    await using world = await openGateway();
    for (let i = 0; i < 30; i += 1)
      expect((await logIn(world, { accessKey: `KEY-${i}`, secretKey: 'wrong' })).status).toBe(403);
    expect((await logIn(world, { accessKey: 'KEY-new', secretKey: 'wrong' })).status).toBe(429);
  });
});

test('a secret that was typed in place of the access key is not audited', async () => {
  await using world = await openGateway();
  const swapped = { accessKey: operator.secretKey, secretKey: operator.accessKey };
  expect((await logIn(world, swapped)).status).toBe(403);
  const { text, all } = await world.as({ credential: operator }).get('/?audit');
  expect(all('Action')).toEqual(['admin:LogIn']);
  expect(text).toContain('login:unknown');
  expect(text).not.toContain(operator.secretKey);
});

test('a secret of 256 characters logs in, as the settings allow it', async () => {
  const long = person('long', { operator: true, secretKey: 's'.repeat(256) });
  await using world = await openGateway({ people: [long] });
  expect((await logIn(world, long)).status).toBe(200);
  expect((await logIn(world, { ...long, secretKey: 's'.repeat(257) })).status).toBe(400);
});

test('log-ins, log-outs, revocations and failures are audited, without secrets', async () => {
  await using world = await openGateway();
  await logIn(world, { ...operator, secretKey: 'a-wrong-secret' });
  const browser = await openBrowser(world);
  await browser.send('DELETE', '/admin/v1/session', { 'x-csrf-token': browser.csrfToken });
  const admin = world.as({ credential: operator });
  await admin.delete('/admin/v1/logins');
  const { text, all } = await admin.get('/?audit');
  expect(all('Action').sort()).toEqual(['admin:LogIn', 'admin:LogIn', 'admin:LogOut', 'admin:RevokeLogins']);
  expect(text).toContain(`login:${operator.accessKey}`);
  expect(text.split('arn:aws:iam::operator-account:root').length - 1).toBe(3);
  for (const secret of [
    'a-wrong-secret',
    operator.secretKey,
    browser.cookie.split('=')[1] ?? '-',
    browser.csrfToken,
  ])
    expect(text).not.toContain(secret);
});
