/** A file chunk store in a temporary directory, which is removed at the end. */
import fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type FileChunksOptions, fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import type { ChunkRef, ChunkStore } from '../../src/ports/chunk-store.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { ChunkDamaged, ChunkMissing } from '../../src/ports/object-bytes.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { type ChunkStoreFixture, contentOf, whole } from './chunk-store.ts';

export interface FileFixture extends ChunkStoreFixture {
  readonly directory: string;
  readonly reopen: (options?: Partial<FileChunksOptions>) => ChunkStore;
}

export async function fileFixture(options: Partial<FileChunksOptions> = {}): Promise<FileFixture> {
  const directory = await fs.mkdtemp(join(tmpdir(), 'sluice-chunks-'));
  const opened: ChunkStore[] = [];
  const open = (more: Partial<FileChunksOptions> = {}): ChunkStore => {
    const defaults = { directory, clock: systemClock, random: systemRandom(), durable: false };
    const store = fileChunks({ ...defaults, ...options, ...more });
    opened.push(store);
    return store;
  };
  return {
    directory,
    store: open(),
    reopen: open,
    outages: outagesOf(directory),
    dispose: async () => {
      await Promise.all(opened.map((store) => store.close()));
      await fs.rm(directory, { recursive: true });
    },
  };
}

/** A disk that is unmounted leaves an empty directory, or none; a wrong mount leaves something else. */
function outagesOf(directory: string): NonNullable<ChunkStoreFixture['outages']> {
  const elsewhere = `${directory}.elsewhere`;
  const outage = (place: () => Promise<unknown>) => async () => {
    await fs.rename(directory, elsewhere);
    await place();
    return async () => {
      // Nothing was begun there.
      expect(await fs.readdir(directory).catch(() => [])).toEqual([]);
      await fs.rm(directory, { recursive: true, force: true });
      await fs.rename(elsewhere, directory);
    };
  };
  return {
    missing: outage(async () => {}),
    unmounted: outage(() => fs.mkdir(directory)),
    'no-directory': outage(() => fs.writeFile(directory, '')),
  };
}

/** The system's clock, set forward by `ms`, for actions that have an age limit. */
export const laterBy = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });

/** All files under a directory, with their paths. */
export async function filesIn(directory: string): Promise<string[]> {
  const entries = await fs.readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

export const bytesIn = async (directory: string): Promise<number> => {
  let sum = 0;
  for (const path of await filesIn(directory)) sum += (await fs.stat(path)).size;
  return sum;
};

export async function compactAll(store: ChunkStore): Promise<void> {
  while (await store.compact?.(new AbortController().signal));
}

/** The script that works as another process; its first argument is the directory. */
export const processScript: string = fileURLToPath(new URL('file-chunks-process.ts', import.meta.url));
export const runScript: readonly string[] =
  'Deno' in globalThis ? ['run', '-A', processScript] : [processScript];

/** Reads all chunks; each must be intact or fail as damaged. Returns the ids of those that fail. */
export async function refusedBy(reader: ChunkStore, chunks: readonly ChunkRef[]): Promise<string[]> {
  const refused: string[] = [];
  for (const chunk of chunks) {
    const pieces: Uint8Array[] = [];
    try {
      for await (const piece of reader.read(chunk, whole(chunk))) pieces.push(piece.slice());
    } catch (error) {
      if (!(error instanceof ChunkDamaged || error instanceof ChunkMissing)) throw error;
      refused.push(chunk.id);
    }
    const bytes = Buffer.concat(pieces);
    const expected = contentOf(chunk.id, chunk.size);
    // The bytes that were yielded before a failure must be correct too.
    expect(Buffer.compare(bytes, expected.subarray(0, bytes.length))).toBe(0);
    if (!refused.includes(chunk.id)) expect(bytes.length).toBe(chunk.size);
  }
  return refused;
}
