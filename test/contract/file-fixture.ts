/** A file chunk store in a directory of its own, removed at the end. */
import fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FileChunksOptions, fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import type { ChunkStore } from '../../src/ports/chunk-store.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { ChunkStoreFixture } from './chunk-store.ts';

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
    dispose: async () => {
      await Promise.all(opened.map((store) => store.close()));
      await fs.rm(directory, { recursive: true });
    },
  };
}

/** The system's clock, set forward: for what happens only after an hour. */
export const laterBy = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });

/** All files under a directory, with their paths. */
export async function filesIn(directory: string): Promise<string[]> {
  const entries = await fs.readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
