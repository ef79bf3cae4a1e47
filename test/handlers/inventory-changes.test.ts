/** Inventories while their bucket, their configuration or the clock changes. */
import { expect, test } from 'vitest';
import { writeInventories } from '../../src/workers/inventory.ts';
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
});
