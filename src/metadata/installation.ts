/**
 * The installation that metadata, chunks and master key belong to. Its id is stored in a row of the metadata and in a file beside the
 * chunks of every cluster; the row also names the master keys and the marked clusters. A start compares them, so that a
 * missing, empty, swapped or unmounted directory is refused, and never taken for a new one.
 */

import { toHex } from '../base/text/hex.ts';
import { MetadataDamaged, type MetadataStore, type Revision } from '../ports/metadata-store.ts';
import { findTask, type TaskKind } from './background/tasks.ts';
import type { ClusterRow } from './records/clusters.ts';
import { tasks } from './records/tasks.ts';

export const formatVersion = 1;

interface Installation {
  readonly id: string;
  readonly format: number;
  /** The name of the current master key; absent when the key exists only in the memory of this process. */
  readonly key?: string;
  /**
   * The names of all master keys that were the current one, because each may have sealed secrets. A row of a version that stored only
   * the current key gets all keys of the file.
   */
  readonly keys?: readonly string[];
  /** Clusters that have the id beside their chunks; for pools of Ceph `<cluster>/<pool>/<namespace>`. */
  readonly clusters: readonly string[];
  /** The installation was just begun or adopted; some clusters may not have its id yet. */
  readonly isMarking?: true;
}

const kind: TaskKind<Installation> = { kind: 'installation' };
/** The same row once more, because no start succeeds without it. Another partition, which is seldom on the same page of a file. */
const copyKind: TaskKind<Installation> = { kind: 'copy-of-installation' };

type Metadata = Pick<MetadataStore, 'get' | 'commit' | 'replaceDamaged'>;

export interface StoredInstallation {
  readonly state: Installation;
  /** Absent where only the copy can be read; `putInstallation` then writes the row again. */
  readonly revision: Revision | undefined;
  readonly damage?: MetadataDamaged;
}

/** @throws MetadataDamaged where neither the row nor its copy can be read */
export async function findInstallation(
  metadata: Pick<MetadataStore, 'get'>,
): Promise<StoredInstallation | undefined> {
  const damage = await findTask(metadata, kind, '').catch(damageOnly);
  if (damage !== undefined && !(damage instanceof MetadataDamaged)) return damage;
  const copy = await findTask(metadata, copyKind, '').catch(damageOnly);
  if (copy !== undefined && !(copy instanceof MetadataDamaged))
    return { state: copy.state, revision: undefined, ...(damage && { damage }) };
  if (damage !== undefined) throw damage;
  return undefined;
}

function damageOnly(cause: unknown): MetadataDamaged {
  if (cause instanceof MetadataDamaged) return cause;
  throw cause;
}

/** @returns false when another process was first */
export async function putInstallation(
  metadata: Metadata,
  state: Installation,
  former: Pick<StoredInstallation, 'revision' | 'damage'> | undefined,
): Promise<boolean> {
  const row = { kind: kind.kind, name: '', state };
  const at = { table: tasks, in: { kind: kind.kind } };
  if (former?.damage === undefined)
    return (await metadata.commit(at, [{ put: row, expect: former?.revision ?? 'absent' }])).applied;
  return (await metadata.replaceDamaged?.(at, row)) ?? false;
}

/** Writes the copy where it is absent, damaged or of an earlier state. Concurrent starts write the same. */
export async function copyInstallation(metadata: Metadata, state: Installation): Promise<void> {
  const at = { table: tasks, in: { kind: copyKind.kind } };
  const row = { kind: copyKind.kind, name: '', state };
  const found = await findTask(metadata, copyKind, '').catch(damageOnly);
  if (found instanceof MetadataDamaged) await metadata.replaceDamaged?.(at, row);
  else if (JSON.stringify(found?.state) !== JSON.stringify(state))
    await metadata.commit(at, [{ put: row, expect: found?.revision ?? 'absent' }]);
}

/** The state of a cluster at the start, for chunks in a directory or pool and extents in a bucket. */
export interface FoundCluster {
  readonly id: string;
  /** Its name in `Installation.clusters`. */
  readonly markedAs: string;
  /** The directory, or the place of the mark in a bucket or pool. */
  readonly directory: string;
  /** The id beside the chunks. */
  readonly mark: string | undefined;
  readonly holdsChunks: boolean;
}

export interface FoundWorld {
  readonly stored: Installation | undefined;
  /** Rows of clusters; not empty once a gateway has served. */
  readonly rows: readonly ClusterRow[];
  readonly clusters: readonly FoundCluster[];
  /** The marks that this start read first, by `markedAs`: `init` replaces only these. */
  readonly seen?: ReadonlyMap<string, string | undefined>;
  /** Names of the master keys, the current one first; none when they are not kept. */
  readonly keys: readonly string[];
  readonly keyFile: string | undefined;
  /** Former master keys, in hexadecimal, that the operator has declared gone (`SVC_MASTER_KEYS_RETIRED`). */
  readonly retired?: readonly string[];
}

/**
 * `start` refuses a mismatch. `init` begins a new installation where metadata has none. `adopt` takes over the id beside the chunks, for
 * a rebuild of the index. `inspect` lets fsck read chunks whose metadata is lost.
 */
export type InstallationMode = 'start' | 'init' | 'adopt' | 'inspect';

/** The reason to refuse the start; undefined when metadata, chunks and keys belong together. */
export function explainRefusal(world: FoundWorld, mode: InstallationMode): string | undefined {
  const { stored } = world;
  if (stored === undefined) return mode === 'start' ? lostMetadata(world) : undefined;
  if (stored.format > formatVersion)
    return `the installation ${stored.id} is of format ${stored.format}, and this version knows formats up to ${formatVersion}: use the version that wrote it, or a later one`;
  const wrong = wrongKey(world, stored);
  if (wrong !== undefined) return wrong;
  if (stored.isMarking) return takenMeanwhile(world, stored, mode);
  return world.clusters.map((cluster) => wrongCluster(world, stored, cluster)).find(Boolean);
}

const cures =
  'restore the metadata, or make the index again with `sluice fsck --rebuild`, or begin a new installation beside these chunks with `sluice serve --init`';

function lostMetadata({ clusters, rows }: FoundWorld): string | undefined {
  const marked = clusters.find(({ mark }) => mark !== undefined);
  if (marked !== undefined)
    return `the metadata is empty or another one: it names no installation, and the chunks in ${marked.directory} belong to installation ${marked.mark}; ${cures}`;
  const full = clusters.find(({ holdsChunks }) => holdsChunks);
  return full === undefined || rows.length > 0
    ? undefined
    : `the metadata is empty, and there are chunks in ${full.directory}; ${cures}`;
}

/** The installation was begun, but another one marked the chunks first. */
function takenMeanwhile(
  { clusters, seen }: FoundWorld,
  { id }: Installation,
  mode: InstallationMode,
): string | undefined {
  const isRefused = ({ markedAs, mark }: FoundCluster): boolean =>
    mode === 'start' || (mode === 'init' && seen?.has(markedAs) === true && seen.get(markedAs) !== mark);
  const taken = clusters.find((each) => each.mark !== undefined && each.mark !== id && isRefused(each));
  return taken === undefined
    ? undefined
    : `installation ${id} was begun, and the chunks in ${taken.directory} belong to installation ${taken.mark}: correct the settings, or take the place over with \`sluice serve --init\``;
}

/** The name of a master key as operators read and write it. */
const formatKeyName = (name: string): string => toHex(Uint8Array.from(name, (char) => char.charCodeAt(0)));

function wrongKey(
  { keys, keyFile, retired = [] }: FoundWorld,
  { id, key, keys: former = [] }: Installation,
): string | undefined {
  if (key === undefined || keys.length === 0) return undefined;
  const isMissing = (name: string): boolean => !keys.includes(name) && !retired.includes(formatKeyName(name));
  if (isMissing(key))
    return `SVC_MASTER_KEY_FILE=${keyFile} is not the key of installation ${id}: it holds ${keys.map(formatKeyName).join(', ')}, and secrets and objects are sealed under ${formatKeyName(key)}; restore that key, as a further line if the current one is to be used from now on`;
  const missing = former.filter(isMissing).map(formatKeyName);
  if (missing.length === 0) return undefined;
  return `SVC_MASTER_KEY_FILE=${keyFile} lacks a former key of installation ${id}: ${missing.join(', ')}, under which access keys, MFA devices, peers and objects may be sealed; restore each as a further line, or name it in SVC_MASTER_KEYS_RETIRED if nothing is sealed under it any more`;
}

/**
 * The master keys under which secrets may be sealed, after a start with `keys`, the current one first. A row of a version that
 * stored only the current key says nothing of earlier ones, so each key of the file counts.
 */
export function sealingKeys(
  { key: former, keys: stored }: Pick<Installation, 'key' | 'keys'>,
  keys: readonly string[],
): readonly string[] {
  const known = stored ?? [...(former === undefined ? [] : [former]), ...keys];
  return [...new Set([...known, ...keys.slice(0, 1)])];
}

function wrongCluster(
  { rows }: FoundWorld,
  stored: Installation,
  { id, markedAs, directory, mark }: FoundCluster,
): string | undefined {
  if (mark !== undefined)
    return mark === stored.id
      ? undefined
      : `the chunks of cluster ${id} in ${directory} belong to installation ${mark}, and the metadata to installation ${stored.id}: set SVC_DATA_DIR, SVC_POOL_CLUSTERS and the metadata settings to those of one installation`;
  const row = rows.find((each) => each.id === id);
  // The cluster was emptied and removed from the settings before, so its present content is new.
  if (row?.state === 'removed') return undefined;
  if (stored.clusters.includes(markedAs))
    return `the chunks of cluster ${id} are not in ${directory}: there is no file installation.json of installation ${stored.id}; mount or restore the directory, or correct the settings`;
  return undefined;
}
