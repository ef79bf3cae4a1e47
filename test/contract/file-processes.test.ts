/** The guarantees of the file store for several processes, killed ones included. */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ChunkRef, ChunkStore } from '../../src/ports/chunk-store.ts';
import { expectIntact, idsOf, listAll, put } from './chunk-store.ts';
import {
  bytesIn,
  compactAll,
  type FileFixture,
  fileFixture,
  filesIn,
  laterBy,
  refusedBy,
  runScript,
} from './file-fixture.ts';

const hour = 60 * 60_000;

let fixture: FileFixture;
let store: ChunkStore;
beforeEach(async () => {
  fixture = await fileFixture();
  store = fixture.store;
});
afterEach(() => fixture.dispose());

describe('several processes', () => {
  const spawned: ChildProcess[] = [];
  afterEach(() => {
    for (const child of spawned.splice(0)) child.kill('SIGKILL');
  });

  /** Starts the script; `said` collects the complete lines that it prints. */
  function start(...args: string[]): { child: ChildProcess; said: ChunkRef[]; ended: Promise<void> } {
    const child = spawn(process.execPath, [...runScript, fixture.directory, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    spawned.push(child);
    const said: ChunkRef[] = [];
    let rest = '';
    child.stdout.on('data', (data: Buffer) => {
      const lines = (rest + data).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) said.push(JSON.parse(line) as ChunkRef);
    });
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    child.on('close', () => resolve());
    return { child, said, ended };
  }

  test('read, list and remove what each other wrote', async () => {
    const others = [start('write', 'p1', '60'), start('write', 'p2', '60')];
    const own = await Promise.all(Array.from({ length: 60 }, (_, n) => put(store, `p3-${n}.0`, 5000)));
    await Promise.all(others.map(({ ended }) => ended));
    const theirs = others.flatMap(({ said }) => said);
    expect(theirs).toHaveLength(120);
    for (const chunk of theirs) await expectIntact(store, chunk);
    await store.remove(theirs.filter((_, n) => n % 2 === 0));
    const left = [...own, ...theirs.filter((_, n) => n % 2 === 1)];
    const lister = start('list');
    await lister.ended;
    expect(idsOf(lister.said).sort()).toEqual(idsOf(left).sort());
    const compactors = [start('compact'), start('compact')];
    await Promise.all([...compactors.map(({ ended }) => ended), compactAll(store)]);
    for (const chunk of left) await expectIntact(store, chunk);
    expect(idsOf(await listAll(store))).toEqual(idsOf(left).sort());
  });

  test('a killed one loses nothing that it acknowledged, and its leavings are cleared away', async () => {
    const acknowledged: ChunkRef[] = [];
    for (const round of ['k1', 'k2', 'k3']) {
      const writer = start('write', round, '1000000');
      while (writer.said.length < 40) await new Promise((resolve) => setTimeout(resolve, 5));
      writer.child.kill('SIGKILL');
      await writer.ended;
      acknowledged.push(...writer.said);
    }
    for (const chunk of acknowledged) await expectIntact(store, chunk);
    const listed = await listAll(store);
    const ids = new Set(idsOf(listed));
    expect(acknowledged.filter(({ id }) => !ids.has(id))).toEqual([]);
    // Chunks that were written but not acknowledged are intact, and listed so that the sweep finds them.
    expect(await refusedBy(store, listed)).toEqual([]);

    const later = fixture.reopen({ clock: laterBy(2 * hour) });
    await compactAll(later);
    expect(fs.readdirSync(join(fixture.directory, 'temporary'))).toEqual([]);
    expect((await filesIn(fixture.directory)).filter((path) => path.endsWith('.open'))).toEqual([]);
    for (const chunk of acknowledged) await expectIntact(later, chunk);
    await later.remove(await listAll(later));
    await compactAll(later);
    expect(await listAll(later)).toEqual([]);
    expect(await bytesIn(fixture.directory)).toBe(0);
  });

  const openMarkers = async (): Promise<string[]> =>
    (await filesIn(fixture.directory)).filter((path) => path.endsWith('.open'));

  async function startWriter(
    name: string,
  ): Promise<{ child: ChildProcess; kill: () => Promise<ChunkRef[]> }> {
    const { child, said, ended } = start('write', name, '1000000');
    await vi.waitFor(() => expect(said.length).toBeGreaterThan(3), { timeout: 60_000 });
    const kill = async (): Promise<ChunkRef[]> => {
      child.kill('SIGKILL');
      await ended;
      return said;
    };
    return { child, kill };
  }

  test.runIf(process.platform === 'linux')(
    'a process seals the segments of killed ones when it opens the store, and those of live ones never',
    async () => {
      const [dying, living] = [await startWriter('d1'), await startWriter('d2')];
      const acknowledged = await dying.kill();
      expect(await openMarkers()).toHaveLength(2);
      const successor = fixture.reopen();
      const left = await openMarkers();
      expect(left).toHaveLength(1);
      expect(JSON.parse(fs.readFileSync(left[0] as string, 'utf8'))).toMatchObject({ pid: living.child.pid });
      for (const chunk of acknowledged) await expectIntact(successor, chunk);

      // A running process seals segments of dead processes in its next compaction.
      acknowledged.push(...(await living.kill()));
      await compactAll(successor);
      expect(await openMarkers()).toEqual([]);
      for (const chunk of acknowledged) await expectIntact(successor, chunk);
      await successor.remove(await listAll(successor));
      await compactAll(successor);
      expect(await bytesIn(join(fixture.directory, 'segments'))).toBe(0);
    },
  );

  test.runIf(process.platform === 'linux')(
    'a process removes the temporary files of killed ones when it opens the store, and those of live ones never',
    async () => {
      const temporary = (): string[] => fs.readdirSync(join(fixture.directory, 'temporary'));
      const startHalf = async (name: string) => {
        const others = new Set(temporary());
        const { child, said, ended } = start('half', name);
        await vi.waitFor(() => expect(said).toHaveLength(1), { timeout: 60_000 });
        const [file] = temporary().filter((each) => !others.has(each));
        const kill = async (): Promise<void> => {
          child.kill('SIGKILL');
          await ended;
        };
        return { file, kill };
      };
      const [dying, living] = [await startHalf('h1'), await startHalf('h2')];
      await dying.kill();
      expect(temporary()).toHaveLength(2);
      const successor = fixture.reopen();
      expect(temporary()).toEqual([living.file]);

      // A running process removes them in its next compaction.
      await living.kill();
      await compactAll(successor);
      expect(temporary()).toEqual([]);
    },
  );

  test.runIf(process.platform === 'linux')(
    'a reused process id does not keep a segment open; a process that cannot be looked up does',
    async () => {
      const { kill } = await startWriter('r1');
      await kill();
      const [marker] = (await openMarkers()) as [string];
      const maker = JSON.parse(fs.readFileSync(marker, 'utf8')) as { world: string };
      const leaveBy = (text: string): void => fs.writeFileSync(marker, text);
      const unknown = ['', '{', JSON.stringify({ ...maker, world: 'another machine' })];
      for (const text of [...unknown, JSON.stringify({ ...maker, pid: 0 })]) {
        leaveBy(text);
        await compactAll(fixture.reopen());
        expect(await openMarkers()).toEqual([marker]);
      }
      leaveBy(JSON.stringify({ ...maker, pid: process.pid }));
      fixture.reopen();
      expect(await openMarkers()).toEqual([]);
    },
  );
});
