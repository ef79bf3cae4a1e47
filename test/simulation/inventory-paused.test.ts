/** A leader of the inventory worker that is paused beyond its lease changes neither the run of its successor nor a later one. */
import { expect, test } from 'vitest';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { operatorOf } from '../support/clusters.ts';
import { type Lists, must, openLists } from '../support/inventory-lists.ts';
import { pausedAtCall, runUntilPaused } from '../support/paused-at-call.ts';

const never = new AbortController().signal;
const path = '/buckets/bucket/inventory/all/run';
const keys = ['a', 'b', 'c', 'd', 'e'];

const readRun = ({ world }: Lists) => operatorOf(world).must('GET', path);

/** Two data files. */
async function openWorld(): Promise<Lists> {
  const lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '3' });
  for (const key of keys) await must(lists.world.client.put(`/bucket/${key}`, { body: key }));
  await lists.configure({ fields: ['Size'] });
  return lists;
}

/** What the clients do while the former leader is paused: the same files would have other rows. */
async function change({ world }: Lists): Promise<readonly string[]> {
  await must(world.client.delete('/bucket/a'));
  await must(world.client.put('/bucket/f', { body: 'f' }));
  return ['b', 'c', 'd', 'e', 'f'];
}

/** Runs the unit until the data files are written, and their manifest is next. */
async function writeFiles(lists: Lists, unit: ReturnType<typeof writeInventories>): Promise<void> {
  for (let files = 0; files < 2 && (await readRun(lists))['state'] === 'running'; files += 1)
    await unit(never);
}

for (const when of ['before', 'after'] as const)
  for (const next of ['its run', 'the next run', 'the next run, and its manifest'] as const)
    test(`a leader that is paused ${when} any call, until its successor has written the files of ${next}, changes none of them`, async () => {
      for (let at = 0; ; at += 1) {
        expect(at).toBeLessThan(200);
        await using lists = await openWorld();
        const { world, clock } = lists;
        const former = pausedAtCall(world.context, { at, when, tables: ['tasks'] });
        const unit = writeInventories(former.context, 1);
        const { isOver, ending } = await runUntilPaused(former, unit);
        if (isOver) break;
        const listed = await change(lists);
        const successor = writeInventories(world.context, 2);
        const ask = () => operatorOf(world).ask('POST', path);
        if (next !== 'its run') {
          while ((await successor(never)) === 'busy');
          clock.jump(120_000);
        }
        await ask();
        await writeFiles(lists, successor);
        if (next === 'the next run, and its manifest') while ((await successor(never)) === 'busy');
        const before = await readRun(lists);
        former.resume();
        const message = `call ${at}`;
        expect([undefined, expect.any(LeaseLost)], message).toContainEqual(await ending);
        for (let units = 0; (await successor(never)) === 'busy'; units += 1)
          expect(units, message).toBeLessThan(20);
        const { state, manifest, startedAt } = await readRun(lists);
        expect([state, startedAt], message).toEqual(['done', before['startedAt']]);
        const found = await lists.manifest();
        expect((await lists.keys('manifest.json')).at(-1), message).toBe(manifest);
        const rows = await lists.rows(found).catch((cause: unknown) => {
          throw new Error(message, { cause });
        });
        if (next !== 'its run')
          expect(
            rows.map(({ Key }) => Key),
            message,
          ).toEqual(listed);
        else expect(new Set(rows.map(({ Key }) => Key)).size, message).toBe(rows.length);
        expect(new Set(found.files.map(({ key }) => key)).size, message).toBe(found.files.length);
      }
    });
