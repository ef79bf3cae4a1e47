/**
 * Copies a data directory while gateways use it: one moment of the metadata, then the chunks that it names. gc deletes nothing meanwhile.
 * A later backup into the same directory copies what is new, and removes what is gone. Compacted segments replace those of the former
 * backup, so `backup.json` says that the directory is incomplete until the new one is done.
 */
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError } from '../../base/text/describe-error.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { type BackupRun, saveBackup } from '../../domain/storage/tasks.ts';
import { findInstallation } from '../../metadata/installation.ts';
import { holdGarbage } from '../../workers/leadership.ts';
import type { CommandWatch } from '../cli/command-watch.ts';
import { inDataDir } from '../compose/compose-bytes.ts';
import {
  amountsOf,
  type Copied,
  copyChunks,
  copyWhole,
  flush,
  measureChunks,
  pruneChunks,
} from './copy-chunks.ts';

/** The file that makes a directory a backup. */
const backupFile = 'backup.json';

/** What `backup.json` says. */
export interface Backup {
  readonly format: 1;
  /** The id of the installation that was copied. */
  readonly installation: string;
  /** When the snapshot of the metadata was taken, as ISO 8601. */
  readonly at: string;
  readonly clusters: readonly string[];
  /** False while a backup runs, and after one that was cut short. */
  readonly isComplete: boolean;
}

interface BackupSummary extends Backup, Readonly<Copied> {
  readonly removed: number;
}

/** Files of the data directory that open it elsewhere; absent where settings name other files. */
const keyFiles = ['master.key', 'root-credentials.json'] as const;

/** Where a cluster's chunks are. */
export const chunksOf = (config: Config, { id, dir }: Config['SVC_POOL_CLUSTERS'][number]): string =>
  dir ?? inDataDir(config, 'chunks', id);

/** @throws HeldElsewhere, and the signal's reason */
export async function backUp(
  context: Context,
  {
    to,
    signal,
    watch,
  }: { readonly to: string; readonly signal: AbortSignal; readonly watch?: CommandWatch | undefined },
): Promise<BackupSummary> {
  const { config, metadata, clock } = context;
  const { copyTo } = metadata;
  if (copyTo === undefined) throw new Error('the metadata is not in a file of this machine');
  await mkdir(to, { recursive: true, mode: 0o700 });
  return holdGarbage(context, signal, async ({ signal: held, assertHeld }) => {
    const draft = join(to, 'metadata.new');
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    const at = new Date(clock.now()).toISOString();
    watch?.note('backup  copies the metadata of this moment');
    await copyTo.call(metadata, draft);
    // The library creates the file with the mode that the umask allows.
    await chmod(join(draft, 'data.mdb'), 0o600);
    await flush(join(draft, 'data.mdb'));
    const installation = (await findInstallation(metadata))?.state.id ?? '';
    const clusters = config.SVC_POOL_CLUSTERS.map(({ id }) => id);
    const backup: Backup = { format: 1, installation, at, clusters, isComplete: false };
    await writeBackup(to, backup);
    const copied: Copied = { files: 0, bytes: 0, kept: 0, keptBytes: 0 };
    const sources = config.SVC_POOL_CLUSTERS.map((cluster) => chunksOf(config, cluster));
    // The task begins after the snapshot, so that a restored installation has no backup that never ends.
    await followCopy(context, { sources, copied, watch, signal: held }, async () => {
      for (const cluster of config.SVC_POOL_CLUSTERS)
        await copyChunks(chunksOf(config, cluster), join(to, 'chunks', cluster.id), { signal: held, copied });
    });
    await copyKeys(config, to);
    held.throwIfAborted();
    await replaceMetadata(to, draft);
    let removed = 0;
    for (const cluster of config.SVC_POOL_CLUSTERS)
      removed += await pruneChunks(chunksOf(config, cluster), join(to, 'chunks', cluster.id), held);
    held.throwIfAborted();
    await assertHeld();
    const complete = { ...backup, isComplete: true };
    await writeBackup(to, complete);
    return { ...complete, ...copied, removed };
  });
}

const progressMs = 1_000;

/** Saves the progress of a copy every second while it runs, and its end. */
async function followCopy(
  ctx: Pick<Context, 'metadata' | 'clock' | 'telemetry'>,
  {
    sources,
    copied,
    watch,
    signal,
  }: {
    readonly sources: readonly string[];
    readonly copied: Copied;
    readonly watch: CommandWatch | undefined;
    readonly signal: AbortSignal;
  },
  copy: () => Promise<void>,
): Promise<void> {
  const startedAt = await ctx.metadata.now();
  const all = await measureChunks(sources, signal);
  watch?.begin({ kind: 'backup', of: 'files', paced: 'bytes' }, amountsOf(copied, all));
  const save = async (end?: Pick<BackupRun, 'failure'>): Promise<void> => {
    const { done } = amountsOf(copied, all);
    try {
      const ending = end === undefined ? {} : { ...end, finishedAt: await ctx.metadata.now() };
      await saveBackup(ctx, { startedAt, done, all, ...ending });
    } catch (cause) {
      // The copy needs no progress: a full disk is backed up too.
      ctx.telemetry.log('DEBUG', 'the progress of the backup could not be stored', { cause });
    }
  };
  const ended = new AbortController();
  const saveEachSecond = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await save();
      watch?.show(amountsOf(copied, all));
      await ctx.clock.sleep(progressMs, ended.signal);
    }
  };
  const saving = saveEachSecond();
  let end: Pick<BackupRun, 'failure'> = {};
  try {
    await copy();
  } catch (cause) {
    end = { failure: describeError(cause) };
    throw cause;
  } finally {
    ended.abort();
    await saving;
    await save(end);
  }
  watch?.end(amountsOf(copied, all).done);
}

async function copyKeys(config: Config, to: string): Promise<void> {
  for (const name of keyFiles) {
    const from = inDataDir(config, name);
    if (existsSync(from)) await copyWhole(from, join(to, name));
  }
}

async function replaceMetadata(to: string, draft: string): Promise<void> {
  const metadata = join(to, 'metadata');
  await mkdir(metadata, { recursive: true, mode: 0o700 });
  // A process that opened the former backup left files there, such as lmdb's lock file.
  for (const name of await readdir(metadata))
    if (name !== 'data.mdb') await rm(join(metadata, name), { recursive: true });
  await rename(join(draft, 'data.mdb'), join(metadata, 'data.mdb'));
  await rm(draft, { recursive: true });
  await flush(metadata);
}

async function writeBackup(to: string, backup: Backup): Promise<void> {
  const text = join(to, `${backupFile}.new`);
  await writeFile(text, `${JSON.stringify(backup, undefined, 2)}\n`, { mode: 0o600 });
  await flush(text);
  await rename(text, join(to, backupFile));
  await flush(to);
}

/** The backup in a directory; undefined where there is none. */
export async function readBackup(directory: string): Promise<Backup | undefined> {
  const text = await readFile(join(directory, backupFile), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    const found = Object(JSON.parse(text)) as Partial<Backup>;
    return found.format === 1 && Array.isArray(found.clusters) ? (found as Backup) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a directory has no entries, or does not exist. */
export async function isEmptyDirectory(directory: string): Promise<boolean> {
  if ((await stat(directory).catch(() => undefined)) === undefined) return true;
  return (await readdir(directory)).length === 0;
}

// Copies a backup to a data directory that holds nothing yet, where a gateway then starts.

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
