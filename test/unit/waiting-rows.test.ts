/** What the leader remembers of rows in the waiting lanes of a queue. */
import { expect, test } from 'vitest';
import { WaitingRows } from '../../src/domain/lanes/waiting-rows.ts';
import { beginLanes } from '../../src/metadata/background/hourly-consumer.ts';
import { hourMs, waitingSlot } from '../../src/metadata/background/hourly-queues.ts';
import type { HourlyRow } from '../../src/metadata/records/queues.ts';
import type { SideChange } from '../../src/ports/metadata-store.ts';
import { openGateway } from '../support/gateway.ts';

const subject = { target: 'hook', tenant: 'bucket', owner: '', object: 'bucket/key' };
const subjectOf = () => subject;
const number = waitingSlot(3, subject.tenant);

test('after a move that failed, an object waits in its slot, and the next pass may try it', async () => {
  await using world = await openGateway();
  const { metadata } = world.context;
  const due = await metadata.now();
  const hour = Math.floor(due / hourMs);
  const row: HourlyRow = {
    queue: 'notify',
    slot: 3,
    hour,
    due,
    id: 'a',
    task: {},
    attempts: 0,
    requestId: 'r',
  };
  let isFailing = true;
  const apply = async (changes: readonly SideChange[]): Promise<void> => {
    if (isFailing) throw new Error('once');
    await metadata.apply(changes);
  };
  const ctx = { ...world.context, metadata: Object.create(metadata, { apply: { value: apply } }) };
  const waiting = new WaitingRows(ctx);
  const term = await beginLanes(metadata, 'notify', 1);
  const move = () =>
    waiting.move([row], { queue: 'notify', term, subjectOf, restsUntil: () => Number.NEGATIVE_INFINITY });
  waiting.reserve(row, subject);
  await expect(move()).rejects.toThrow('once');
  // Some of the rows may have been moved.
  expect(waiting.has(row, subject)).toBe(true);
  expect(waiting.begin(number)).toEqual([hour]);
  expect(waiting.hasArrived(number, subject.object)).toBe(false);
  waiting.reserve(row, subject);
  expect(waiting.hasArrived(number, subject.object)).toBe(true);
  isFailing = false;
  await move();
  waiting.begin(number);
  expect(waiting.hasArrived(number, subject.object)).toBe(false);
  // A pass that finds no row ends the count of what was not moved.
  waiting.isEmpty(number, hour);
  expect(waiting.has(row, subject)).toBe(false);
});
