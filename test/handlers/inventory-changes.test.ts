/** Inventories while their bucket, their configuration or the clock changes, and under KMS keys. */
import { expect, test } from 'vitest';
import { writeInventories } from '../../src/workers/inventory.ts';
import { ambush } from '../support/ambush.ts';
import { operatorOf } from '../support/clusters.ts';
import { encryptingSettings, keyOf, writeKeyFile } from '../support/encryption.ts';
import { alice } from '../support/gateway.ts';
import { type Lists, must, openLists } from '../support/inventory-lists.ts';

const never = new AbortController().signal;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test.each([
  [
    'the bucket is deleted and made again',
    async ({ world: { client } }: Lists) => {
      for (const key of ['a', 'b', 'c']) await must(client.delete(`/bucket/${key}`));
      await must(client.delete('/bucket'));
      await must(client.put('/bucket'));
      await must(client.put('/bucket/new', { body: 'new' }));
    },
  ],
  ['the configuration is changed', (lists: Lists) => lists.configure({ fields: ['ETag'], prefix: 'c' })],
])(
  'when %s while its inventory is written, nothing of the old one is listed in a manifest',
  async (_, change) => {
    await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '1' });
    for (const key of ['a', 'b', 'c']) await must(lists.world.client.put(`/bucket/${key}`, { body: key }));
    await lists.configure({});
    const unit = writeInventories(lists.world.context);
    expect(await unit(never)).toBe('busy');
    await change(lists);
    while ((await unit(never)) === 'busy');
    expect(await lists.keys('manifest.json')).toEqual([]);
    // The next look begins what is configured now.
    await lists.configure({ fields: ['ETag'] });
    lists.clock.jump(2_000);
    await lists.run();
    const { client } = lists.world;
    const present = (await client.get('/bucket?list-type=2')).all('Key');
    const rows = await lists.rows(await lists.manifest());
    expect(rows.map(({ Key }) => Key)).toEqual(present);
  },
);

test('a bucket that is made again with the same configuration while its inventory is written gets one of its own objects', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '1' });
  const { client } = lists.world;
  for (const key of ['a', 'b', 'c']) await must(client.put(`/bucket/${key}`, { body: key }));
  await lists.configure({});
  const unit = writeInventories(lists.world.context);
  expect(await unit(never)).toBe('busy');
  for (const key of ['a', 'b', 'c']) await must(client.delete(`/bucket/${key}`));
  await must(client.delete('/bucket'));
  await must(client.put('/bucket'));
  await lists.configure({});
  await must(client.put('/bucket/new', { body: 'new' }));
  while ((await unit(never)) === 'busy');
  lists.clock.jump(2_000);
  await lists.run();
  expect(await lists.keys('manifest.json')).toHaveLength(1);
  expect((await lists.rows(await lists.manifest())).map(({ Key }) => Key)).toEqual(['new']);
});

test('a clock that steps back or ahead writes a daily inventory once for each day', async () => {
  await using lists = await openLists();
  await lists.configure({});
  const count = async (): Promise<number> => {
    lists.clock.jump(2_000);
    await lists.run();
    return (await lists.keys('manifest.json')).length;
  };
  expect(await count()).toBe(1);
  lists.clock.jump(-dayMs);
  expect(await count()).toBe(1);
  lists.clock.jump(dayMs);
  expect(await count()).toBe(1);
  lists.clock.jump(dayMs + 2 * hourMs);
  expect(await count()).toBe(2);
  lists.clock.jump(-2 * hourMs);
  expect(await count()).toBe(2);
  // Not the days until the clock is where it was.
  lists.clock.jump(-5 * dayMs);
  expect(await count()).toBe(3);
  expect(await count()).toBe(3);
});

test('an inventory is encrypted under the KMS key of its configuration, and fails where its account may not use it', async () => {
  const keys = await writeKeyFile({
    own: { key: keyOf(1).toString('base64'), accounts: [alice.owner] },
    foreign: { key: keyOf(2).toString('base64'), accounts: ['other-account'] },
  });
  const settings = { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE: keys };
  await using lists = await openLists('memory', settings);
  const { client } = lists.world;
  await must(client.put('/bucket/key', { body: 'content' }));
  const encryption = (key: string) => `<Encryption><SSE-KMS><KeyId>${key}</KeyId></SSE-KMS></Encryption>`;
  await lists.configure({ encryption: encryption('own') });
  await lists.run();
  const manifest = await lists.manifest();
  for (const key of [manifest.files[0]?.key, ...(await lists.keys('manifest.json'))]) {
    const { header } = await client.head(`/lists/${key}`);
    expect(header('*-server-side-encryption')).toBe('aws:kms');
    expect(header('*-server-side-encryption-aws-kms-key-id')).toContain('own');
  }
  expect(await lists.rows(manifest)).toHaveLength(1);
  await lists.configure({ id: 'second', encryption: encryption('foreign') });
  lists.clock.jump(2_000);
  await lists.run();
  expect(lists.warned).toMatchObject([
    { id: 'second', hint: expect.stringContaining('a KMS key must name its account') },
  ]);
});

test('of two operators that begin an inventory in one minute, one of whom stalls, the manifest of the first stays', async () => {
  const { rightBefore, wrap } = ambush();
  await using lists = await openLists('memory', {}, { wrap });
  const { client } = lists.world;
  await must(client.put('/bucket/a', { body: 'a' }));
  await lists.configure({ isEnabled: false });
  const { must: ask } = operatorOf(lists.world);
  const path = '/buckets/bucket/inventory/all/run';
  // The first run comes between the look of the second request and its commit.
  rightBefore('tasks', async () => {
    await ask('POST', path);
    await lists.run();
    await must(client.put('/bucket/b', { body: 'b' }));
  });
  await ask('POST', path);
  const [manifest] = await lists.keys('manifest.json');
  const first = await lists.manifest();
  expect(await ask('GET', path)).toMatchObject({ state: 'running' });
  await lists.run();
  expect(await lists.keys('manifest.json')).toEqual([manifest]);
  expect(await lists.manifest()).toEqual(first);
  expect(await ask('GET', path)).toMatchObject({ state: 'done', manifest, rows: 1 });
  lists.clock.jump(60_000);
  await ask('POST', path);
  await lists.run();
  expect(await lists.keys('manifest.json')).toHaveLength(2);
  expect(await ask('GET', path)).toMatchObject({ state: 'done', rows: 2 });
});
