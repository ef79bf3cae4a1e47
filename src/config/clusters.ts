/** `SVC_POOL_CLUSTERS`: the clusters that chunks are kept on (spec "Cluster lifecycle"). */
import { fault, type Read, type Setting, value } from './setting.ts';

export interface ClusterSetting {
  readonly id: string;
  /** Where the `file` backend keeps this cluster's chunks; under the data directory when absent. */
  readonly dir?: string;
}

const clusterId = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const clustersMax = 256;

function readEntries(given: string): readonly unknown[] | undefined {
  if (!given.startsWith('[')) {
    const ids = given.split(',').map((id) => id.trim());
    return ids.filter((id) => id !== '').map((id) => ({ id }));
  }
  try {
    const parsed: unknown = JSON.parse(given);
    return Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function entryFaults(entry: unknown, index: number, earlier: readonly unknown[]): readonly string[] {
  const at = `: entry ${index + 1}`;
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return [`${at} is not an object`];
  const { id, dir, ...others } = entry as Record<string, unknown>;
  const faults: string[] = [];
  if (typeof id !== 'string' || !clusterId.test(id)) {
    faults.push(`${at} needs an id of a-z, 0-9, ".", "_" and "-", at most 63 long`);
  } else if (earlier.some((other) => (other as { id?: unknown } | null)?.id === id)) {
    faults.push(`${at} repeats the id "${id}"`);
  }
  if (dir !== undefined && (typeof dir !== 'string' || dir === ''))
    faults.push(`${at} has a dir that is not a path`);
  for (const name of Object.keys(others)) faults.push(`${at} has an unknown field "${name}"`);
  return faults;
}

function readClusters(given: string): Read<readonly ClusterSetting[]> {
  const entries = readEntries(given);
  if (entries === undefined) return fault('is neither a comma list of ids nor a JSON array of {"id": …}');
  if (entries.length === 0 || entries.length > clustersMax)
    return fault(`needs 1 to ${clustersMax} clusters`);
  const faults = entries.flatMap((entry, index) => entryFaults(entry, index, entries.slice(0, index)));
  return faults.length > 0 ? { faults } : value(entries as readonly ClusterSetting[]);
}

export const clusters = (fallback: string, doc: string): Setting<readonly ClusterSetting[]> => ({
  kind: 'comma list of ids, or JSON array of `{id, dir?}`',
  doc,
  fallback,
  read: readClusters,
});
