/** Metadata, chunks and master key belong to one installation. */
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { dataBackends } from '../config/data.ts';
import type { Config } from '../config.ts';
import { drawId } from '../domain/common/ids.ts';
import { everyCluster, readClusters } from '../metadata/background/clusters.ts';
import {
  copyInstallation,
  explainRefusal,
  type FoundCluster,
  type FoundWorld,
  findInstallation,
  formatVersion,
  type InstallationMode,
  putInstallation,
  type StoredInstallation,
  sealingKeys,
} from '../metadata/installation.ts';
import type { Clock } from '../ports/clock.ts';
import { MetadataDamaged, type MetadataStore } from '../ports/metadata-store.ts';
import type { MarkedPlace, ObjectBytes, StoredMark } from '../ports/object-bytes.ts';
import type { Random } from '../ports/random.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { inDataDir } from './compose/compose-bytes.ts';
import { endAtOnce } from './processes/process-exit.ts';
import { keepFile, syncDirectory } from './secret-file.ts';
import { StartRefusal } from './start-refusal.ts';

// Compares the installation that metadata, chunks and master key belong to, and marks what is new (`metadata/installation.ts`).

export interface CheckOptions {
  readonly config: Config;
  readonly random: Random;
  readonly mode: InstallationMode;
  /** Names of the master keys, the current one first. */
  readonly keys: readonly string[];
  /** For a store that keeps the marks of its clusters itself. */
  readonly stored?: MarkedStore | undefined;
}

export type MarkedStore = Pick<ObjectBytes, 'marks'>;

export interface CheckedInstallation {
  /** Undefined where fsck inspects one that is lost. */
  readonly id: string | undefined;
  /** Clusters whose mark could not be read or written, and why. */
  readonly away: readonly string[];
}

/** A cluster, how it is marked, or why that cannot be found out. */
interface Marking extends FoundCluster {
  /** @returns false where the store did not take it */
  put(id: string): Promise<boolean>;
}

const markName = 'installation.json';
/** Processes that start together. */
const attemptsMax = 16;

/**
 * Whether a master key may be created: only for a new installation, because a new key cannot open what is stored.
 * @throws StartRefusal
 */
export async function isNew(
  metadata: MetadataStore,
  { config, mode, stored }: Pick<CheckOptions, 'config' | 'mode' | 'stored'>,
): Promise<boolean> {
  if ((await findOrDamage(metadata, mode)) !== undefined) return false;
  const { found: rows, hasDamaged } = await readClusters(metadata);
  if (rows.length > 0 || hasDamaged) return false;
  if (mode === 'init') return true;
  const { found: clusters, away } = await foundClusters(config, stored);
  if (isForStored(mode) && away.length === 0 && isEmpty(clusters)) throw noInstallation(config);
  // The cause, not that the key is missing.
  const lost = explainRefusal({ stored: undefined, rows: [], clusters, keys: [], keyFile: undefined }, mode);
  if (lost !== undefined) {
    if (await isChanged(metadata, undefined)) return false;
    throw new StartRefusal(lost, 2);
  }
  return isEmpty(clusters);
}

/** Whether another starting process has changed the row: then the marks that were read may be that process's. */
const isChanged = async (
  metadata: MetadataStore,
  former: Pick<StoredInstallation, 'revision'> | undefined,
): Promise<boolean> => (await findInstallation(metadata))?.revision !== former?.revision;

const isEmpty = (clusters: readonly FoundCluster[]): boolean =>
  clusters.every(({ mark, holdsChunks: isUsed }) => mark === undefined && !isUsed);

/** For commands on what is stored: they must not make an installation of a directory whose disk is not mounted. */
const isForStored = (mode: InstallationMode): boolean => mode === 'inspect' || mode === 'adopt';

const noInstallation = ({ SVC_DATA_DIR: directory }: Pick<Config, 'SVC_DATA_DIR'>): StartRefusal =>
  new StartRefusal(
    `there is no installation in ${directory ?? 'the stores of these settings'}: neither metadata nor chunks; mount its disk, or correct the settings`,
    2,
  );

/** Before embedded metadata is opened, which would create its files. @throws StartRefusal */
export async function assertStored(config: Config, mode: InstallationMode): Promise<void> {
  if (!isForStored(mode)) return;
  // Other backends are asked once they are open, by `checkInstallation`.
  if (!dataBackends[config.SVC_DATA_BACKEND].isOnDisks) return;
  if (existsSync(inDataDir(config, 'metadata', 'data.mdb'))) return;
  if (isEmpty((await foundClusters(config, undefined)).found)) throw noInstallation(config);
}

interface NothingReadable {
  readonly state: undefined;
  readonly revision: undefined;
  readonly damage: MetadataDamaged;
}

/**
 * fsck continues without the row: `inspect` reports the damage, and `adopt` writes the row again.
 * @throws StartRefusal where the row and its copy are damaged and a gateway starts
 */
async function findOrDamage(
  metadata: MetadataStore,
  mode: InstallationMode,
): Promise<StoredInstallation | NothingReadable | undefined> {
  try {
    return await findInstallation(metadata);
  } catch (damage) {
    if (!(damage instanceof MetadataDamaged)) throw damage;
    if (isForStored(mode)) return { state: undefined, revision: undefined, damage };
    throw new StartRefusal(
      `the row of the installation and its copy are damaged (${damage.message}); \`sluice fsck --rebuild\` writes them again from the id beside the chunks; docs/recovery.md says what to do`,
      2,
      { cause: damage },
    );
  }
}

/** @throws StartRefusal */
export async function checkInstallation(
  metadata: MetadataStore,
  { config, random, mode, keys, stored }: CheckOptions,
): Promise<CheckedInstallation> {
  let seen: FoundWorld['seen'];
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const former = await findOrDamage(metadata, mode);
    const { found: clusters, away } = await foundClusters(config, stored);
    seen ??= new Map(clusters.map(({ markedAs, mark }) => [markedAs, mark]));
    const rows = (await everyCluster(metadata)).map(({ row }) => row);
    const isNothing = former === undefined && rows.length === 0 && away.length === 0 && isEmpty(clusters);
    if (isForStored(mode) && isNothing) throw noInstallation(config);
    const storedValue = former?.state;
    const { SVC_MASTER_KEY_FILE: keyFile, SVC_MASTER_KEYS_RETIRED: retired } = config;
    const world = { stored: storedValue, rows, clusters, seen, keys, keyFile, retired };
    const refusal = explainRefusal(world, mode);
    if (refusal !== undefined) {
      if (await isChanged(metadata, former)) continue;
      throw new StartRefusal(refusal, 2);
    }
    if (mode === 'inspect') return { id: storedValue?.id, away };
    const adopted = mode === 'adopt' ? clusters.find(({ mark }) => mark !== undefined)?.mark : undefined;
    const id = storedValue?.id ?? adopted ?? drawId(random);
    // The row first: a kill before the marks leaves clusters that are new, not chunks without metadata.
    if (former?.state === undefined) {
      const begun = { id, format: formatVersion, keys: [], clusters: [], isMarking: true } as const;
      await putInstallation(metadata, begun, former);
      continue;
    }
    const markedNow: string[] = [];
    for (const cluster of clusters)
      if (cluster.mark === id || (await cluster.put(id))) markedNow.push(cluster.markedAs);
    const marked = [...new Set([...former.state.clusters, ...markedNow])];
    const [key] = keys;
    const { isMarking, ...state } = former.state;
    const named = key === undefined ? {} : { key, keys: sealingKeys(state, keys) };
    const next = { ...state, clusters: marked, ...named };
    const isKnown =
      next.key === state.key &&
      next.keys?.length === state.keys?.length &&
      marked.length === state.clusters.length;
    const isStored = isKnown && !isMarking && former.revision !== undefined;
    if (!isStored && !(await putInstallation(metadata, next, former))) continue;
    await copyInstallation(metadata, isStored ? former.state : next);
    return { id, away };
  }
  throw new Error('the installation never stood still');
}

/**
 * Gives a restored copy an id of its own, so that it and its origin are two sites. The marks come first: where a kill follows, no gateway
 * starts on the copy. Metadata without an id gets one at its first start.
 */
export async function beginNewSite(
  metadata: MetadataStore,
  { config, random }: Pick<CheckOptions, 'config' | 'random'>,
): Promise<void> {
  const former = await findInstallation(metadata);
  if (former === undefined) return;
  const state = { ...former.state, id: drawId(random) };
  for (const cluster of (await foundClusters(config, undefined)).found)
    if (cluster.mark !== undefined) await cluster.put(state.id);
  if (!(await putInstallation(metadata, state, former)))
    throw new Error('another process changed the row of the installation');
  await copyInstallation(metadata, state);
}

interface FoundClusters {
  readonly found: readonly Marking[];
  readonly away: readonly string[];
}

async function foundClusters(config: Config, stored: MarkedStore | undefined): Promise<FoundClusters> {
  if (stored?.marks !== undefined) return foundIn(stored.marks);
  if (!dataBackends[config.SVC_DATA_BACKEND].isOnDisks) return { found: [], away: [] };
  const found = await Promise.all(
    config.SVC_POOL_CLUSTERS.map(async ({ id, dir }) => {
      const directory = dir ?? inDataDir(config, 'chunks', id);
      const former = await readMark(directory);
      const put = async (installation: string): Promise<boolean> => {
        await mark(directory, { former, id: installation });
        return true;
      };
      return { id, markedAs: id, directory, mark: former, holdsChunks: holdsChunks(directory), put };
    }),
  );
  return { found, away: [] };
}

interface ReadMark {
  readonly stored: StoredMark | undefined;
  readonly id: string | undefined;
}

/** A store that does not answer is skipped; it is compared when it answers again. */
async function foundIn(places: readonly MarkedPlace[]): Promise<FoundClusters> {
  const away: string[] = [];
  const leaveOut = (cluster: string, cause: unknown): void =>
    void away.push(`cluster ${cluster}: ${cause instanceof Error ? cause.message : String(cause)}`);
  const ask = async (place: MarkedPlace): Promise<Marking | undefined> => {
    const { cluster, path: directory } = place;
    const read = async (): Promise<ReadMark> => {
      const stored = await place.read();
      const id = stored === undefined ? undefined : idIn(stored.text);
      if (stored !== undefined && id === undefined)
        throw new StartRefusal(`the mark in ${directory} is damaged: it names no installation`, 2);
      return { stored, id };
    };
    const put = async (installation: string): Promise<boolean> => {
      try {
        await place.write(encodeMark(installation), former.stored);
        const { id: now } = await read();
        if (now === installation) return true;
        throw new StartRefusal(wrongMark(directory, { now, id: installation }), 2);
      } catch (cause) {
        if (cause instanceof StartRefusal) throw cause;
        leaveOut(cluster, cause);
        return false;
      }
    };
    let former: ReadMark;
    try {
      former = await read();
    } catch (cause) {
      if (cause instanceof StartRefusal) throw cause;
      leaveOut(cluster, cause);
      return undefined;
    }
    return { id: cluster, markedAs: place.id, directory, mark: former.id, holdsChunks: false, put };
  };
  // In the order of the settings, so that a refusal names the same place at each start.
  const asked = await Promise.all(places.map(ask));
  return { found: asked.filter((each) => each !== undefined), away };
}

const encodeMark = (id: string): string => `${JSON.stringify({ id, format: formatVersion })}\n`;

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

/** @throws StartRefusal where another installation was first */
async function mark(
  directory: string,
  { former, id }: { readonly former: string | undefined; readonly id: string },
): Promise<void> {
  if (former === undefined) await keepFile(join(directory, markName), encodeMark(id));
  else await replaceMark(directory, { former, id });
  const now = await readMark(directory);
  if (now !== id) throw new StartRefusal(wrongMark(join(directory, markName), { now, id }), 2);
}

const wrongMark = (
  place: string,
  { now, id }: { readonly now: string | undefined; readonly id: string },
): string => `the mark in ${place} names installation ${now}, and not ${id}`;

/**
 * Replaces the mark of another installation. A lock file beside it, shared by the processes of one installation, keeps
 * others from doing the same meanwhile. The new mark is renamed into place, so that it is never absent.
 */
async function replaceMark(
  directory: string,
  { former, id }: { readonly former: string; readonly id: string },
): Promise<void> {
  const path = join(directory, markName);
  const claim = `${path}.claim`;
  const draft = `${path}.${randomUUID()}`;
  for (let attempt = 0; !(await keepFile(claim, encodeMark(id))); attempt += 1) {
    const claimed = await readFile(claim, 'utf8').catch(() => undefined);
    if (claimed === encodeMark(id)) break;
    // The lock file was removed meanwhile: the mark may be there already.
    if (claimed === undefined && attempt < attemptsMax) continue;
    throw new StartRefusal(
      `another installation is being marked in ${directory}; if no gateway starts there, remove ${claim}`,
      2,
    );
  }
  try {
    if ((await readMark(directory)) !== former) return;
    await keepFile(draft, encodeMark(id));
    await rename(draft, path);
    await syncDirectory(directory);
  } finally {
    await rm(draft, { force: true });
    await rm(claim, { force: true });
  }
}

const namesIn = (directory: string): readonly string[] =>
  existsSync(directory) ? readdirSync(directory) : [];

const holdsChunks = (directory: string): boolean =>
  namesIn(join(directory, 'segments')).some((name) => name.endsWith('.seg')) ||
  namesIn(join(directory, 'large')).length > 0;

// Compares the installation once a store that did not answer at the start does.

const againMs = 5_000;

export interface LaterOptions {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** The places that could not be compared, and why. */
  readonly away: readonly string[];
  readonly compare: () => Promise<readonly string[]>;
  /** Ends the process; a test's own. */
  readonly end?: () => void;
}

/** @returns what stops it */
export function compareLater({
  clock,
  telemetry,
  away,
  compare,
  end = endAtOnce,
}: LaterOptions): () => Promise<void> {
  telemetry.log('WARN', 'the installation cannot be compared: a store does not answer yet', { away });
  const stopping = new AbortController();
  const { signal } = stopping;
  const work = async (): Promise<void> => {
    for (let left = away; left.length > 0 && !signal.aborted; ) {
      try {
        await clock.sleep(againMs, signal);
        left = await compare();
      } catch (cause) {
        if (signal.aborted) return;
        if (!(cause instanceof StartRefusal)) continue;
        telemetry.log('ERROR', 'a store belongs to another installation; the process ends', { cause });
        end();
        return;
      }
    }
  };
  const working = work();
  return async () => {
    stopping.abort();
    await working;
  };
}
