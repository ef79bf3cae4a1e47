/**
 * What the time of a bucket's last change costs a commit on `embedded`: beside the amounts of a new object, and alone,
 * as an overwrite of the same size stores it. Without a flush, with 16 commits at a time; the variants take turns, and
 * each figure is the lower quartile.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { counterChanges } from '../../src/metadata/buckets/usage.ts';
import type { SideChange } from '../../src/ports/metadata-store.ts';
import { head, headsOf } from '../../test/contract/metadata-store/tables.ts';
import { openMachineStore } from '../../test/support/machine-stores.ts';
import type { Piece } from '../lib/micro.ts';

const turns = 100;
const warmTurns = 10;
const commitsPerTurn = 640;
const writers = 16;

export async function counterTime(): Promise<Piece[]> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-counter-time-'));
  const store = openMachineStore('embedded', { directory, durable: false, intentTtlMs: 60_000 });
  let count = 0;
  const commit = async (then: readonly SideChange[]): Promise<void> => {
    const row = head('b', `photos/2026/${count}.jpg`, { size: 4096 });
    const outcome = await store.commit(headsOf('b', 0), [{ put: row, expect: 'absent' }], { then });
    if (!outcome.applied) throw new Error('a commit was refused');
  };
  const add = (bytes: number, objects: number, updatedAt?: number) => {
    count += 1;
    return counterChanges('b', `${count}`, [{ storageClass: 'STANDARD', bytes, objects }], updatedAt);
  };
  const variants = [
    { then: () => add(4096, 1), costs: [] as number[] },
    { then: () => add(4096, 1, Date.now()), costs: [] as number[] },
    { then: () => add(0, 0), costs: [] as number[] },
    { then: () => add(0, 0, Date.now()), costs: [] as number[] },
  ];
  for (let turn = 0; turn < warmTurns + turns; turn += 1)
    for (const { then, costs } of turn % 2 === 0 ? variants : variants.toReversed()) {
      const before = process.cpuUsage();
      let left = commitsPerTurn;
      const write = async () => {
        while (left-- > 0) await commit(then());
      };
      await Promise.all(Array.from({ length: writers }, write));
      const { user, system } = process.cpuUsage(before);
      if (turn >= warmTurns) costs.push((user + system) / commitsPerTurn);
    }
  await store.close();
  rmSync(directory, { recursive: true, force: true });
  const [amounts = 0, both = 0, none = 0, time = 0] = variants.map(
    ({ costs }) => costs.toSorted((a, b) => a - b)[turns / 4],
  );
  return [
    { name: 'commit with amounts and time', micros: both, floor: { name: 'amounts alone', micros: amounts } },
    { name: 'commit with the time alone', micros: time, floor: { name: 'no addition', micros: none } },
  ];
}
