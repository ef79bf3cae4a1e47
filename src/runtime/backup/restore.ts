/** Copies a backup to a data directory that holds nothing yet, where a gateway then starts. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { inDataDir } from '../compose/compose-bytes.ts';
import { type Backup, chunksOf, keyFiles } from './backup.ts';
import { type Copied, copyChunks, copyWhole, flush } from './copy-chunks.ts';

/** @throws the signal's reason */
export async function restore(
  config: Config,
  { from, backup, signal }: { readonly from: string; readonly backup: Backup; readonly signal: AbortSignal },
): Promise<Copied> {
  const copied: Copied = { files: 0, bytes: 0, kept: 0, keptBytes: 0 };
  for (const cluster of config.SVC_POOL_CLUSTERS) {
    if (!backup.clusters.includes(cluster.id)) continue;
    await copyChunks(join(from, 'chunks', cluster.id), chunksOf(config, cluster), { signal, copied });
  }
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
