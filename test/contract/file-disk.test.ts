/** The file store and its disk: no write is acknowledged before it is flushed, and none is partial. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Disk, nodeDisk } from '../../src/backends/data/file/disk.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { DataUnavailable } from '../../src/ports/object-bytes.ts';
import { expectIntact, idsOf, listAll, put, readWhole, whole } from './chunk-store.ts';
import { type FileFixture, fileFixture, runScript } from './file-fixture.ts';

let fixture: FileFixture;
beforeEach(async () => {
  fixture = await fileFixture();
});
afterEach(() => fixture.dispose());

describe('a failing disk', () => {
  /** The real disk, whose calls fail where `fails` returns true. */
  function failing(fails: (call: string, count: number) => boolean): Disk {
    const disk = nodeDisk({ clock: systemClock, durable: true });
    const counts = new Map<string, number>();
    const check = (call: string): void => {
      const count = (counts.get(call) ?? 0) + 1;
      counts.set(call, count);
      if (fails(call, count)) throw Object.assign(new Error(`EIO: ${call}`), { code: 'EIO' });
    };
    return {
      read: disk.read,
      async write(fd, bytes, position) {
        try {
          check('write');
        } catch (error) {
          // A full disk stores a part of the bytes.
          await disk.write(fd, bytes.subarray(0, bytes.length / 2), position);
          throw error;
        }
        await disk.write(fd, bytes, position);
      },
      async flush(fd) {
        check('flush');
        await disk.flush(fd);
      },
      async flushDirectory(path) {
        check('flushDirectory');
        await disk.flushDirectory(path);
      },
    };
  }

  test.each(['write', 'flush', 'flushDirectory'])(
    'fails the writes that a failed %s was for, and no others',
    async (call) => {
      for (const size of [100, 200_000, 700_000]) {
        let isFailing = false;
        const faulty = fixture.reopen({ disk: failing((each) => isFailing && each === call) });
        const before = await put(faulty, `before${size}.0`, size);
        isFailing = true;
        const results = await Promise.allSettled(
          Array.from({ length: 5 }, (_, n) => put(faulty, `failed${size}-${n}.0`, size)),
        );
        isFailing = false;
        const after = await put(faulty, `after${size}.0`, size);
        const failed = results.filter((result) => result.status === 'rejected');
        // The segment for small chunks exists already, so no directory is flushed for them.
        expect(failed).toHaveLength(call === 'flushDirectory' && size <= 262_144 ? 0 : 5);
        for (const { reason } of failed) {
          expect(reason).toBeInstanceOf(DataUnavailable);
          expect(String(reason)).toContain('EIO');
        }
        const stored = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
        const listed = (await listAll(fixture.reopen())).filter(({ id }) => id.includes(`${size}`));
        expect(idsOf(listed)).toEqual(idsOf([after, before, ...stored]));
        for (const chunk of [before, after, ...stored]) await expectIntact(faulty, chunk);
      }
      expect(fs.readdirSync(join(fixture.directory, 'temporary'))).toEqual([]);
    },
  );

  test.each([
    ['EIO', true],
    ['ESTALE', true],
    ['EROFS', true],
    ['ENOSPC', false],
  ])('%s of a write or a read means that the store is away: %s', async (code, isAway) => {
    let isFailing = false;
    const disk = nodeDisk({ clock: systemClock, durable: true });
    const unlessFailing = async <T>(run: () => Promise<T>): Promise<T> => {
      if (isFailing) throw Object.assign(new Error(code), { code });
      return run();
    };
    const faulty = fixture.reopen({
      disk: {
        ...disk,
        read: (...call) => unlessFailing(() => disk.read(...call)),
        write: (...call) => unlessFailing(() => disk.write(...call)),
      },
    });
    for (const size of [100, 200_000, 700_000]) {
      isFailing = false;
      const chunk = await put(faulty, `kept${size}.0`, size);
      isFailing = true;
      for (const run of [
        () => put(faulty, `failed${size}.0`, size),
        () => readWhole(faulty.read(chunk, whole(chunk))),
      ]) {
        const cause = await run().catch((error: unknown) => error);
        expect(cause).toBeInstanceOf(Error);
        expect(cause instanceof DataUnavailable).toBe(isAway);
      }
      isFailing = false;
      await expectIntact(faulty, chunk);
    }
  });

  test('answers only after the flush', async () => {
    const disk = nodeDisk({ clock: systemClock, durable: true });
    const events: string[] = [];
    const logged =
      <A extends unknown[]>(name: string, call: (...args: A) => Promise<void>) =>
      async (...args: A) => {
        await call(...args);
        events.push(name);
      };
    const watching = fixture.reopen({
      disk: {
        read: disk.read,
        write: logged('write', disk.write),
        flush: logged('flush', disk.flush),
        flushDirectory: logged('directory', disk.flushDirectory),
      },
    });
    const during = async (id: string, size: number): Promise<string[]> => {
      events.length = 0;
      await put(watching, id, size);
      return [...events];
    };
    expect(await during('first.0', 100)).toEqual(['directory', 'write', 'flush']);
    expect(await during('second.0', 100)).toEqual(['write', 'flush']);
    // Two pieces and the header; then the directory with the new group, then the directory with the file.
    expect(await during('large.0', 500_000)).toEqual([
      'write',
      'write',
      'write',
      'flush',
      'directory',
      'directory',
    ]);
    expect(await during('large.1', 300_000)).toEqual(['write', 'write', 'write', 'flush', 'directory']);
    const chunk = await put(watching, 'gone.0', 100);
    events.length = 0;
    await watching.remove([chunk]);
    expect(events).toEqual(['flush', 'directory']);
  });

  test.each(['small', 'large'])('the kernel sees the flush of a %s chunk before the answer', (task) => {
    const calls = 'trace=fdatasync,fsync,msync,write,pwrite64,rename,renameat,renameat2';
    const trace = join(fixture.directory, '..', `${task}-${process.pid}.strace`);
    const command = [
      '-f',
      '-o',
      trace,
      '-e',
      calls,
      process.execPath,
      ...runScript,
      fixture.directory,
      task,
      'x',
    ];
    const run = spawnSync('strace', command, { encoding: 'utf8' });
    if (run.error && process.env['CI'] !== 'true') return;
    expect(run.error ?? run.stderr).toBe('');
    const lines = fs.readFileSync(trace, 'utf8').split('\n');
    fs.rmSync(trace);
    const at = (what: RegExp, from = 0) => lines.findIndex((line, index) => index >= from && what.test(line));
    const answer = at(/write\(1, "\{\\"id/);
    expect(answer).toBeGreaterThan(0);
    const content = at(task === 'small' ? /p?write(64)?\(\d+, "SLC1/ : /p?write(64)?\(\d+, .*, 262144, 0\b/);
    expect(content).toBeGreaterThan(0);
    const flush = at(/fdatasync\(|fdatasync resumed/, content);
    expect(flush).toBeGreaterThan(content);
    expect(flush).toBeLessThan(answer);
    if (task === 'large') {
      const renamed = at(/rename/, flush);
      const directory = at(/fsync\(|fsync resumed/, renamed);
      expect([renamed, directory].every((index) => index > flush && index < answer)).toBe(true);
    }
  });
});

test.each([130_000, 256 * 1024, 1_048_576, 4_000_000])(
  'of %i bytes that are read, the reader keeps no more than one block',
  async (size) => {
    const chunk = await put(fixture.store, 'read.0', size);
    let memory: ArrayBufferLike | undefined;
    for await (const piece of fixture.store.read(chunk, whole(chunk))) memory = piece.buffer;
    // The collector of the runtime frees the last array. For longer ones it collects the whole heap every few dozen reads.
    expect(memory?.byteLength).toBeLessThanOrEqual(64 * 1024);
  },
);

test('a read leaves little memory to the garbage collector', async () => {
  const chunk = await put(fixture.store, 'large.0', 1024 * 1024);
  const readOnce = async (): Promise<number> => {
    const before = process.memoryUsage().arrayBuffers;
    for await (const bytes of fixture.store.read(chunk, whole(chunk)))
      expect(bytes.length).toBeGreaterThan(0);
    return process.memoryUsage().arrayBuffers - before;
  };
  const growth: number[] = [];
  for (let n = 0; n < 50; n++) growth.push(await readOnce());
  // The first read fills the pool, and some are interrupted by the collector.
  expect(growth.sort((a, b) => a - b)[25]).toBeLessThan(16 * 1024);
});
