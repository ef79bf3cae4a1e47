/**
 * A process that opens the metadata file writes the number of the latest commit into `lock.mdb`. When other commits came in between, that
 * number is stale. It happens once in some hundred openings under load; here a process writes the stale number deliberately.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, closeSync, openSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { checkPages } from '../../src/backends/metadata/embedded/check-pages.ts';
import { compactFile } from '../../src/backends/metadata/embedded/compact.ts';
import { type EmbeddedStore, embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { all, head, headsOf } from './metadata-store/tables.ts';

/** Called once, at the moment when lmdb opens the file. */
let duringOpening: (() => void) | undefined;
/** Called once, when lmdb has opened the file and before the store has used it. */
let afterOpening: (() => void) | undefined;
vi.mock('lmdb', async (original) => {
  const lmdb = await original<typeof import('lmdb')>();
  const open = (options: never): unknown => {
    duringOpening?.();
    duringOpening = undefined;
    const opened = lmdb.open(options);
    afterOpening?.();
    afterOpening = undefined;
    return opened;
  };
  return { ...lmdb, open };
});

let directory = '';
let store: EmbeddedStore;
let refusals: string[] = [];
const openStore = (): EmbeddedStore =>
  embeddedStore({
    directory,
    clock: systemClock,
    random: systemRandom(),
    durable: false,
    onRefused: (cause) => refusals.push(String(cause)),
  });
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stale-'));
  refusals = [];
  store = openStore();
});
afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

/** Runs a script in another process, because this process would lose lmdb's locks if it closed the file. */
function inProcess(script: string): string {
  const lock = JSON.stringify(join(directory, 'lock.mdb'));
  const source = `import { openSync, readSync, writeSync } from 'node:fs';
const lock = openSync(${lock}, 'r+');
const note = new BigUint64Array(1);
${script}`;
  return execFileSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8' });
}
const noted = (): number =>
  Number(inProcess('readSync(lock, note, 0, 8, 8); process.stdout.write(String(note[0]));'));
const note = (transaction: number): void =>
  void inProcess(`note[0] = ${transaction}n; writeSync(lock, note, 0, 8, 8);`);

const put = (key: string) => store.commit(headsOf('b'), [{ put: head('b', key), expect: 'absent' }]);
const keys = async (): Promise<string[]> => (await all(store.scan(headsOf('b')))).map(({ key }) => key);

function faultsIn(path: string): unknown[] {
  const descriptor = openSync(path, 'r');
  try {
    return [...checkPages(descriptor)].flatMap(({ faults }) => faults);
  } finally {
    closeSync(descriptor);
  }
}

describe('after another process opened the file while this one committed', () => {
  for (const commits of [1, 2, 3]) {
    it(`the next commit keeps the ${commits} that came in between, and is applied`, async () => {
      await put('before');
      const earlier = noted();
      const between = Array.from({ length: commits }, (_, index) => `between-${index}`);
      for (const key of between) expect(await put(key)).toMatchObject({ applied: true });
      expect(noted()).toBe(earlier + commits);
      note(earlier);
      expect(await put('later')).toMatchObject({ applied: true });
      expect(await keys()).toEqual(['before', ...between, 'later']);
      expect(refusals).toEqual([expect.stringContaining('another process opened the metadata file')]);
      expect(noted()).toBe(earlier + commits + 1);
      await store.close();
      expect(faultsIn(join(directory, 'data.mdb'))).toEqual([]);
      store = openStore();
      expect(await keys()).toEqual(['before', ...between, 'later']);
    });
  }

  it('a read during the opening returns the latest commit', async () => {
    await put('before');
    const earlier = noted();
    await put('between');
    expect(await keys()).toEqual(['before', 'between']);
    // The other process announces its opening, and then its lmdb writes the number that it read before.
    appendFileSync(join(directory, 'openings'), `+${process.pid}\n`);
    note(earlier);
    expect(await keys()).toEqual(['before', 'between']);
    note(earlier);
    appendFileSync(join(directory, 'openings'), `-${process.pid}\n`);
    expect(await store.get(headsOf('b'), { key: 'between', slot: '~' })).toBeDefined();
    expect(await keys()).toEqual(['before', 'between']);
  });

  it('a read that has just looked for openings, and finds none yet, still returns the latest commit', async () => {
    await put('before');
    const earlier = noted();
    await put('between');
    const readBetween = () => store.get(headsOf('b'), { key: 'between', slot: '~' });
    // It stays open as long as the store, which would lose its locks.
    const lock = openSync(join(directory, 'lock.mdb'), 'r+');
    let read: ReturnType<typeof readBetween> | undefined;
    duringOpening = () => {
      writeSync(lock, new BigUint64Array([BigInt(earlier)]), 0, 8, 8);
      read = readBetween();
    };
    await readBetween();
    const second = openStore();
    onTestFinished(() => second.close());
    onTestFinished(() => closeSync(lock));
    expect(await read).toBeDefined();
  });

  it('a read does not wait for a process that died during its opening', async () => {
    await put('before');
    const dead = Number(inProcess('process.stdout.write(String(process.pid));'));
    appendFileSync(join(directory, 'openings'), `+${dead}\n`);
    const wait = vi.spyOn(Atomics, 'wait');
    onTestFinished(() => wait.mockRestore());
    expect(await keys()).toEqual(['before']);
    expect(wait).not.toHaveBeenCalled();
  });

  it('its start names the latest commit again, for readers of all processes', async () => {
    await put('before');
    const earlier = noted();
    await put('between');
    await store.close();
    afterOpening = () => note(earlier);
    store = openStore();
    expect(noted()).toBe(earlier + 1);
    expect(await keys()).toEqual(['before', 'between']);
  });

  it('a compaction that opened it keeps the commits', async () => {
    await put('before');
    const earlier = noted();
    await put('between');
    await store.close();
    afterOpening = () => note(earlier);
    const options = { directory, tables: [], dropsDamaged: false, discardsFormer: true };
    await compactFile({ ...options, report: () => undefined });
    store = openStore();
    expect(await keys()).toEqual(['before', 'between']);
  });
});
