/** The operators' pages of the console, in Chromium: clusters, workers, traces, audit, events, replication, settings. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installTime, passTime } from './hour.ts';
import { pauseWorker } from './people.ts';
import { answerRead, holdReads } from './reads.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, settled } from './world.ts';

describe.skipIf(noChromium !== undefined)("the operators' pages", () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole({ env: { SVC_POOL_CLUSTERS: 'a,b' } });
    const listed = await send(world.server, 'GET', '/admin/v1/clusters');
    const { clusters } = (await listed.json()) as { clusters: { id: string; state: string }[] };
    for (const { id } of clusters.filter(({ state }) => state === 'pending'))
      await send(world.server, 'POST', `/admin/v1/clusters/${id}/activate`, { body: '{"weight":100}' });
    await send(world.server, 'PUT', '/photos');
    await send(world.server, 'PUT', '/photos/<b>cat</b>', { body: 'meow' });
    await send(world.server, 'GET', '/photos/absent').catch(() => {});
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('a weight is set in three steps, and the shares that it gives are shown first', async () => {
    await using tab = await world.open('/clusters');
    const { page } = tab;
    await page.getByRole('link', { name: 'a', exact: true }).click();
    const panel = page.getByRole('region', { name: 'a' });
    await panel.getByRole('spinbutton').fill('300');
    await panel.getByRole('cell', { name: '75%' }).waitFor();
    await panel.getByRole('button', { name: 'Set weight' }).click();
    await page.getByRole('cell', { name: '300', exact: true }).first().waitFor();
  });

  test('a weight that another operator has set meanwhile is shown before it is replaced, and so is a state', async () => {
    const weigh = (weight: number) =>
      send(world.server, 'PUT', '/admin/v1/clusters/a/weight', { body: JSON.stringify({ weight }) });
    const stored = async () =>
      (await (await send(world.server, 'GET', '/admin/v1/clusters/a')).json()) as {
        readonly weight: number;
        readonly state: string;
      };
    await weigh(300);
    await using tab = await world.open('/clusters?cluster=a');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'a', exact: true });
    await panel.getByRole('spinbutton').fill('250');
    await weigh(200);
    await panel.getByRole('button', { name: 'Set weight' }).click();
    await panel.getByText('It was changed meanwhile, so nothing was done.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.locator('dd', { hasText: /^200$/ }).waitFor();
    expect((await stored()).weight).toBe(200);
    await panel.getByRole('button', { name: 'Set weight' }).click();
    await panel.locator('dd', { hasText: /^250$/ }).waitFor();
    expect((await stored()).weight).toBe(250);
    await panel.getByRole('button', { name: 'Evacuate' }).click();
    const dialog = page.getByRole('dialog');
    await weigh(300);
    await dialog.getByRole('button', { name: 'Evacuate' }).click();
    await dialog.getByText('It was changed meanwhile, so nothing was done.').waitFor();
    expect((await stored()).state).toBe('live');
  });

  test('a peer that another operator has replaced meanwhile is not removed unseen', async () => {
    const at = '/admin/v1/replication/peers/spare';
    const put = (port: number) =>
      send(world.server, 'PUT', at, {
        body: JSON.stringify({
          endpoint: `http://127.0.0.1:${port}`,
          accessKey: 'AKIASPAREPEER',
          secretKey: 'spare-peer-secret-123',
          accounts: [{ account: '*', buckets: ['*'] }],
        }),
      });
    await put(1);
    await using tab = await world.open('/replication?peer=spare');
    const { page } = tab;
    await page.getByRole('button', { name: 'Remove' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('spare');
    await put(2);
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await dialog.getByText('It was changed meanwhile, so nothing was done.').waitFor();
    await send(world.server, 'GET', at);
    await page.getByText('http://127.0.0.1:2').first().waitFor();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect(send(world.server, 'GET', at)).rejects.toThrow('404');
  });

  test('a drain shows the bytes that it concerns before it begins, and can be undone', async () => {
    await using tab = await world.open('/clusters?cluster=b');
    const { page } = tab;
    await page.getByRole('button', { name: 'Stop writes' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/It concerns/).waitFor();
    await dialog.getByRole('button', { name: 'Stop writes' }).click();
    await page.getByRole('button', { name: 'Take writes again' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Take writes again' }).click();
    await page.getByRole('button', { name: 'Stop writes' }).waitFor();
  });

  test('who did something is found by bucket, and the row leads to its trace', async () => {
    await using tab = await world.open('/audit?bucket=photos');
    const { page } = tab;
    // All rows are shown: the rest of the log was not searched yet.
    await page.getByText('Searched back to').waitFor();
    expect(await page.getByRole('button', { name: 'Load more' }).count()).toBe(0);
    await page.getByText('CreateBucket').first().click();
    const panel = page.getByRole('region', { name: 'CreateBucket' });
    await panel.getByText('bucket:photos').waitFor();
    expect(new URL(page.url()).searchParams.get('row')).toContain('CreateBucket');
    await page.reload();
    await settled(page);
    await page.getByRole('region', { name: 'CreateBucket' }).waitFor();
  });

  test('what an operator changed is shown with the values before and after', async () => {
    for (const maxBytes of [1_111, 2_222]) {
      const body = JSON.stringify({ maxBytes, maxObjects: 0, maxBytesPerObject: 0 });
      await send(world.server, 'PUT', '/admin/v1/buckets/photos/quota', { body });
    }
    await using tab = await world.open('/audit?changed=maxBytes');
    const { page } = tab;
    await page.getByText('admin:PutBucketQuota').first().click();
    const panel = page.getByRole('region', { name: 'admin:PutBucketQuota' });
    await panel.locator('del', { hasText: '1111' }).waitFor();
    await panel.locator('ins', { hasText: '2222' }).waitFor();
  });

  test('who deleted a key is found by the key, also among those of a DeleteObjects', async () => {
    await send(world.server, 'PUT', '/photos/doomed/1', { body: 'x' });
    const Delete =
      '<Delete><Object><Key>doomed/1</Key></Object><Object><Key>doomed/2</Key></Object></Delete>';
    await send(world.server, 'POST', '/photos', {
      query: { delete: '' },
      body: Delete,
      headers: { 'content-md5': createHash('md5').update(Delete).digest('base64') },
    });
    await using tab = await world.open('/audit');
    const { page } = tab;
    const asked = new Set<string>();
    page.on('request', (request) => {
      for (const [, key = ''] of (request.postData() ?? '').matchAll(/"key":"([^"]*)"/g)) asked.add(key);
      const key = new URL(request.url()).searchParams.get('key');
      if (key !== null) asked.add(key);
    });
    await page
      .getByRole('searchbox', { name: 'Key', exact: true })
      .pressSequentially('doomed/2', { delay: 20 });
    await page.waitForURL(/[?&]key=doomed/);
    await page.getByText('2 keys').first().click();
    const panel = page.getByRole('region', { name: 'DeleteObjects' });
    await panel.getByText('doomed/1').waitFor();
    expect(new URL(page.url()).searchParams.get('key')).toBe('doomed/2');
    // Not for each letter.
    expect([...asked]).toEqual(['doomed/2']);
  });

  test('a refused request is found by its key, and its waterfall is shown', async () => {
    await using tab = await world.open('/traces?status=4xx');
    const { page } = tab;
    await page.getByText('NoSuchKey').first().waitFor();
    await page.getByRole('row').filter({ hasText: 'NoSuchKey' }).getByRole('link').first().click();
    await page.getByRole('heading', { name: 'GetObject', level: 1 }).waitFor();
    await page.locator('.waterfall li').first().waitFor();
  });

  test('while traces of another filter are asked for, the page says nothing of them, and marks those of the filter before', async () => {
    await using tab = await world.open('/traces?status=5xx');
    const { page } = tab;
    const none = page.getByText('No request matches.');
    const missing = page.getByRole('row').filter({ hasText: 'NoSuchKey' }).first();
    await none.waitFor();
    const choose = async (status: string, look: () => Promise<void>) => {
      const held = await holdReads(page, new RegExp(`status(?:=|":")${status}`));
      await page.getByRole('combobox', { name: 'Result' }).selectOption(status);
      await held.asked;
      await expect.poll(async () => (await page.locator('.answer').allInnerTexts()).join('')).toBe('');
      await look();
      await held.release();
    };
    await choose('4xx', () => none.waitFor({ state: 'detached' }));
    await missing.waitFor();
    await page.getByText(/kept\.$/).waitFor();
    await choose('2xx', () => page.locator('[aria-busy=true]').filter({ has: missing }).waitFor());
    await missing.waitFor({ state: 'detached' });
    expect(await page.locator('.content [aria-busy]').count()).toBe(0);
    await tab.go('/');
    const day = await holdReads(page, /minutes(?:=|":"?)1440/);
    await page.getByRole('button', { name: '24 hours' }).click();
    await day.asked;
    await page.locator('[aria-busy=true]').filter({ hasText: 'Refused' }).waitFor();
    await day.release();
    await expect.poll(() => page.locator('.content [aria-busy]').count()).toBe(0);
  });

  test('the rows of the last hour and an open panel stay while minutes pass', async () => {
    await using tab = await world.open('/me');
    const { page } = tab;
    await installTime(page);
    await tab.go('/audit?bucket=photos&hours=1');
    await page.locator('[data-row] .row-opener').first().click();
    await page.getByRole('region').getByText('Request', { exact: true }).first().waitFor();
    await page.evaluate(() => {
      const vanished: string[] = [];
      Object.assign(globalThis, { vanished });
      new MutationObserver((records) => {
        for (const { removedNodes } of records)
          for (const node of removedNodes)
            if (node instanceof HTMLElement && node.matches('.panel, .table-region'))
              vanished.push(node.className);
      }).observe(document.body, { childList: true, subtree: true });
    });
    await passTime(page, 150);
    expect(await page.evaluate(() => (globalThis as unknown as { vanished: string[] }).vanished)).toEqual([]);
  });

  test('what the clusters hold is said only where it is known', async () => {
    await using tab = await world.open('/me');
    const { page } = tab;
    const refusal = { code: 'OperationAborted', message: 'The pool does not answer.' };
    const data = { operation: 'GetStorageData', path: '/storage/data' };
    await answerRead(page, data, () => ({ status: 409, json: refusal }));
    await tab.go('/clusters');
    await page.getByText('2 clusters.', { exact: true }).waitFor();
    await page.getByRole('alert').getByText('The pool does not answer.').waitFor();
    await page.unrouteAll();
    await tab.go('/clusters');
    await page.getByText(/^2 clusters hold [\d.]+ \w+\.$/).waitFor();
  });

  test('a cell of the matrix filters the traces by operation and duration, with a click and with the arrows', async () => {
    for (let n = 0; n < 3; n += 1) await send(world.server, 'GET', `/photos/none-${n}`).catch(() => {});
    await using tab = await world.open('/traces');
    const { page } = tab;
    const matrix = page.getByRole('region', { name: 'By operation and duration' });
    const refused = matrix.getByRole('button', { name: /^GetObject, Refused: / });
    const count = Number(await refused.textContent());
    expect(count).toBeGreaterThanOrEqual(3);
    await refused.click();
    const asked = () => new URL(page.url()).searchParams;
    await expect.poll(() => asked().toString()).toBe('operation=GetObject&status=4xx');
    const rows = page.getByRole('region', { name: 'Traces' }).locator('[data-row]');
    await page.getByText(/^\d+ requests are kept\./).waitFor();
    await expect.poll(() => rows.count()).toBeGreaterThanOrEqual(count);
    await expect
      .poll(async () => (await rows.allTextContents()).filter((text) => !text.includes('GetObject')))
      .toEqual([]);
    await page.reload();
    await settled(page);
    expect(await refused.getAttribute('aria-pressed')).toBe('true');
    // From there the arrows reach the other cells, and no other button of the matrix is in the way of Tab.
    await refused.focus();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    await expect
      .poll(() => asked().toString())
      .toMatch(/^operation=GetObject&band=10*$|^operation=GetObject&band=0$/);
    expect(await matrix.locator('button[tabindex="0"]').count()).toBe(1);
    // Rows of the choice before are pale while the next one is answered.
    await page.locator('.is-previous').waitFor({ state: 'detached' });
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Show all' }).click();
    await expect.poll(() => asked().toString()).toBe('');
  });

  test('the level of the log is changed in one step', async () => {
    await using tab = await world.open('/settings');
    const { page } = tab;
    await page.getByRole('combobox', { name: 'Level' }).selectOption('DEBUG');
    await page.getByText('In force in every process of this node.').waitFor();
    await page.reload();
    await settled(page);
    expect(await page.getByRole('combobox', { name: 'Level' }).inputValue()).toBe('DEBUG');
  });

  test('a worker is paused with a reason, resumed and run', async () => {
    await using tab = await world.open('/workers?worker=inventory');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'inventory' });
    await panel.getByRole('button', { name: 'Pause' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Reason' }).fill('the <b>lists</b> move');
    await dialog.getByRole('button', { name: 'Pause' }).click();
    await panel.getByText('the <b>lists</b> move').waitFor();
    await page.getByText('1 worker is paused.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Resume' }).click();
    await panel.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('inventory runs within two seconds.').waitFor();
  });

  test('each process that runs a worker has a row and a panel of its own, and one that has stopped has none beside it', async () => {
    await using two = await openConsole({ env: { SVC_PROCESSES: '2' } });
    const listRows = async () => {
      const listed = await send(two.server, 'GET', '/admin/v1/workers');
      const { workers } = (await listed.json()) as { workers: { worker: string; process: string }[] };
      return workers.filter(({ worker }) => worker === 'gc').map(({ process }) => process);
    };
    await expect.poll(listRows, { timeout: 60_000 }).toHaveLength(2);
    const processes = await listRows();
    await using tab = await two.open('/workers');
    const { page } = tab;
    for (const process of processes) {
      await page
        .getByRole('row', { name: `gc ${process}` })
        .getByRole('link')
        .click();
      const panel = page.getByRole('region', { name: 'gc' });
      await panel.getByText(process).waitFor();
      expect(new URL(page.url()).searchParams.get('process')).toBe(process);
      await page.reload();
      await panel.getByText(process).waitFor();
    }
    // The first process has ended.
    const listWorkers = { operation: 'ListWorkers', path: '/workers' };
    await answerRead(page, listWorkers, () => ({
      json: {
        workers: [
          { worker: 'gc', state: 'stopped', process: processes[0], beatAt: 1_000 },
          { worker: 'gc', state: 'idle', process: processes[1], beatAt: 2_000 },
          { worker: 'scrub', state: 'stopped', process: processes[0], beatAt: 1_000 },
        ],
      },
    }));
    await tab.go(`/workers?worker=gc&process=${processes[0]}`);
    await page
      .getByRole('region', { name: 'gc' })
      .getByText(processes[1] ?? '')
      .waitFor();
    const names = page.getByRole('cell').getByRole('link');
    expect(await names.allInnerTexts()).toEqual(['gc', 'scrub']);
  });

  test('a task that waits has its bar and its reason', async () => {
    await pauseWorker(world.server, 'force-empty', 'audit');
    await send(world.server, 'POST', '/admin/v1/buckets/photos/force-empty');
    await using tab = await world.open('/workers');
    const { page } = tab;
    await page.getByRole('progressbar', { name: 'Emptying photos' }).waitFor();
    await page.getByText(/paused the worker force-empty: audit/).waitFor();
    expect(await tab.axe()).toEqual([]);
    await send(world.server, 'POST', '/admin/v1/workers/force-empty/resume', { body: '{}' });
    await page
      .getByRole('progressbar', { name: 'Emptying photos' })
      .waitFor({ state: 'detached', timeout: 60_000 });
  });

  test('the panel of a worker says what it does', async () => {
    await using tab = await world.open('/workers?worker=gc');
    await tab.page.getByText('Deletes bytes that no version needs any more.').waitFor();
  });
});
