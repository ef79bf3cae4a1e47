/** A failure adds an error to the row of a task. */
import { describe, expect, test } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import { queuedTask } from '../../src/metadata/background/hourly-queues.ts';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import { failedReplication } from '../../src/metadata/background/replication.ts';
import type { HourlyRow, QueueRow } from '../../src/metadata/records/queues.ts';
import { commitLimits, RowTooLong, rowBytes, type SideChange } from '../../src/ports/metadata-store.ts';

const ctx = {
  caches: new Caches(),
  metadata: { apply: async () => {}, get: async () => undefined, now: async () => 0 },
  clock: { elapsed: () => 0 },
};
const rowOf = (change: SideChange) => (change as { readonly put: QueueRow }).put;
const queue = async (name: 'notify' | 'replication', padding: string): Promise<HourlyRow> => {
  const task = { key: 'k', bucket: 'b', sink: 's', message: { padding } };
  const options = { task, id: 'id', due: 1, requestId: 'r', traceparent: undefined };
  // The cast: a row of an hourly queue.
  return rowOf(await queuedTask(ctx, { queue: name, slot: 0 }, options)) as HourlyRow;
};
/** The longest row that the queue accepts. */
async function longest(name: 'notify' | 'replication', char: string): Promise<HourlyRow> {
  let [taken, refused] = [0, commitLimits.rowBytes];
  while (refused - taken > 1) {
    const length = Math.floor((taken + refused) / 2);
    const isTaken = await queue(name, char.repeat(length)).then(
      () => true,
      (cause: unknown) => {
        expect(cause).toBeInstanceOf(RowTooLong);
        return false;
      },
    );
    if (isTaken) taken = length;
    else refused = length;
  }
  return queue(name, char.repeat(taken));
}

describe.each(['k', '"', '€', '\u0001', '😀'])('of a task full of %j', (char) => {
  test.each(['no', char.repeat(100_000), '\ud800'.repeat(100_000)])('an error fits', async (error) => {
    const failures = [
      ...deadLetter(await longest('notify', char), { error, now: 2, expiresAt: 3, bucket: 'b'.repeat(255) }),
      ...failedReplication(await longest('replication', char), { error, now: 2, expiresAt: 3 }),
    ];
    const rows = failures.map(rowOf);
    for (const row of rows) expect(rowBytes(row)).toBeLessThanOrEqual(commitLimits.rowBytes);
    for (const failure of rows.filter(({ queue: name }) => !name.includes('/'))) {
      const stored = (failure.task as { readonly error: string }).error;
      expect(stored.length).toBeGreaterThan(Math.min(error.length, 250) - 1);
      expect(error.startsWith(stored)).toBe(true);
    }
  });
});
