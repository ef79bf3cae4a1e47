/** Finds chunks of clusters that the settings leave out: reads of their objects fail, which looks like data loss. */
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from '../../config.ts';

type ClusterConfig = Pick<Config, 'SVC_DATA_DIR' | 'SVC_DATA_BACKEND' | 'SVC_POOL_CLUSTERS'>;

/** A warning for each cluster directory that holds anything and is not used. */
export async function leftOutClusters(config: ClusterConfig): Promise<readonly string[]> {
  const { SVC_DATA_DIR, SVC_DATA_BACKEND, SVC_POOL_CLUSTERS: clusters } = config;
  if (SVC_DATA_DIR === undefined || SVC_DATA_BACKEND !== 'file') return [];
  const chunks = resolve(SVC_DATA_DIR, 'chunks');
  const used = new Set(clusters.map(({ id, dir }) => resolve(dir ?? join(chunks, id))));
  const given = `SVC_POOL_CLUSTERS=${clusters.map(({ id }) => id).join(',')}`;
  const warnings: string[] = [];
  for (const entry of await listEntries(chunks)) {
    const path = join(chunks, entry.name);
    if (used.has(path) || !entry.isDirectory() || !(await holdsChunks(path))) continue;
    const elsewhere = clusters.find(({ id }) => id === entry.name)?.dir;
    warnings.push(
      elsewhere === undefined
        ? `${given} leaves out cluster "${entry.name}", whose chunks lie in ${path}`
        : `${given} keeps cluster "${entry.name}" in ${resolve(elsewhere)}, but chunks of it lie in ${path}`,
    );
  }
  return warnings;
}

/** A cluster that cannot be inspected does not prevent the start: this only warns. */
const listEntries = (path: string) => readdir(path, { withFileTypes: true }).catch(() => []);

/** Chunks are in directories; a store also has its identity and its reserve beside them. */
async function holdsChunks(path: string): Promise<boolean> {
  for (const entry of await listEntries(path))
    if (entry.isDirectory() && (await holdsFile(join(path, entry.name)))) return true;
  return false;
}

/** A store creates its directories at the start, and files with the first chunk. */
async function holdsFile(path: string): Promise<boolean> {
  for (const entry of await listEntries(path)) {
    if (!entry.isDirectory() || (await holdsFile(join(path, entry.name)))) return true;
  }
  return false;
}
