/** SIGBUS and SIGSEGV that end the processes of a node. */
import { expect, test } from 'vitest';
import { MemoryFaults } from '../../src/runtime/processes/memory-faults.ts';

test('the node ends at the fifth fault within ten minutes, and logs that once though more processes end', async () => {
  const messages: string[] = [];
  const faults = new MemoryFaults((_, message) => void messages.push(message), undefined);
  const ended = await Promise.all(
    [1, 2, 3, 4, 5, 6].map((pid) => faults.note({ pid, signal: 'SIGSEGV' }, 1_000)),
  );
  expect(ended.map(({ isHopeless }) => isHopeless)).toEqual([false, false, false, false, true, true]);
  expect(messages.filter((each) => each.includes('the node ends'))).toHaveLength(1);
});

test('faults that lie further apart, and ends by other signals, do not end the node', async () => {
  const faults = new MemoryFaults(() => {}, undefined);
  for (let hour = 0; hour < 20; hour += 1)
    expect((await faults.note({ pid: hour, signal: 'SIGBUS' }, hour * 3_600_000)).isHopeless).toBe(false);
  for (let at = 0; at < 20; at += 1)
    expect((await faults.note({ pid: at, signal: 'SIGKILL' }, at)).isHopeless).toBe(false);
});
