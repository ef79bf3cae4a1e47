/** When an idle process gives its memory back, and how far the heap of a busy one grows. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open as openDatabase } from 'lmdb';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openIdleMemory } from '../../src/runtime/processes/idle-memory.ts';

const mib = 2 ** 20;
let cpuMs = 0;
let residentMiB = 100;
let releases = 0;
const messages: string[] = [];
const memory = {
  cpuMicros: () => cpuMs * 1000,
  anonymousBytes: () => residentMiB * mib,
  async release() {
    releases += 1;
    residentMiB = 120;
  },
};
const open = () => openIdleMemory({ log: (_level, message) => void messages.push(message) }, memory);

/** Of looks alone: lmdb sets timers of its own, also after a database has been closed. */
let openTimers = (): number => 0;
function countTimers(): void {
  const set = vi.spyOn(globalThis, 'setInterval');
  const cleared = vi.spyOn(globalThis, 'clearInterval');
  openTimers = () => {
    const gone = new Set(cleared.mock.calls.map(([timer]) => timer));
    return set.mock.results.filter(({ value }) => !gone.has(value)).length;
  };
}

beforeEach(() => {
  vi.useFakeTimers();
  countTimers();
  [cpuMs, residentMiB, releases] = [0, 100, 0];
  messages.length = 0;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** @param share of a processor that the process uses in these seconds */
async function pass(seconds: number, share: number): Promise<void> {
  for (let i = 0; i < seconds; i += 1) {
    cpuMs += share * 1000;
    await vi.advanceTimersByTimeAsync(1000);
  }
}

test('a process that was busy gives memory back when it has been idle for 30 s, once', async () => {
  const idle = open();
  idle.answered();
  residentMiB = 400;
  await pass(60, 0.5);
  expect(releases).toBe(0);
  await pass(29, 0.01);
  expect(releases).toBe(0);
  await pass(2, 0.01);
  expect(releases).toBe(1);
  // Probes of its health answer requests, too.
  for (let i = 0; i < 10; i += 1) {
    idle.answered();
    await pass(10, 0.01);
  }
  expect(releases).toBe(1);
  expect(messages).toEqual(['the process is idle, and has given memory back']);
});

test('a pause shorter than that releases nothing', async () => {
  const idle = open();
  idle.answered();
  residentMiB = 400;
  for (let i = 0; i < 5; i += 1) {
    await pass(20, 0.01);
    await pass(10, 0.2);
  }
  expect(releases).toBe(0);
});

test('a process that has grown little is not stopped for it', async () => {
  const idle = open();
  idle.answered();
  residentMiB = 163;
  await pass(60, 0.01);
  expect(releases).toBe(0);
});

test('a process whose memory has shrunk by itself gives back what it takes from then on', async () => {
  const idle = openIdleMemory(
    { log: (_level, message) => void messages.push(message) },
    {
      ...memory,
      // Buffers that are in use stay.
      release: async () => {
        releases += 1;
        residentMiB = 600;
      },
    },
  );
  residentMiB = 700;
  for (const [nowMiB, expected] of [
    [700, 1],
    [100, 1],
    [400, 2],
  ] as const) {
    residentMiB = nowMiB;
    idle.answered();
    await pass(31, 0);
    expect([nowMiB, releases]).toEqual([nowMiB, expected]);
  }
});

/** Resident pages of mapped files. No garbage collection changes them. */
function mappedBytes(): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  // A file on tmpfs counts as shared memory.
  const sizes = [...status.matchAll(/^Rss(?:File|Shmem):\s+(\d+) kB$/gm)];
  return sizes.reduce((sum, [, kib]) => sum + Number(kib) * 1024, 0);
}

test.runIf(process.platform === 'linux')(
  'pages of a map that were read, which a release does not give back, do not count as grown memory',
  async () => {
    vi.restoreAllMocks();
    vi.useRealTimers();
    const directory = mkdtempSync(join(tmpdir(), 'sluice-map-'));
    const database = openDatabase({ path: directory, noSubdir: false, encoding: 'binary' });
    try {
      const values = 128;
      const value = Buffer.alloc(mib, 7);
      for (let n = 0; n < values; n += 1) void database.put(n, value);
      await database.flushed;
      const before = mappedBytes();
      vi.useFakeTimers();
      countTimers();
      const idle = openIdleMemory({ log: (_level, message) => void messages.push(message) });
      for (let n = 0; n < values; n += 1) {
        const found = database.getBinaryFast(n);
        let sum = 0;
        for (let at = 0; at < (found?.length ?? 0); at += 4096) sum += found?.[at] ?? 0;
        expect(sum).toBe(7 * 256);
      }
      expect(mappedBytes() - before).toBeGreaterThan(80 * mib);
      idle.answered();
      await vi.advanceTimersByTimeAsync(31_000);
      expect([messages, openTimers()]).toEqual([[], 0]);
    } finally {
      vi.restoreAllMocks();
      vi.useRealTimers();
      await database.close();
      rmSync(directory, { recursive: true });
    }
  },
);

test('an idle process has no timer', async () => {
  const idle = open();
  expect(openTimers()).toBe(0);
  idle.answered();
  expect(openTimers()).toBe(1);
  await pass(31, 0);
  expect(openTimers()).toBe(0);
});

test('memory that cannot be released ends nothing, and is tried again after the next requests', async () => {
  const idle = openIdleMemory(
    { log: (_level, message) => void messages.push(message) },
    { ...memory, release: () => Promise.reject(new Error('no inspector')) },
  );
  residentMiB = 400;
  idle.answered();
  await pass(31, 0);
  expect(messages).toEqual(['memory was not given back']);
  idle.answered();
  await pass(31, 0);
  expect(messages).toHaveLength(2);
});

test('a serving process collects its whole heap before it has doubled', () => {
  // Objects that live long enough to leave the young generation, and then are garbage.
  const churn =
    'const ring = []; for (let n = 0; n < 15_000_000; n += 1) ring[n % 150_000] = { n, text: [n] };';
  const path = join(import.meta.dirname, '../../src/runtime/processes/idle-memory.ts');
  const bound = `import { boundHeapGrowth } from ${JSON.stringify(path)}; boundHeapGrowth();`;
  const countCollections = (before: string): number => {
    const options = ['--max-semi-space-size=16', '--trace-gc', '--input-type=module', '--eval'];
    const { stdout } = spawnSync(process.execPath, [...options, before + churn], { encoding: 'utf8' });
    return stdout.split('Mark-Compact').length - 1;
  };
  const unbounded = countCollections('');
  expect(unbounded).toBeGreaterThan(2);
  expect(countCollections(bound)).toBeGreaterThan(1.3 * unbounded);
});
