/** Compares the installation that metadata, chunks and master key belong to, and marks what is new (`metadata/installation.ts`). */
import { existsSync, readdirSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { everyCluster } from '../metadata/clusters.ts';
import {
  type FoundCluster,
  findInstallation,
  formatVersion,
  type InstallationMode,
  putInstallation,
  refusalOf,
} from '../metadata/installation.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Random } from '../ports/random.ts';
import { inDataDir } from './compose-bytes.ts';
import { keepFile } from './kept-file.ts';
import { StartRefusal } from './start-refusal.ts';

export interface CheckOptions {
  readonly config: Config;
  readonly random: Random;
  readonly mode: InstallationMode;
  /** Names of the master keys, the current one first. */
  readonly keys: readonly string[];
}

const markName = 'installation.json';
/** Processes that start together. */
const attemptsMax = 16;

/** Whether a master key may be made: only for a new installation, because a new key opens nothing that is stored. */
export async function isNew(
  metadata: MetadataStore,
  config: Config,
  mode: InstallationMode,
): Promise<boolean> {
  if ((await findInstallation(metadata)) !== undefined) return false;
  if ((await everyCluster(metadata)).length > 0) return false;
  if (mode === 'init') return true;
  return (await foundClusters(config)).every((each) => each.mark === undefined && !each.holdsChunks);
}

/** @returns the id of the installation; undefined where fsck inspects one that is lost @throws StartRefusal */
export async function checkInstallation(
  metadata: MetadataStore,
  { config, random, mode, keys }: CheckOptions,
): Promise<string | undefined> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const former = await findInstallation(metadata);
    const clusters = await foundClusters(config);
    const rows = (await everyCluster(metadata)).map(({ row }) => row);
    const kept = former?.state;
    const world = { kept, rows, clusters, keys, keyFile: config.SVC_MASTER_KEY_FILE };
    const refusal = refusalOf(world, mode);
    if (refusal !== undefined) throw new StartRefusal(refusal, 2);
    if (mode === 'inspect') return kept?.id;
    const adopted = mode === 'adopt' ? clusters.find(({ mark }) => mark !== undefined)?.mark : undefined;
    const id = kept?.id ?? adopted ?? Buffer.from(random.bytes(16)).toString('hex');
    // The row first: a kill before the marks leaves clusters that are new, not chunks without metadata.
    if (former === undefined) {
      await putInstallation(
        metadata,
        { id, format: formatVersion, clusters: [], isMarking: true },
        undefined,
      );
      continue;
    }
    for (const cluster of clusters) if (cluster.mark !== id) await mark(cluster, id);
    const marked = [...new Set([...former.state.clusters, ...clusters.map((cluster) => cluster.id)])];
    const [key] = keys;
    const { isMarking, ...state } = former.state;
    const next = { ...state, clusters: marked, ...(key === undefined ? {} : { key }) };
    const isKnown = next.key === state.key && marked.length === state.clusters.length;
    if (isKnown && !isMarking) return id;
    if (await putInstallation(metadata, next, former)) return id;
  }
  throw new Error('the installation never stood still');
}

async function foundClusters(config: Config): Promise<readonly FoundCluster[]> {
  if (config.SVC_DATA_BACKEND !== 'file') return [];
  return Promise.all(
    config.SVC_POOL_CLUSTERS.map(async ({ id, dir }) => {
      const directory = dir ?? inDataDir(config, 'chunks', id);
      return { id, directory, mark: await readMark(directory), holdsChunks: holdsChunks(directory) };
    }),
  );
}

async function readMark(directory: string): Promise<string | undefined> {
  const path = join(directory, markName);
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
    throw new StartRefusal(`${path} cannot be read: ${error.code}`, 2, { cause: error });
  });
  if (text === undefined) return undefined;
  const id = idIn(text);
  if (id === undefined) throw new StartRefusal(`${path} is damaged: it names no installation`, 2);
  return id;
}

function idIn(text: string): string | undefined {
  try {
    const { id } = Object(JSON.parse(text)) as { readonly id?: unknown };
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}

/** Only where the row says that the id is new: the mark of another installation is replaced then. */
async function mark({ directory, mark: former }: FoundCluster, id: string): Promise<void> {
  const path = join(directory, markName);
  if (former !== undefined) await rm(path, { force: true });
  await keepFile(path, `${JSON.stringify({ id, format: formatVersion })}\n`);
}

const namesIn = (directory: string): readonly string[] =>
  existsSync(directory) ? readdirSync(directory) : [];

const holdsChunks = (directory: string): boolean =>
  namesIn(join(directory, 'segments')).some((name) => name.endsWith('.seg')) ||
  namesIn(join(directory, 'large')).length > 0;
