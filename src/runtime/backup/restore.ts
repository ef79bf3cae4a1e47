/** Copies a backup to a data directory that holds nothing yet, where a gateway then starts. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import type { CommandWatch } from '../cli/command-watch.ts';
import { inDataDir } from '../compose/compose-bytes.ts';
import { type Backup, chunksOf, keyFiles } from './backup.ts';
import { amountsOf, type Copied, copyChunks, copyWhole, flush, measureChunks } from './copy-chunks.ts';

/** @throws the signal's reason */
export async function restore(
  config: Config,
  {
    from,
    backup,
    signal,
    watch,
  }: {
    readonly from: string;
    readonly backup: Backup;
    readonly signal: AbortSignal;
    readonly watch?: CommandWatch | undefined;
  },
): Promise<Copied> {
  const copied: Copied = { files: 0, bytes: 0, kept: 0, keptBytes: 0 };
  const clusters = config.SVC_POOL_CLUSTERS.filter(({ id }) => backup.clusters.includes(id));
  const sourceOf = (id: string): string => join(from, 'chunks', id);
  const all =
    watch &&
    (await measureChunks(
      clusters.map(({ id }) => sourceOf(id)),
      signal,
    ));
  if (all) watch?.begin({ kind: 'restore', of: 'files', paced: 'bytes' }, amountsOf(copied, all));
  const report = (): void => {
    if (all && watch?.isDue === true) watch.show(amountsOf(copied, all));
  };
  for (const cluster of clusters)
    await copyChunks(sourceOf(cluster.id), chunksOf(config, cluster), { signal, copied, report });
  if (all) watch?.end(amountsOf(copied, all).done);
  // Clusters may be in other places.
  await mkdir(inDataDir(config), { recursive: true, mode: 0o700 });
  for (const name of keyFiles)
    if (existsSync(join(from, name))) await copyWhole(join(from, name), inDataDir(config, name));
  // The metadata comes last: without it the directory is not a complete installation, and a gateway refuses to start there.
  const metadata = inDataDir(config, 'metadata');
  await mkdir(metadata, { recursive: true, mode: 0o700 });
  await copyWhole(join(from, 'metadata/data.mdb'), join(metadata, 'data.mdb'));
  for (const directory of [metadata, inDataDir(config)]) await flush(directory);
  return copied;
}
