/** The tab Access of a bucket. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeKeyFile } from '../support/encryption.ts';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'Read',
      Effect: 'Allow',
      Principal: '*',
      Action: ['s3:GetObject'],
      Resource: 'arn:aws:s3:::photos/public/*',
    },
    {
      Effect: 'Deny',
      Principal: { AWS: 'arn:aws:iam::alice-account:root' },
      NotAction: 's3:ListBucket',
      Resource: ['arn:aws:s3:::photos', 'arn:aws:s3:::photos/*'],
      Condition: { StringLike: { 'aws:UserAgent': '<b>*</b>' } },
    },
  ],
});

describe.skipIf(noChromium !== undefined)('the tab Access of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    for (const bucket of ['photos', 'plain']) await send(world.server, 'PUT', `/${bucket}`);
    await send(world.server, 'DELETE', '/photos', { query: { publicAccessBlock: '' } }).catch(() => {});
    await send(world.server, 'PUT', '/photos', { body: policy, query: { policy: '' } });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('says what decides in one sentence each, and leads to the document', async () => {
    await using tab = await world.open('/buckets/photos/access');
    const { page } = tab;
    await page.getByText('2 statements. It allows something to everyone.').waitFor();
    const rows = page.getByRole('region', { name: 'Statements of the policy' }).getByRole('row');
    await rows.filter({ hasText: 'Allow' }).getByText('s3:GetObject').waitFor();
    await rows.filter({ hasText: 'Deny' }).getByText('all but s3:ListBucket').waitFor();
    await rows.filter({ hasText: 'Deny' }).getByText('<b>*</b>').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('link', { name: 'Edit Policy' }).click();
    await page.getByRole('region', { name: 'policy' }).getByLabel('Document (JSON)').waitFor();
    await tab.go('/buckets/plain/access');
    await page.getByText('There is no policy').waitFor();
  });

  test('says whether a caller may do something and by which statement, and the address keeps the question', async () => {
    await using tab = await world.open('/buckets/photos/access', { width: 'phone', scheme: 'dark' });
    const { page } = tab;
    await page.getByLabel('Key of an object').fill('public/cat');
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('The policy of the bucket allows it.').waitFor();
    // The statement that decides, in the document that has it, and why the other one does not.
    const deciding = page.locator('.statement', { hasText: 'decides' });
    await deciding.getByText('"Sid": "Read"').waitFor();
    await page.locator('.statement', { hasText: 'another caller' }).getByText('<b>*</b>').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByLabel('Key of an object').fill('private/cat');
    await page.getByLabel('Access key').fill(testCredentials.alice.accessKey);
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('It belongs to another account, and only one side allows it.').waitFor();
    await page.reload();
    await page.getByText('It belongs to another account, and only one side allows it.').waitFor();
    expect(await page.getByLabel('Key of an object').inputValue()).toBe('private/cat');
  });

  test('an edit of the bucket policy is tried before it is saved', async () => {
    await send(world.server, 'PUT', '/drafts');
    const only = (Effect: string) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          {
            Sid: Effect,
            Effect,
            Principal: { AWS: 'arn:aws:iam::alice-account:root' },
            Action: 's3:PutObject',
            Resource: 'arn:aws:s3:::drafts/*',
          },
        ],
      });
    await send(world.server, 'PUT', '/drafts', { body: only('Deny'), query: { policy: '' } });
    const { alice } = testCredentials;
    const put = () => send(world.server, 'PUT', '/drafts/key', { body: 'x', as: alice });
    await expect(put()).rejects.toThrow('403');
    await using tab = await world.open(
      `/why?accessKey=${alice.accessKey}&action=s3:PutObject&bucket=drafts&key=key&asked=1`,
    );
    const { page } = tab;
    await page.getByText('A statement denies it, whatever others allow.').waitFor();
    await page.locator('.statement.is-deciding').getByText('"Sid": "Deny"').waitFor();
    await page.getByRole('button', { name: 'Edit and try' }).click();
    const draft = page.getByLabel('Draft', { exact: true });
    await draft.fill('{');
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('MalformedPolicy').waitFor();
    await draft.fill(only('Allow'));
    expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('With the draft it is allowed.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await expect(put()).rejects.toThrow('403');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.statement.is-deciding').getByText('"Sid": "Allow"').waitFor();
    await put();
    tab.problems.length = 0;
  });

  test('a refusal leads to the statement of an identity policy that decided it, and to its edit', async () => {
    const narrow = await openUser(world.server, 'narrow', { actions: ['s3:ListBucket'] });
    await send(world.server, 'PUT', '/photos/refused', { body: 'x', as: narrow }).catch(() => {});
    await using tab = await world.open('/audit?status=4xx&key=refused');
    const { page } = tab;
    await page.getByText('PutObject').first().click();
    await page.getByRole('link', { name: 'Why?' }).click();
    await page.getByText('No statement and no ACL allows it.').waitFor();
    await page.getByText('arn:aws:iam::root-account:user/narrow').waitFor();
    await page.locator('.statement', { hasText: 'another action' }).getByText('s3:ListBucket').waitFor();
    await page
      .locator('section', { hasText: 'policy/of-narrow' })
      .getByRole('button', { name: 'Edit and try' })
      .click();
    const draft = page.getByLabel('Draft', { exact: true });
    await draft.fill((await draft.inputValue()).replace('s3:ListBucket', 's3:PutObject'));
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('With the draft it is allowed.').waitFor();
    await page.getByText('policy/of-narrow, statement 0').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    // The answer about the draft has the same text.
    await draft.first().waitFor({ state: 'detached' });
    await page.getByText('A policy of the caller allows it.').waitFor();
    await send(world.server, 'PUT', '/photos/refused', { body: 'x', as: narrow });
  });

  test('a tenant sees what decides in its bucket, asks about its own callers, and edits its policy', async () => {
    const tenant = world.server.credentials.numbered;
    const { owner } = tenant;
    await send(world.server, 'PUT', '/of-tenant', { as: tenant });
    const statement = {
      Sid: 'NoWrites',
      Effect: 'Deny',
      Principal: { AWS: `arn:aws:iam::${owner}:user/writer` },
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::of-tenant/*',
    };
    const document = { Version: '2012-10-17', Statement: [statement] };
    const body = JSON.stringify(document);
    await send(world.server, 'PUT', '/of-tenant', { body, query: { policy: '' }, as: tenant });
    const actions = ['s3:PutObject', 's3:GetBucketPolicy', 's3:GetBucketAcl', 's3:ListBucket'];
    const writer = await openUser(world.server, 'writer', { account: owner, actions });
    await using tab = await world.open('/buckets/of-tenant/access', { as: tenant });
    const { page } = tab;
    await page.getByText('1 statement. It allows nothing to everyone.').waitFor();
    await page.getByLabel('Access key').fill(writer.accessKey);
    await page.getByLabel('Action').fill('s3:PutObject');
    await page.getByLabel('Key of an object').fill('any');
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('A statement denies it, whatever others allow.').waitFor();
    await page.locator('.statement.is-deciding').getByText('"Sid": "NoWrites"').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Edit and try' }).click();
    const draft = page.getByLabel('Draft', { exact: true });
    await draft.fill(body.replace('s3:PutObject', 's3:DeleteObject'));
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByText('With the draft it is allowed.').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    // The answer about the draft has the same text.
    await draft.first().waitFor({ state: 'detached' });
    await page.getByText('A policy of the caller allows it.').waitFor();
    await send(world.server, 'PUT', '/of-tenant/any', { body: 'x', as: writer });
    // Another account's key is answered like one that does not exist.
    await page.getByLabel('Access key').fill(testCredentials.alice.accessKey);
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('AccessDenied').waitFor();
    // A user sees what its policies allow it to read, and is offered no question that they forbid.
    await using narrow = await world.open('/buckets/of-tenant/access', { as: writer, locale: 'de-DE' });
    await narrow.page.getByText('1 Statement.').waitFor();
    await narrow.page.getByText('Gewährt nicht allen etwas.').waitFor();
    expect(await narrow.page.getByText('Sperre öffentlichen Zugriffs').count()).toBe(0);
    expect(await narrow.page.getByText('Darf jemand das?').count()).toBe(0);
    expect(await narrow.page.getByText('Trace', { exact: true }).count()).toBe(0);
  });

  test('only what policy allows is offered', async () => {
    const reader = await openUser(world.server, 'access-reader', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListBucketConfigurations'],
    });
    await using tab = await world.open('/buckets/photos/access', { as: reader, locale: 'de-DE' });
    await tab.page.getByText('2 Statements. Sie erlaubt allen etwas.').waitFor();
    expect(await tab.page.getByText('Darf jemand das?').count()).toBe(0);
    const blind = await openUser(world.server, 'access-blind', { actions: ['admin:GetBucket'] });
    await using other = await world.open('/buckets/photos/access', { as: blind });
    await other.page.getByText('Your policies do not allow admin:ListBucketConfigurations.').waitFor();
    const partial = await openUser(world.server, 'access-partial', {
      actions: ['admin:ListBucketConfigurations'],
    });
    await using third = await world.open('/buckets/photos/access', { as: partial });
    await third.page.getByText('Your policies do not allow admin:GetBucket.').waitFor();
  });
});

test.skipIf(noChromium !== undefined)(
  'the signing key of a bucket is set, rotated and removed, and each secret is shown once',
  async () => {
    await using world = await openConsole({
      env: {
        SVC_KEY_PROVIDER: 'local-hsm',
        SVC_HSM_KEYS_FILE: await writeKeyFile(),
        SVC_KMS_DEFAULT_KEY_ID: 'first',
      },
    });
    await send(world.server, 'PUT', '/signed');
    await using tab = await world.open('/buckets/signed/access');
    const { page } = tab;
    await page.getByText('Not set: the access keys of callers sign.').waitFor();
    const change = async (action: string): Promise<void> => {
      await page.getByRole('button', { name: action }).click();
      const dialog = page.getByRole('dialog');
      expect(await dialog.getByRole('button', { name: action }).isDisabled()).toBe(true);
      await dialog.getByRole('textbox').fill('signed');
      await dialog.getByRole('button', { name: action }).click();
    };
    const secret = page.getByRole('status', { name: 'New access key' });
    const readSecret = async (): Promise<string> => {
      await secret.waitFor();
      return secret.innerText();
    };
    await change('Set a signing key');
    const first = await readSecret();
    expect(await tab.axe()).toEqual([]);
    // Only the key of the bucket signs for it now.
    await expect(send(world.server, 'PUT', '/signed/x', { body: 'x' })).rejects.toThrow('403');
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await change('Rotate');
    expect(await readSecret()).not.toBe(first);
    await page.reload();
    await page.getByText('Only requests that this key signs are accepted.').waitFor();
    expect(await secret.count()).toBe(0);
    await change('Remove');
    await page.getByText('Not set: the access keys of callers sign.').waitFor();
    await send(world.server, 'PUT', '/signed/x', { body: 'x' });
    const lister = await openUser(world.server, 'lister', {
      actions: ['admin:GetBucket', 'admin:ListBucketConfigurations'],
    });
    await using other = await world.open('/buckets/signed/access', { as: lister });
    await other.page.getByText('Not set: the access keys of callers sign.').waitFor();
    expect(await other.page.getByRole('button', { name: 'Set a signing key' }).count()).toBe(0);
  },
);

test.skipIf(noChromium !== undefined)(
  'a refusal of background work leads from its note to the statement that decided, and to its trace',
  async () => {
    await using world = await openConsole();
    const { server } = world;
    const json = { 'content-type': 'application/json' };
    const user = '/admin/v1/accounts/root-account/users/runner/inline-policies';
    const write = (Effect: string) =>
      send(server, 'PUT', `${user}/only`, {
        body: JSON.stringify({
          document: JSON.stringify({
            Version: '2012-10-17',
            Statement: [
              { Effect: 'Allow', Action: ['admin:ListWorkers', 'admin:ExplainDecision'], Resource: '*' },
              { Effect, Action: ['admin:RunWorker'], Resource: '*' },
            ],
          }),
        }),
        headers: json,
      });
    const runner = await openUser(server, 'runner', { actions: ['admin:GetVersion'] });
    await write('Allow');
    await using tab = await world.open('/workers?worker=gc', { as: runner });
    const { page } = tab;
    const run = page.getByRole('button', { name: /Run/ }).first();
    await run.waitFor();
    // The page has asked already, so it still offers what is forbidden now.
    await write('Deny');
    await run.click();
    const confirm = page.getByRole('dialog').getByRole('button', { name: /Run/ });
    if ((await confirm.count()) > 0) await confirm.click();
    const note = page.locator('.toast');
    await note.getByText('not authorized').waitFor();
    await note.getByRole('link', { name: 'Trace' }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await note.getByRole('link', { name: 'Why?' }).click();
    await page.getByText('A statement denies it, whatever others allow.').waitFor();
    tab.problems.length = 0;
  },
);
