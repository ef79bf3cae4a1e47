/** The ballast file that frees real blocks on a full disk, shared by several processes of a node. */
import fs from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Ballast } from '../../src/backends/disk-space.ts';

const MiB = 1024 * 1024;
const sizeBytes = 16 * MiB;
const never = new AbortController().signal;

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const files = (): readonly string[] => fs.readdirSync(directory).toSorted();

/** The bytes that the file system has allocated for a file; a sparse file has fewer than its size. */
const blockBytes = (name: string): number => fs.statSync(join(directory, name)).blocks * 512;

/** Resolves when a process is in the middle of writing the blocks. */
async function inTheMiddle(): Promise<void> {
  for (let turn = 0; turn < 1_000_000; turn += 1) {
    if (sizeOfDraft() >= 4 * MiB) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('nothing is written');
}
const sizeOfDraft = (): number =>
  fs.statSync(join(directory, 'reserve.draft'), { throwIfNoEntry: false })?.size ?? 0;

test('a process that begins to write the reserve does not spoil that of another, which is at it', async () => {
  const [first, second] = [new Ballast(directory, sizeBytes), new Ballast(directory, sizeBytes)];
  const writing = first.refill(never);
  await inTheMiddle();
  // The refill is aborted before it has written anything.
  expect(await second.refill(AbortSignal.abort())).toBe(false);
  expect(await writing).toBe(true);
  expect([files(), first.isWhole, second.isWhole]).toEqual([['reserve'], true, true]);
  expect(blockBytes('reserve')).toBeGreaterThanOrEqual(sizeBytes);
});

test('a reserve that another process gives up while it is written is not taken for whole', async () => {
  const [writer, other] = [new Ballast(directory, sizeBytes), new Ballast(directory, sizeBytes)];
  fs.writeFileSync(join(directory, 'reserve.spent'), '');
  const writing = writer.refill(never);
  await inTheMiddle();
  expect(other.spend()).toBe(true);
  expect(await writing).toBe(false);
  expect([writer.isWhole, writer.isSpent]).toEqual([false, true]);
  expect(blockBytes('reserve.spent')).toBe(0);
  expect(await other.refill(never)).toBe(true);
  expect([files(), blockBytes('reserve') >= sizeBytes]).toEqual([['reserve'], true]);
});

test('the draft of a process that was killed is written anew', async () => {
  fs.writeFileSync(join(directory, 'reserve.draft'), Buffer.alloc(MiB));
  const ballast = new Ballast(directory, sizeBytes);
  // The first attempts assume that the writer of the draft still works on it.
  expect(await ballast.refill(never)).toBe(false);
  expect(sizeOfDraft()).toBe(MiB);
  for (let attempt = 0; attempt < 60 && !ballast.isWhole; attempt += 1) await ballast.refill(never);
  expect([files(), ballast.isWhole]).toEqual([['reserve'], true]);
});
