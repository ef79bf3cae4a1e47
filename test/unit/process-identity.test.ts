/** Processes of a machine see which others have ended. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { hasEnded, processIdentity, readStat } from '../../src/backends/process-identity.ts';
import { acquireLease } from '../../src/metadata/background/leases.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const own = processIdentity() ?? '';

test('a process has ended only when its id is free, or another process has it', async () => {
  const child = spawn('sleep', ['60']);
  const identity = processIdentity(child.pid ?? 0) ?? '';
  expect([hasEnded(own), hasEnded(identity)]).toEqual([false, false]);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(hasEnded(identity)).toBe(true);
  const [boot, namespace, pid, startedAt] = own.split('/');
  expect(hasEnded([boot, namespace, pid, Number(startedAt) - 1].join('/'))).toBe(true);
});

test('the name of a program may look like the fields behind it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-name-'));
  const program = join(directory, 'a) Z 1 (b');
  copyFileSync('/bin/sleep', program);
  const child = spawn(program, ['60']);
  try {
    await once(child, 'spawn');
    await expect.poll(() => readFileSync(`/proc/${child.pid}/comm`, 'utf8')).toBe('a) Z 1 (b\n');
    const pid = child.pid as number;
    expect(readStat(pid)).toMatchObject({ pid: String(pid), state: expect.stringMatching(/^[RSD]$/) });
    expect(hasEnded(processIdentity(pid) ?? '')).toBe(false);
  } finally {
    child.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  }
});

test('what a process has used of processors is its user and system time', () => {
  const before = process.cpuUsage();
  const { pid, usedTicks = 0 } = readStat('self') ?? {};
  const after = process.cpuUsage();
  expect(pid).toBe(String(process.pid));
  // A tick is a hundredth of a second, and both of its parts are rounded.
  expect(usedTicks).toBeGreaterThanOrEqual((before.user + before.system) / 10_000 - 2);
  expect(usedTicks).toBeLessThanOrEqual((after.user + after.system) / 10_000 + 2);
});

test.each([0, 1])('of another boot or namespace of process ids nothing is known', (part) => {
  const parts = processIdentity()?.split('/') ?? [];
  parts[part] = 'other';
  parts[2] = '1';
  expect(hasEnded(parts.join('/'))).toBe(false);
});

test('a lease passes to another holder before it expires where the process of its holder has ended, with a higher generation', async () => {
  const clock = virtualClock();
  const metadata = memoryStore({ clock, random: systemRandom() });
  const held = await acquireLease(metadata, { name: 'l', holder: 'a', ttlMs: 60_000, process: 'p' });
  const wanted = { name: 'l', holder: 'b', ttlMs: 60_000 };
  expect(await acquireLease(metadata, { ...wanted, hasEnded: () => false })).toBeUndefined();
  expect(await acquireLease(metadata, wanted)).toBeUndefined();
  const taken = await acquireLease(metadata, { ...wanted, hasEnded: (process) => process === 'p' });
  expect(taken?.generation).toBe((held?.generation ?? 0) + 1);
  // The new holder has no process that another could take for ended.
  expect(await acquireLease(metadata, { ...wanted, holder: 'c', hasEnded: () => true })).toBeUndefined();
});
