/** Every page for callers of every kind: a page asks only for what policies allow its caller, and says what they forbid. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { builtPages, pathOf } from './addresses.ts';
import { openUser } from './people.ts';
import { refusalsIn } from './reads.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Pair, type Tab } from './world.ts';

const parameters: Readonly<Record<string, string>> = { cluster: 'default', trace: 'none' };

describe.skipIf(noChromium !== undefined)('every page', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    await send(world.server, 'PUT', '/of-root');
    await send(world.server, 'PUT', '/of-numbered', { as: world.server.credentials.numbered });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** Goes on within the page, as a link does, until something is said and nothing is awaited. */
  async function walk({ page }: Tab, path: string): Promise<void> {
    await page.evaluate((to) => {
      // A page that its caller may not see has led here.
      if (location.pathname === to) return;
      for (const each of document.querySelectorAll('main *')) each.setAttribute('data-former', '');
      history.pushState({}, '', to);
      dispatchEvent(new PopStateEvent('popstate'));
    }, `/console${path}`);
    await page.waitForFunction(() => {
      const main = document.querySelector<HTMLElement>('main');
      const last = [...(main?.querySelectorAll('*') ?? [])].at(-1);
      const isNew = last !== undefined && !last.hasAttribute('data-former');
      // A heading alone, or the line at the foot of a page, says nothing to a caller who may see nothing else.
      const says = [...(main?.querySelectorAll<HTMLElement>('h1, .foot') ?? [])].reduce(
        (text, { innerText }) => text.replace(innerText, ''),
        main?.innerText ?? '',
      );
      return isNew && says.trim() !== '' && main?.querySelector('.skeleton') === null;
    });
  }

  interface Seen {
    /** The requests that were refused, with the page that was open. */
    readonly refused: readonly string[];
    /** The pages of the rail that can be opened. */
    readonly rail: readonly string[];
    readonly tabs: readonly string[];
  }

  const linksIn = ({ page }: Tab, name: string): Promise<readonly string[]> =>
    page.getByRole('navigation', { name, exact: true }).getByRole('link').allInnerTexts();

  async function walkAll(as: Pair, bucket: string, user: string): Promise<Seen> {
    await using tab = await world.open('/me', { as });
    const refused: string[] = [];
    let open = '';
    const looks: Promise<unknown>[] = [];
    tab.page.on('response', (reply) => {
      const at = open;
      looks.push(refusalsIn(reply).then((found) => refused.push(...found.map((each) => `${at}: ${each}`))));
    });
    const given = { ...parameters, bucket, user };
    // The page of a bucket is its first tab.
    for (const name of builtPages.filter((each) => each !== 'bucket')) {
      open = name;
      const path = pathOf(name).replace(
        /\$(\w*)/g,
        (_, parameter: string) => given[parameter as 'bucket'] ?? '',
      );
      await walk(tab, path).catch(() => refused.push(`${open}: it goes on waiting`));
    }
    await tab.page.waitForLoadState('networkidle');
    await Promise.all(looks);
    // By now every permission is known.
    await walk(tab, `/buckets/${bucket}/objects/`);
    return { refused, rail: await linksIn(tab, 'Pages'), tabs: await linksIn(tab, 'Bucket') };
  }

  test('offers an operator every page, and refuses it none', async () => {
    const { root } = testCredentials;
    const { refused, rail, tabs } = await walkAll(root, 'of-root', 'root-account');
    expect(refused).toEqual([]);
    expect([rail.length, tabs.length]).toEqual([13, 9]);
  });

  test('asks nothing that is forbidden to a restricted operator', async () => {
    const actions = ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListTraces', 'admin:ListAudit'];
    const restricted = await openUser(world.server, 'restricted', { actions });
    expect(await walkAll(restricted, 'of-root', 'root-account')).toEqual({
      refused: [],
      rail: ['Buckets', 'Audit', 'Traces', 'My account'],
      tabs: ['Objects', 'Journal'],
    });
  });

  test('asks nothing that is forbidden to the root of a tenant’s account', async () => {
    const { numbered } = world.server.credentials;
    expect(await walkAll(numbered, 'of-numbered', numbered.owner)).toEqual({
      refused: [],
      rail: ['Buckets', 'My account'],
      tabs: ['Objects', 'Versions', 'Open uploads', 'Settings', 'Access', 'Usage', 'Automation'],
    });
  });

  test('asks nothing that is forbidden to a user with a narrow policy', async () => {
    const { owner } = world.server.credentials.numbered;
    const narrow = await openUser(world.server, 'narrow', { account: owner, actions: ['s3:ListBucket'] });
    expect(await walkAll(narrow, 'of-numbered', owner)).toEqual({
      refused: [],
      rail: ['My account'],
      tabs: ['Objects'],
    });
  });

  test('asks nothing that is forbidden to a user who may read one configuration', async () => {
    const { owner } = world.server.credentials.numbered;
    const actions = ['s3:ListBucket', 's3:GetBucketCORS', 's3:GetBucketPolicy'];
    const reader = await openUser(world.server, 'cors-reader', { account: owner, actions });
    expect(await walkAll(reader, 'of-numbered', owner)).toMatchObject({
      refused: [],
      tabs: ['Objects', 'Settings', 'Access'],
    });
  });

  test('leads a caller who may not see the overview to the first page that it may see', async () => {
    const { numbered } = world.server.credentials;
    const auditor = await openUser(world.server, 'auditor', { actions: ['admin:ListAudit'] });
    for (const [as, home] of [
      [numbered, 'Buckets'],
      [auditor, 'Audit'],
    ] as const) {
      await using tab = await world.open('/', { as });
      await tab.page.getByRole('heading', { name: home, level: 1 }).waitFor();
      expect(await tab.page.locator('.rail-entry.is-open').innerText()).toBe(home);
    }
  });

  test('asks a caller whose account is suspended for another key', async () => {
    const json = { 'content-type': 'application/json' };
    const made = await send(world.server, 'POST', '/admin/v1/accounts', {
      body: '{"account":"soon-suspended"}',
      headers: json,
    });
    await using tab = await world.open('/buckets', { as: (await made.json()) as Pair });
    await send(world.server, 'PUT', '/admin/v1/accounts/soon-suspended', {
      body: '{"status":"Suspended"}',
      headers: json,
    });
    await tab.page.reload();
    await tab.page.getByRole('heading', { name: 'Log in' }).waitFor();
  });
});
