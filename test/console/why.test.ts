/** Why a request of a page of the console was refused: pages sign with temporary credentials. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { formOf, formType, type Parameters } from '../support/actions.ts';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Pair, type Tab } from './world.ts';

interface Temporary extends Pair {
  readonly sessionToken: string;
}

/** The temporary credentials of a page, as the page itself asks for them. */
const credentialsOf = ({ page }: Tab): Promise<Temporary> =>
  page.evaluate(async () => {
    const { csrfToken } = await (await fetch('/admin/v1/session')).json();
    const asked = { method: 'POST', headers: { 'x-csrf-token': csrfToken } };
    return (await fetch('/admin/v1/session/credentials', asked)).json();
  });

/** The id of a request that is refused. */
async function refusedPut({ server }: ConsoleWorld, path: string, as: Temporary): Promise<string> {
  const headers = { 'x-amz-security-token': as.sessionToken };
  const refusal = await send(server, 'PUT', path, { body: 'x', as, headers }).then(
    () => 'it was stored',
    String,
  );
  return /<RequestId>([^<]+)</.exec(refusal)?.[1] ?? refusal;
}

/** Temporary credentials of a role, by the query API of STS. */
async function assumeRole({ server }: ConsoleWorld, as: Pair, parameters: Parameters): Promise<Temporary> {
  const body = formOf({ Action: 'AssumeRole', Version: '2011-06-15', ...parameters });
  const reply = await send(server, 'POST', '/', { body, as, headers: formType });
  const text = await reply.text();
  const textOf = (name: string): string => new RegExp(`<${name}>([^<]+)<`).exec(text)?.[1] ?? '';
  return {
    accessKey: textOf('AccessKeyId'),
    secretKey: textOf('SecretAccessKey'),
    sessionToken: textOf('SessionToken'),
  };
}

describe.skipIf(noChromium !== undefined)('why a request of a page was refused', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('a tenant reads which statement of its bucket refused its own page', async () => {
    const tenant = world.server.credentials.numbered;
    await send(world.server, 'PUT', '/of-tenant', { as: tenant });
    const body = policyOf({
      Sid: 'NoLogs',
      Effect: 'Deny',
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::of-tenant/logs/*',
    });
    await send(world.server, 'PUT', '/of-tenant', { body, query: { policy: '' }, as: tenant });
    await using tab = await world.open('/buckets/of-tenant/access', { as: tenant });
    const credentials = await credentialsOf(tab);
    const requestId = await refusedPut(world, '/of-tenant/logs/1', credentials);
    await tab.go(`/buckets/of-tenant/access?requestId=${requestId}`);
    const { page } = tab;
    await page.getByText('A statement denies it, whatever others allow.').waitFor();
    await page.locator('.statement.is-deciding').getByText('"Sid": "NoLogs"').waitFor();
    await page.getByText('of a page of the console: the storage protocol only').waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('a page that policies forbid leads to the decision, and says who can allow it', async () => {
    const tenant = world.server.credentials.numbered;
    await send(world.server, 'PUT', '/unlisted', { as: tenant });
    const body = policyOf({
      Sid: 'NoList',
      Effect: 'Deny',
      Action: 's3:ListBucket',
      Resource: 'arn:aws:s3:::unlisted',
    });
    await send(world.server, 'PUT', '/unlisted', { body, query: { policy: '' }, as: tenant });
    for (const as of [testCredentials.root, tenant]) {
      await using tab = await world.open('/buckets/unlisted/objects/', { as });
      const { page } = tab;
      await page.getByText('Your policies do not allow you to list this bucket.').waitFor();
      await page.getByText(`An administrator of the account ${as.owner} can allow it.`).waitFor();
      expect(await tab.axe()).toEqual([]);
      await page.getByRole('main').getByRole('link', { name: 'Why?' }).click();
      await page.locator('.statement.is-deciding').getByText('"Sid": "NoList"').waitFor();
    }
    // Who may not ask gets no link; an operation of operators is nothing that an administrator of the account can allow.
    const narrow = await openUser(world.server, 'narrow', { actions: ['admin:ListBuckets'] });
    await using blind = await world.open('/workers', { as: narrow });
    await blind.page.getByText('An administrator of the account root-account can allow it.').waitFor();
    await blind.page.waitForLoadState('networkidle');
    expect(await blind.page.getByRole('main').getByRole('link', { name: 'Why?' }).count()).toBe(0);
    await using other = await world.open('/workers', { as: tenant });
    await other.page.getByText('Only operators of this gateway see this page.').waitFor();
  });

  test('an operator reads what is missing of the answer: a session policy by its SHA-256', async () => {
    await send(world.server, 'PUT', '/plain');
    const user = await openUser(world.server, 'assumer', { actions: ['sts:*'] });
    const trust = JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Principal: { AWS: 'root-account' }, Action: 'sts:AssumeRole' }],
    });
    const post = (path: string, body: object) =>
      send(world.server, 'POST', `/admin/v1/accounts/root-account${path}`, {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      });
    await post('/roles', { name: 'writer', trust });
    const allow = (Action: string) =>
      JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action, Resource: '*' }] });
    const { arn } = (await (await post('/policies', { name: 'all', document: allow('s3:*') })).json()) as {
      readonly arn: string;
    };
    await post('/attachments', { kind: 'role', name: 'writer', policy: arn });
    const Policy = allow('s3:GetObject');
    const session = await assumeRole(world, user, {
      RoleArn: 'arn:aws:iam::root-account:role/writer',
      RoleSessionName: 'nightly',
      Policy,
    });
    const requestId = await refusedPut(world, '/plain/key', session);
    await using tab = await world.open(`/why?requestId=${requestId}`, { width: 'phone', scheme: 'dark' });
    const { page } = tab;
    await page.getByText('A policy of the caller allows it.').waitFor();
    await page.getByText('arn:aws:sts::root-account:assumed-role/writer/nightly').waitFor();
    await page.getByText('The session policy of this request is not stored.').waitFor();
    await page.getByText(createHash('sha256').update(Policy).digest('hex')).waitFor();
    expect(await tab.axe()).toEqual([]);
  });
});
