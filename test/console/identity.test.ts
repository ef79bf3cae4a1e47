/** The Identity page: accounts, users, groups, roles and policies. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Pair, settled, type Tab } from './world.ts';

/** The key and the secret that the page shows once. */
async function readOnce({ page }: Tab): Promise<Pair> {
  const shown = page.getByRole('status', { name: 'New access key' });
  await shown.getByText(/shown this once/).waitFor();
  const [accessKey = '', secretKey = ''] = await shown.locator('.code').allTextContents();
  return { accessKey, secretKey };
}

describe.skipIf(noChromium !== undefined)('the Identity page', () => {
  let world: ConsoleWorld;
  let clerk: Pair;
  beforeAll(async () => {
    world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    await send(world.server, 'PUT', '/photos/cat', { body: 'meow' });
    clerk = await openUser(world.server, 'clerk', {
      actions: ['admin:ListIamUsers', 'admin:GetIamUser', 'admin:ListAccounts'],
    });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('an account is created with a key that is shown once, suspended, reactivated, and deleted', async () => {
    await using tab = await world.open('/iam/');
    const { page } = tab;
    await page.waitForURL('**/iam/accounts**');
    await page.getByRole('button', { name: 'Create account' }).click();
    await page.getByLabel('Account', { exact: true }).fill('tenant-7');
    await page.getByLabel('E-mail').fill('seven@example.com');
    await page.getByRole('button', { name: 'Create account' }).last().click();
    const pair = await readOnce(tab);
    await send(world.server, 'PUT', '/of-tenant-7', { as: pair });
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    // The open panel leaves no room for the column.
    await page.locator('td', { hasText: 'seven@example.com' }).waitFor({ state: 'attached' });
    const panel = page.getByRole('region', { name: 'tenant-7' });
    await panel.getByRole('button', { name: 'Suspend' }).waitFor();
    expect(await page.content()).not.toContain(pair.secretKey);
    expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain(
      pair.secretKey,
    );
    await panel.getByRole('button', { name: 'Suspend' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
    await panel.getByRole('button', { name: 'Reactivate' }).waitFor();
    await expect(send(world.server, 'GET', '/of-tenant-7', { as: pair })).rejects.toThrow('403');
    await page.getByText(/1 suspended\./).waitFor();
    await panel.getByRole('button', { name: 'Reactivate' }).click();
    await panel.getByRole('button', { name: 'Suspend' }).waitFor();
    await send(world.server, 'GET', '/of-tenant-7', { as: pair });

    await panel.getByRole('button', { name: 'Delete' }).last().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('tenant-7');
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByText('DeleteConflict').waitFor();
    await send(world.server, 'DELETE', '/of-tenant-7', { as: pair });
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await panel.waitFor({ state: 'detached' });
    await page.getByText(/all active\./).waitFor();
  });

  test('the quota and the rate limits of an account are set in its panel, and text that is no number is refused', async () => {
    await using tab = await world.open('/iam/accounts?open=alice-account');
    const { page } = tab;
    const size = page.getByLabel('Size at most');
    await size.fill('ten');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('“ten” is no number or size.').waitFor();
    await size.fill('10GiB');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('Saved.').waitFor();
    await page.getByLabel('Requests per second').fill('500');
    await page.getByRole('button', { name: 'Save' }).last().click();
    await page.getByText('Saved.').nth(1).waitFor();
    await page.reload();
    await settled(page);
    expect(await size.inputValue()).toBe('10GiB');
    expect(await page.getByLabel('Requests per second').inputValue()).toBe('500');
    const quota = await send(world.server, 'GET', '/admin/v1/iam/users/alice-account/quota');
    expect(await quota.json()).toMatchObject({ totalMaxBytes: 10 * 1024 ** 3, maxBuckets: 0 });
    expect(await tab.axe()).toEqual([]);
  });

  test('the quota and the rate limits of an account keep what another client set after the panel was opened, and 0 is refused', async () => {
    const at = (of: string) => `/admin/v1/${of}`;
    await using tab = await world.open('/iam/accounts?open=alice-account');
    const { page } = tab;
    const [quota, limits] = [at('iam/users/alice-account/quota'), at('accounts/alice-account/limits')];
    await page.getByLabel('Buckets at most').fill('0');
    await page.getByLabel('Bytes per second').fill('1MiB');
    await send(world.server, 'PUT', quota, { body: JSON.stringify({ totalMaxBytes: 2 ** 31 }) });
    await send(world.server, 'PUT', limits, { body: JSON.stringify({ requestsPerSecond: 70 }) });
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('0 would mean unlimited').waitFor();
    await page.getByLabel('Buckets at most').fill('5');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByText('Saved.').waitFor();
    await page.getByRole('button', { name: 'Save' }).last().click();
    await page.getByText('Saved.').nth(1).waitFor();
    const stored = async (path: string) => (await send(world.server, 'GET', path)).json();
    expect(await stored(quota)).toMatchObject({ totalMaxBytes: 2 ** 31, maxBuckets: 5 });
    expect(await stored(limits)).toEqual({ requestsPerSecond: 70, bytesPerSecond: 2 ** 20 });
  });

  test('a limit that another client has set since it was edited is shown before it is replaced', async () => {
    const at = '/admin/v1/iam/users/alice-account/quota';
    const limits = '/admin/v1/accounts/alice-account/limits';
    await using tab = await world.open('/iam/accounts?open=alice-account');
    const { page } = tab;
    await page.getByLabel('Buckets at most').fill('6');
    await page.getByLabel('Requests per second').fill('60');
    await send(world.server, 'PUT', at, { body: JSON.stringify({ maxBuckets: 7 }) });
    await send(world.server, 'PUT', limits, { body: JSON.stringify({ requestsPerSecond: 77 }) });
    const stored = async (path: string) => (await send(world.server, 'GET', path)).json();
    const [quotaSave, limitsSave] = [
      page.getByRole('button', { name: 'Save' }).first(),
      page.getByRole('button', { name: 'Save' }).last(),
    ];
    await quotaSave.click();
    await page.getByText('Another client has set this to 7 meanwhile').waitFor();
    await limitsSave.click();
    await page.getByText('Another client has set this to 77 meanwhile').waitFor();
    expect(await stored(at)).toMatchObject({ maxBuckets: 7 });
    expect(await stored(limits)).toMatchObject({ requestsPerSecond: 77 });
    await quotaSave.click();
    await page.getByText('Saved.').waitFor();
    await limitsSave.click();
    await page.getByText('Saved.').nth(1).waitFor();
    expect(await stored(at)).toMatchObject({ maxBuckets: 6 });
    expect(await stored(limits)).toMatchObject({ requestsPerSecond: 60 });
  });

  test('the first rate limit and the first quota of an account replace none that another client sets meanwhile', async () => {
    const account = 'first-limits';
    const quota = `/admin/v1/iam/users/${account}/quota`;
    const limits = `/admin/v1/accounts/${account}/limits`;
    await send(world.server, 'POST', '/admin/v1/accounts', { body: JSON.stringify({ account }) });
    await using tab = await world.open(`/iam/accounts?open=${account}`);
    const { page } = tab;
    for (const [at, label, body] of [
      [quota, 'Buckets at most', { maxBuckets: 7 }],
      [limits, 'Requests per second', { requestsPerSecond: 77 }],
    ] as const) {
      await page.route(`**${at}*`, async (route) => {
        if (route.request().method() === 'PUT')
          await send(world.server, 'PUT', at, { body: JSON.stringify(body) });
        await route.continue();
      });
      const form = page.locator('form').filter({ has: page.getByLabel(label) });
      await form.getByLabel(label).fill('6');
      await form.getByRole('button', { name: 'Save' }).click();
      await form.getByText('PreconditionFailed').waitFor();
      expect(await (await send(world.server, 'GET', at)).json()).toMatchObject(body);
    }
  });

  test('a user is created with a policy and a key in one form; the key is rotated', async () => {
    await using tab = await world.open('/iam/users');
    const { page } = tab;
    await page.getByRole('button', { name: 'Create user' }).first().click();
    await page.getByLabel('Name').fill('reader');
    await page.getByLabel('May').selectOption('read');
    await page.getByLabel('Bucket').fill('photos');
    await page.getByRole('button', { name: 'Create user' }).last().click();
    const first = await readOnce(tab);
    await send(world.server, 'GET', '/photos/cat', { as: first });
    await expect(send(world.server, 'PUT', '/photos/dog', { as: first })).rejects.toThrow('AccessDenied');
    await page.getByRole('button', { name: 'I have stored it' }).click();
    const panel = page.getByRole('region', { name: 'reader' });
    await panel.getByText(first.accessKey).waitFor();
    expect(new URL(page.url()).searchParams.get('open')).toBe('reader');

    await panel.getByRole('button', { name: 'Rotate' }).click();
    const second = await readOnce(tab);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Deactivate' }).click();
    await panel.getByText('inactive').waitFor();
    await send(world.server, 'GET', '/photos/cat', { as: second });
    await expect(send(world.server, 'GET', '/photos/cat', { as: first })).rejects.toThrow('403');
    await page.reload();
    await settled(page);
    expect(await page.content()).not.toContain(second.secretKey);
    expect(await tab.axe()).toEqual([]);

    await panel.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await panel.getByText('disabled', { exact: true }).waitFor();
    await expect(send(world.server, 'GET', '/photos/cat', { as: second })).rejects.toThrow('403');
    await panel.getByRole('button', { name: 'Enable' }).click();
    await panel.getByText('active', { exact: true }).first().waitFor();
  });

  test('a secret that is shown once is left only after a question, by whichever way', async () => {
    await send(world.server, 'POST', '/admin/v1/accounts/root-account/users', {
      body: '{"name":"forgetful"}',
    });
    await using tab = await world.open('/iam/users');
    const { page } = tab;
    const open = (name: string) => page.getByRole('row', { name }).getByRole('link').first();
    await open('forgetful').click();
    const panel = page.getByRole('region', { name: 'forgetful' });
    await panel.getByRole('button', { name: 'Create key' }).click();
    const pair = await readOnce(tab);
    const question = page.getByRole('dialog', { name: 'Leave without the secret?' });
    const stay = question.getByRole('button', { name: 'Stay' });
    const ways: readonly (() => Promise<unknown>)[] = [
      () => page.keyboard.press('Escape'),
      () => panel.getByRole('button', { name: 'Close' }).click(),
      () => page.evaluate(() => history.back()),
      () => open('clerk').click(),
      () => page.getByRole('link', { name: 'Groups' }).click(),
      () => page.getByRole('link', { name: 'Buckets' }).click(),
    ];
    for (const leave of ways) {
      await leave();
      await stay.waitFor();
      if (leave === ways[0]) expect(await tab.axe()).toEqual([]);
      await stay.click();
      await question.waitFor({ state: 'detached' });
      expect(await readOnce(tab)).toEqual(pair);
      await page.waitForURL('**/iam/users?open=forgetful');
    }
    // The filter of the list leaves the panel open.
    await page.getByRole('searchbox', { name: /^Filter/ }).fill('f');
    await page.waitForURL('**q=f*');
    await panel.getByRole('button', { name: 'I have stored it' }).click();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await open('forgetful').click();
    await panel.getByRole('button', { name: 'Create key' }).click();
    await readOnce(tab);
    await page.keyboard.press('Escape');
    await question.getByRole('button', { name: 'Leave' }).click();
    await panel.waitFor({ state: 'detached' });
  });

  test('a user whose policy was refused is not created twice when the form is sent again', async () => {
    await using tab = await world.open('/iam/users?create=1');
    const { page } = tab;
    await page.getByLabel('Name').fill('twice');
    await page.getByLabel('May').selectOption('document');
    await page.getByLabel('Document').fill('{"Statement": "<b>none</b>"}');
    const submit = page.getByRole('button', { name: 'Create user' }).last();
    await submit.click();
    await page.getByText('MalformedPolicy').waitFor();
    await page.getByText(/The user twice exists/).waitFor();
    await page.getByLabel('May').selectOption('none');
    await submit.click();
    await readOnce(tab);
  });

  test('groups, roles and policies: documents, attachments, inline policies and members', async () => {
    await using tab = await world.open('/iam/policies?create=1');
    const { page } = tab;
    await page.getByLabel('Name').fill('readers-may');
    await page.getByLabel('Document').fill('{"Statement": []}');
    await page.getByRole('button', { name: 'Create policy' }).last().click();
    await page.getByText('MalformedPolicy').waitFor();
    await page
      .getByLabel('Document')
      .fill('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}');
    await page.getByRole('button', { name: 'Create policy' }).last().click();
    await page.getByRole('region', { name: 'readers-may' }).getByText('v1').waitFor();
    expect(await tab.axe()).toEqual([]);

    await tab.go('/iam/groups?create=1');
    await page.getByLabel('Name').fill('readers');
    await page.getByRole('button', { name: 'Create group' }).last().click();
    const group = page.getByRole('region', { name: 'readers' });
    await group.getByLabel('Policy').selectOption({ label: 'readers-may' });
    await group.getByRole('button', { name: 'Attach' }).click();
    await group.getByRole('button', { name: 'Detach' }).waitFor();
    await group.getByLabel('Name').fill('nobody-such');
    await group.getByRole('button', { name: 'Add user' }).click();
    await group.getByText('NoSuchEntity').waitFor();
    await group.getByRole('button', { name: 'Add inline policy' }).click();
    await group.getByLabel('Name').last().fill('more');
    await group.getByRole('button', { name: 'Save' }).click();
    await group.getByText('Inline', { exact: true }).waitFor();
    await group.getByRole('button', { name: 'Edit' }).click();
    await group.getByLabel('Document').waitFor();
    expect(await group.getByLabel('Document').inputValue()).toContain('s3:GetObject');
    expect(await tab.axe()).toEqual([]);
    await group.getByRole('button', { name: 'Cancel' }).click();
    const more = group.getByRole('listitem').filter({ hasText: 'more' });
    await more.getByRole('button', { name: 'Delete' }).click();
    const ask = page.getByRole('dialog', { name: 'Delete more?' });
    await ask.getByText('This cannot be undone.').waitFor();
    await more.waitFor();
    await ask.getByRole('button', { name: 'Delete' }).click();
    await more.waitFor({ state: 'detached' });

    await tab.go('/iam/policies?open=readers-may');
    const policy = page.getByRole('region', { name: 'readers-may' });
    await policy.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('readers-may');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('DeleteConflict').waitFor();

    await tab.go('/iam/roles?create=1');
    await page.getByLabel('Name').fill('auditor');
    await page.getByRole('button', { name: 'Create role' }).last().click();
    const role = page.getByRole('region', { name: 'auditor' });
    await role.getByText('1 h').waitFor();
    expect(await role.getByLabel('Document').inputValue()).toContain('sts:AssumeRole');
    expect(await tab.axe()).toEqual([]);
  });

  test('a trust document and an inline policy that another client has replaced since are not replaced unseen', async () => {
    const at = '/admin/v1/accounts/root-account/roles/keeper';
    const documentOf = (sid: string, principal: object) => {
      const [effect, action] =
        'Principal' in principal ? ['Allow', 'sts:AssumeRole'] : ['Deny', 's3:PutObject'];
      const statement = { Sid: sid, Effect: effect, Action: action, ...principal };
      return JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
    };
    const trust = (sid: string) => documentOf(sid, { Principal: { AWS: 'arn:aws:iam::root-account:root' } });
    const inline = (sid: string) => documentOf(sid, { Resource: '*' });
    const putInline = (sid: string) =>
      send(world.server, 'PUT', `${at}/inline-policies/notes`, {
        body: JSON.stringify({ document: inline(sid) }),
      });
    await send(world.server, 'POST', '/admin/v1/accounts/root-account/roles', {
      body: JSON.stringify({ name: 'keeper', trust: trust('first') }),
    });
    await putInline('first');
    await using tab = await world.open('/iam/roles?open=keeper');
    const panel = tab.page.getByRole('region', { name: 'keeper' });
    await panel.getByRole('button', { name: 'Edit' }).click();
    await send(world.server, 'PUT', at, { body: JSON.stringify({ trust: trust('colleague') }) });
    await putInline('colleague');
    for (const form of await panel.locator('form', { has: tab.page.locator('textarea') }).all()) {
      const area = form.locator('textarea');
      await area.fill((await area.inputValue()).replace('first', 'mine'));
      await form.getByRole('button', { name: 'Save' }).click();
      await form.getByText('It was changed since you opened it').waitFor();
      await form.locator('del', { hasText: 'colleague' }).waitFor();
      await form.getByRole('button', { name: 'Take what is stored now' }).click();
      await form.getByText('It was changed since you opened it').waitFor({ state: 'detached' });
      expect(await area.inputValue()).toContain('colleague');
      expect(await area.inputValue()).not.toContain('mine');
    }
    // Nothing is unsaved any more, so that it is left without a question.
    await tab.page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    const stored = async (path: string) => (await send(world.server, 'GET', path)).text();
    expect(await stored(at)).toContain('colleague');
    expect(await stored(`${at}/inline-policies/notes`)).toContain('colleague');
  });

  test('a policy says who has it, with links, and a detachment and a deletion say what they concern', async () => {
    const post = (path: string, body: object) =>
      send(world.server, 'POST', `/admin/v1/accounts/root-account${path}`, {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      });
    const document =
      '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}';
    const { arn } = (await (await post('/policies', { name: 'used', document })).json()) as { arn: string };
    await post('/groups', { name: 'crew' });
    for (const name of ['kim', 'lee']) {
      await post('/users', { name });
      await send(world.server, 'PUT', `/admin/v1/accounts/root-account/groups/crew/users/${name}`);
    }
    for (const [kind, name] of [
      ['user', 'kim'],
      ['group', 'crew'],
    ])
      await post('/attachments', { kind, name, policy: arn });
    await using tab = await world.open('/iam/policies?open=used');
    const { page } = tab;
    const row = page.getByRole('row').filter({ hasText: 'used' });
    await row.getByText('2', { exact: true }).waitFor({ state: 'attached' });
    const panel = page.getByRole('region', { name: 'used' });
    await panel.getByText('Attached to 1 user, 1 group with 2 users.').waitFor();
    expect(await tab.axe()).toEqual([]);
    const entry = panel.getByRole('listitem').filter({ hasText: 'crew' });
    await entry.getByRole('button', { name: 'Detach' }).click();
    const dialog = page.getByRole('dialog', { name: 'Detach used from crew?' });
    await dialog.locator('dd').getByText('2', { exact: true }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await dialog.getByRole('button', { name: 'Detach' }).click();
    await panel.getByText('Attached to 1 user.').waitFor();
    await panel.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('Attached to', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await panel.getByRole('link', { name: 'kim' }).click();
    const user = page.getByRole('region', { name: 'kim' });
    await user.getByRole('button', { name: 'Detach' }).click();
    await page.getByRole('dialog').getByText('Policies that stay').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Detach' }).click();
    await user.getByText('No policy', { exact: false }).waitFor();
    await page.goBack();
    await panel.getByText('No user, group or role has it.').waitFor();
  });

  test('a restricted operator is offered only what its policies allow', async () => {
    await using tab = await world.open('/iam/users?open=clerk', { as: clerk });
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'clerk' });
    await panel.getByText(clerk.accessKey).waitFor();
    for (const name of ['Create user', 'Create key', 'Rotate', 'Deactivate', 'Delete', 'Disable', 'Detach'])
      expect(await page.getByRole('button', { name }).count()).toBe(0);
    expect(await page.getByRole('link', { name: 'Groups' }).count()).toBe(0);
    await tab.go('/iam/groups');
    await page.getByText('Your policies do not allow admin:ListIamGroups.').waitFor();
  });

  test('the address of a user leads to its panel, in German and on a phone', async () => {
    await using tab = await world.open('/iam/users/clerk', {
      width: 'phone',
      scheme: 'dark',
      locale: 'de-DE',
    });
    const { page } = tab;
    await page.waitForURL('**/iam/users?open=clerk');
    await page.getByRole('region', { name: 'clerk' }).getByText('Richtlinien').first().waitFor();
    expect(await tab.axe()).toEqual([]);
    const widest = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(widest).toBeLessThanOrEqual(360);
  });
});
