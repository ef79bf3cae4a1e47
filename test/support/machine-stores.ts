/** The metadata stores that the processes of one machine share, over a directory: lmdb, and SQLite. */
import { join } from 'node:path';
import type { DiskSpace } from '../../src/backends/disk-space.ts';
import { type EmbeddedStore, embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';

export const machineEngines = ['embedded', 'sqlite'] as const;
export type MachineEngine = (typeof machineEngines)[number];

export interface MachineStoreOptions {
  readonly directory: string;
  readonly intentTtlMs: number;
  readonly durable: boolean;
  /** What refuses writes that are no deletions before the disk is full: the reserve of `embedded`, and a limit of SQLite's size. */
  readonly limits?: { readonly space: DiskSpace; readonly bytesMax: number };
}

/** Its intents are renewed until it is closed. */
export function openMachineStore(
  engine: MachineEngine,
  { directory, intentTtlMs, durable, limits }: MachineStoreOptions,
): EmbeddedStore {
  const common = { clock: systemClock, random: systemRandom(), intentTtlMs };
  if (engine === 'embedded')
    return embeddedStore({ directory, durable, ...common, ...(limits && { space: limits.space }) });
  const sql = openNodeSqlite({ path: join(directory, 'metadata.sqlite'), durable });
  const store = sqliteStore(sql, { ...common, ...(limits && { bytesMax: limits.bytesMax }) });
  const timer = setInterval(() => void store.maintain().catch(() => undefined), intentTtlMs / 3);
  timer.unref();
  const close = store.close.bind(store);
  return Object.assign(store, {
    close: async () => {
      clearInterval(timer);
      await close();
    },
  });
}
