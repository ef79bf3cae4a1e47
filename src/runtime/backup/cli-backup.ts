/** `sluice backup` and `sluice restore`: a data directory with embedded metadata and file chunks, copied while gateways use it. */
import { existsSync, realpathSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { describeError } from '../../base/text/describe-error.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { isLoss } from '../../domain/fsck/findings.ts';
import {
  comparedAmounts,
  comparedCounts,
  Fsck,
  type FsckFinding,
  fromTheStart,
} from '../../domain/fsck/fsck.ts';
import { type BackupRun, saveBackup } from '../../domain/storage/tasks.ts';
import { everyCluster } from '../../metadata/background/clusters.ts';
import { everyGateway, removeGateway } from '../../metadata/background/heartbeats.ts';
import { findLease, LeaseLost, releaseLease } from '../../metadata/background/leases.ts';
import { findInstallation } from '../../metadata/installation.ts';
import { type LeaseRow, leases } from '../../metadata/records/processes.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { holdGarbage, LeasedElsewhere } from '../../workers/leadership.ts';
import { formatFinding } from '../cli/cli-fsck.ts';
import { type CommandWatch, withWatch } from '../cli/command-watch.ts';
import { describeStop, stopSignal } from '../cli/stop-signal.ts';
import { compose } from '../compose/compose.ts';
import { inDataDir } from '../compose/compose-bytes.ts';
import type { Configuration } from '../compose/configuration.ts';
import { beginNewSite } from '../installation.ts';
import { makePrivateDirectory } from '../secret-file.ts';
import {
  type Copied,
  copyChunks,
  copyWhole,
  flush,
  markName,
  measureChunks,
  measureCopy,
  pruneChunks,
} from './copy-chunks.ts';

/** A refusal or a backup that does not hold what its metadata names; 2 is a faulty command line. */
const failedCode = 1;

export const print = (text: string): void => void process.stdout.write(`${text}\n`);
export const refuse = (why: string): number => {
  process.stderr.write(`sluice: ${why}\n`);
  return failedCode;
};

export const flagValue = (own: readonly string[], flag: string): string | undefined =>
  own.findLast((each) => each.startsWith(flag))?.slice(flag.length) || undefined;

function backendFaults({
  SVC_META_BACKEND: metadata,
  SVC_DATA_BACKEND: data,
  SVC_DATA_DIR: directory,
}: Config) {
  if (metadata !== 'embedded' || data !== 'file')
    return [
      `this command is for embedded metadata and file chunks, not for ${metadata} and ${data}: copy each with its own tools`,
    ];
  return directory === undefined ? ['this command needs --data-dir'] : [];
}

/** With links resolved as far as the path exists. */
function realPath(path: string): string {
  const absolute = resolve(path);
  if (existsSync(absolute)) return realpathSync(absolute);
  return dirname(absolute) === absolute
    ? absolute
    : join(realPath(dirname(absolute)), absolute.slice(dirname(absolute).length));
}

const isInside = (inner: string, outer: string): boolean => `${inner}${sep}`.startsWith(`${outer}${sep}`);

export function backupFaults({ config }: Configuration, own: readonly string[]): readonly string[] {
  const faults = backendFaults(config);
  const to = flagValue(own, '--to=');
  const from = config.SVC_DATA_DIR ?? '.';
  if (to === undefined) return [...faults, 'name the directory of the backup: --to=DIRECTORY'];
  if (!existsSync(from)) return [...faults, `there is no directory ${from}`];
  if (isInside(realPath(to), realPath(from)) || isInside(realPath(from), realPath(to)))
    return [...faults, `--to=${to} and the data directory ${from} must not contain each other`];
  return faults;
}

/** Resolves with the exit code. */
export const runBackup = ({ config }: Configuration, own: readonly string[]): Promise<number> =>
  withWatch(own, (watch) => backUpTo(config, own, watch));

async function backUpTo(
  config: Config,
  own: readonly string[],
  watch: CommandWatch | undefined,
): Promise<number> {
  const to = flagValue(own, '--to=') ?? '';
  const stopping = stopSignal('the next run continues');
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    const former = await readBackup(to);
    if (former === undefined && !(await isEmptyDirectory(to, drafts)))
      return refuse(`${to} is neither empty nor a backup`);
    const installation = (await findInstallation(context.metadata))?.state.id;
    if (former !== undefined && former.installation !== installation)
      return refuse(
        `${to} is a backup of the installation ${former.installation}, and this one is ${installation}`,
      );
    const refusal = await refuseClusters(context);
    if (refusal !== undefined) return refuse(refusal);
    const summary = await backUp(context, { to, watch, signal: stopping });
    const findings = own.includes('--no-verify')
      ? []
      : await verify(config, { directory: to, backup: summary, watch, signal: stopping });
    watch?.clear();
    if (own.includes('--json')) print(JSON.stringify({ ...summary, findings }));
    else {
      for (const path of summary.unreadable ?? []) print(`unreadable  ${path}`);
      for (const finding of findings) print(formatFinding(finding));
      print(
        `backup of ${summary.at}: ${summary.files} files (${summary.bytes} bytes) copied, ${summary.kept} kept, ${summary.removed} removed`,
      );
    }
    return findings.length === 0 && summary.isComplete ? 0 : failedCode;
  } catch (cause) {
    watch?.clear();
    const isExplained =
      cause instanceof LeasedElsewhere || cause instanceof LeaseLost || cause instanceof CopyFailed;
    if (stopping.aborted) return refuse(describeStop(stopping));
    if (isExplained) return refuse(cause.message);
    throw cause;
  } finally {
    await close();
  }
}

/** Why a backup with the clusters of these settings would not be one of the installation. */
async function refuseClusters({
  metadata,
  config,
}: Pick<Context, 'metadata' | 'config'>): Promise<string | undefined> {
  const ids = config.SVC_POOL_CLUSTERS.map(({ id }) => id);
  const leftOut = (await everyCluster(metadata))
    .map(({ row }) => row)
    .filter(({ id, state }) => state !== 'removed' && !ids.includes(id));
  if (leftOut.length > 0)
    return `chunks of this installation may be on the clusters ${leftOut.map(({ id }) => id).join(', ')}, and SVC_POOL_CLUSTERS names only ${ids.join(', ')}: set it as the gateways have it`;
  const empty = config.SVC_POOL_CLUSTERS.find(
    (each) => !existsSync(join(chunksDirectory(config, each), markName)),
  );
  return (
    empty &&
    `the cluster ${empty.id} has no chunks in ${chunksDirectory(config, empty)}: mount its disk, or set SVC_POOL_CLUSTERS as the gateways have it`
  );
}

/** The clusters of a backup are inside it. */
const backupConfig = (config: Config, directory: string, { clusters }: Pick<Backup, 'clusters'>): Config => ({
  ...config,
  SVC_DATA_DIR: directory,
  SVC_POOL_CLUSTERS: clusters.map((id) => ({ id })),
});

/** Whether the backup holds everything that its metadata names: without reading the chunks, which `fsck --deep` does. */
async function verify(
  config: Config,
  {
    directory,
    backup,
    watch,
    signal,
  }: {
    readonly directory: string;
    readonly backup: Backup;
    readonly watch: CommandWatch | undefined;
    readonly signal: AbortSignal;
  },
): Promise<readonly FsckFinding[]> {
  const { context, close } = await compose(backupConfig(config, directory, backup), {
    credentials: [],
    installation: 'inspect',
  });
  try {
    return (await check(context, { fix: false, watch, signal })).filter(isLoss);
  } finally {
    await close();
  }
}

const findingsMax = 1_000;

async function check(
  context: ConstructorParameters<typeof Fsck>[0],
  {
    fix,
    watch,
    signal,
  }: { readonly fix: boolean; readonly watch: CommandWatch | undefined; readonly signal: AbortSignal },
): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  const report = (finding: FsckFinding): void => {
    if (findings.length < findingsMax && finding.fixed === undefined) findings.push(finding);
  };
  const run = new Fsck(context, { report, state: fromTheStart({ fix, drop: false, deep: false }) });
  const counted = { kind: 'verify', of: comparedCounts, paced: 'count' } as const;
  watch?.begin(counted, await comparedAmounts(context, run.state));
  while (!run.isDone) {
    await run.step(signal);
    if (watch?.isDue === true) watch.show(await comparedAmounts(context, run.state));
  }
  watch?.end((await comparedAmounts(context, run.state)).done);
  return findings;
}

export function restoreFaults({ config }: Configuration, own: readonly string[]): readonly string[] {
  const faults = backendFaults(config);
  const from = flagValue(own, '--from=');
  if (from === undefined) return [...faults, 'name the directory of the backup: --from=DIRECTORY'];
  return existsSync(from) ? faults : [...faults, `there is no directory ${from}`];
}

/** Resolves with the exit code. */
export const runRestore = ({ config }: Configuration, own: readonly string[]): Promise<number> =>
  withWatch(own, (watch) => restoreFrom(config, own, watch));

async function restoreFrom(
  config: Config,
  own: readonly string[],
  watch: CommandWatch | undefined,
): Promise<number> {
  const from = flagValue(own, '--from=') ?? '';
  const backup = await readBackup(from);
  if (backup === undefined) return refuse(`${from} is no backup: it has no backup.json`);
  if (backup.unreadable !== undefined)
    return refuse(
      `the backup in ${from} lacks ${backup.unreadable.length} files that could not be read: use another one, or remove "unreadable" from its backup.json and set "isComplete" to true there, to restore everything else`,
    );
  if (!backup.isComplete)
    return refuse(`the backup in ${from} was cut short: run sluice backup again, or use another one`);
  const missing = backup.clusters.filter(
    (id) => !config.SVC_POOL_CLUSTERS.some((cluster) => cluster.id === id),
  );
  if (missing.length > 0)
    return refuse(
      `the backup has chunks of the clusters ${missing.join(', ')}: name them in SVC_POOL_CLUSTERS`,
    );
  const targets = [config.SVC_DATA_DIR ?? '', ...config.SVC_POOL_CLUSTERS.flatMap(({ dir }) => dir ?? [])];
  for (const directory of targets)
    if (!(await isEmptyDirectory(directory))) return refuse(`${directory} is not empty`);
  const signal = stopSignal(`empty ${targets.join(', ')}, then run the command again`);
  try {
    return await copyAndCheck(config, { own, from, backup, watch, signal });
  } catch (cause) {
    watch?.clear();
    if (signal.aborted) return refuse(describeStop(signal));
    throw cause;
  }
}

async function copyAndCheck(
  config: Config,
  { own, from, backup, watch, signal }: Restoring & { readonly own: readonly string[] },
): Promise<number> {
  const copied = await restore(config, { from, backup, watch, signal });
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    await endProcesses(context.metadata);
    if (own.includes('--as-new-site')) await beginNewSite(context.metadata, context);
    // Queues chunks for deletion that were written after the snapshot: no row names them.
    const findings = await check(context, { fix: true, watch, signal });
    watch?.clear();
    if (own.includes('--json')) print(JSON.stringify({ ...backup, ...copied, findings }));
    else {
      for (const finding of findings) print(formatFinding(finding));
      print(`restored the backup of ${backup.at}: ${copied.files} files, ${copied.bytes} bytes`);
    }
    return findings.filter(isLoss).length === 0 ? 0 : failedCode;
  } finally {
    await close();
  }
}

/** No process serves the copy: those of the backup hold their leases elsewhere, so the workers of the copy need not wait for them. */
async function endProcesses(metadata: Context['metadata']): Promise<void> {
  try {
    for await (const { rows } of metadata.everyRow?.(leases) ?? [])
      for (const { row } of rows) {
        const lease = await findLease(metadata, (row as LeaseRow).name);
        if (lease !== undefined) await releaseLease(metadata, lease);
      }
    for await (const gateway of everyGateway(metadata)) await removeGateway(metadata, gateway);
  } catch (cause) {
    // The check reports the damage; the leases end by their time.
    if (!(cause instanceof MetadataDamaged)) throw cause;
  }
}

// Copies a data directory while gateways use it: one moment of the metadata, then the chunks that it names. gc deletes nothing meanwhile.
// A later backup into the same directory copies what is new, and removes what is gone. Compacted segments replace those of the former
// backup, so `backup.json` says that the directory is incomplete until the new one is done.

/** The file that makes a directory a backup. */
const backupFile = 'backup.json';

const metadataDraft = 'metadata.new';
const backupDraft = `${backupFile}.new`;
/** What a first backup that was cut short may leave before it has a `backup.json`. */
const drafts = [metadataDraft, backupDraft];

/** The target cannot take the metadata. */
class CopyFailed extends Error {}

/** What `backup.json` says. */
interface Backup {
  readonly format: 1;
  /** The id of the installation that was copied. */
  readonly installation: string;
  /** When the snapshot of the metadata was taken, as ISO 8601. */
  readonly at: string;
  readonly clusters: readonly string[];
  /** False while a backup runs, after one that was cut short, and where files could not be read. */
  readonly isComplete: boolean;
  /** The files of chunks that could not be read, where the backup has ended and has everything else. */
  readonly unreadable?: readonly string[];
}

interface BackupSummary extends Backup, Readonly<Copied> {
  readonly removed: number;
}

/** Files of the data directory that open it elsewhere; absent where settings name other files. */
const keyFiles = ['master.key', 'root-credentials.json'] as const;

/** Where a cluster's chunks are. */
const chunksDirectory = (config: Config, { id, dir }: Config['SVC_POOL_CLUSTERS'][number]): string =>
  dir ?? inDataDir(config, 'chunks', id);

/** @throws LeasedElsewhere, and the signal's reason */
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
  await makePrivateDirectory(to);
  return holdGarbage(context, signal, async ({ signal: leaseSignal, assertLeased }) => {
    const draft = join(to, metadataDraft);
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    const at = new Date(clock.now()).toISOString();
    watch?.note('backup  copies the metadata of this moment');
    await copyTo.call(metadata, draft).catch((cause: unknown) => {
      throw new CopyFailed(`the metadata cannot be copied to ${draft}: ${describeError(cause)}`, { cause });
    });
    // The library creates the file with the mode that the umask allows.
    await chmod(join(draft, 'data.mdb'), 0o600);
    await flush(join(draft, 'data.mdb'));
    const installation = (await findInstallation(metadata))?.state.id ?? '';
    const clusters = config.SVC_POOL_CLUSTERS.map(({ id }) => id);
    const backup: Backup = { format: 1, installation, at, clusters, isComplete: false };
    await writeBackup(to, backup);
    const copied: Copied = { files: 0, bytes: 0, kept: 0, keptBytes: 0 };
    const unreadable: string[] = [];
    const sources = config.SVC_POOL_CLUSTERS.map((cluster) => chunksDirectory(config, cluster));
    // The task begins after the snapshot, so that a restored installation has no backup that never ends.
    await followCopy(context, { sources, copied, watch, signal: leaseSignal }, async () => {
      for (const cluster of config.SVC_POOL_CLUSTERS)
        await copyChunks(chunksDirectory(config, cluster), join(to, 'chunks', cluster.id), {
          signal: leaseSignal,
          copied,
          unreadable,
        });
    });
    await copyKeys(config, to);
    leaseSignal.throwIfAborted();
    await replaceMetadata(to, draft);
    let removed = 0;
    for (const cluster of config.SVC_POOL_CLUSTERS)
      removed += await pruneChunks(
        chunksDirectory(config, cluster),
        join(to, 'chunks', cluster.id),
        leaseSignal,
      );
    leaseSignal.throwIfAborted();
    await assertLeased();
    const ended = unreadable.length === 0 ? { ...backup, isComplete: true } : { ...backup, unreadable };
    await writeBackup(to, ended);
    return { ...ended, ...copied, removed };
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
  watch?.begin({ kind: 'backup', of: 'files', paced: 'bytes' }, measureCopy(copied, all));
  const save = async (end?: Pick<BackupRun, 'failure'>): Promise<void> => {
    const { done } = measureCopy(copied, all);
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
      watch?.show(measureCopy(copied, all));
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
  watch?.end(measureCopy(copied, all).done);
}

async function copyKeys(config: Config, to: string): Promise<void> {
  for (const name of keyFiles) {
    const from = inDataDir(config, name);
    if (existsSync(from)) await copyWhole(from, join(to, name));
  }
}

async function replaceMetadata(to: string, draft: string): Promise<void> {
  const metadata = join(to, 'metadata');
  await makePrivateDirectory(metadata);
  // A process that opened the former backup left files there, such as lmdb's lock file.
  for (const name of await readdir(metadata))
    if (name !== 'data.mdb') await rm(join(metadata, name), { recursive: true });
  await rename(join(draft, 'data.mdb'), join(metadata, 'data.mdb'));
  await rm(draft, { recursive: true });
  await flush(metadata);
}

async function writeBackup(to: string, backup: Backup): Promise<void> {
  const text = join(to, backupDraft);
  await writeFile(text, `${JSON.stringify(backup, undefined, 2)}\n`, { mode: 0o600 });
  await flush(text);
  await rename(text, join(to, backupFile));
  await flush(to);
}

/** The backup in a directory; undefined where there is none. */
async function readBackup(directory: string): Promise<Backup | undefined> {
  const text = await readFile(join(directory, backupFile), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    const found = Object(JSON.parse(text)) as Partial<Backup>;
    return found.format === 1 && Array.isArray(found.clusters) ? (found as Backup) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a directory has no entries but `except`, or does not exist. */
async function isEmptyDirectory(directory: string, except: readonly string[] = []): Promise<boolean> {
  if ((await stat(directory).catch(() => undefined)) === undefined) return true;
  return (await readdir(directory)).every((name) => except.includes(name));
}

// Copies a backup to a data directory that holds nothing yet, where a gateway then starts.

interface Restoring {
  readonly from: string;
  readonly backup: Backup;
  readonly signal: AbortSignal;
  readonly watch?: CommandWatch | undefined;
}

/** @throws the signal's reason */
async function restore(config: Config, { from, backup, signal, watch }: Restoring): Promise<Copied> {
  const copied: Copied = { files: 0, bytes: 0, kept: 0, keptBytes: 0 };
  const clusters = config.SVC_POOL_CLUSTERS.filter(({ id }) => backup.clusters.includes(id));
  const sourceDirectory = (id: string): string => join(from, 'chunks', id);
  const all =
    watch &&
    (await measureChunks(
      clusters.map(({ id }) => sourceDirectory(id)),
      signal,
    ));
  if (all) watch?.begin({ kind: 'restore', of: 'files', paced: 'bytes' }, measureCopy(copied, all));
  const report = (): void => {
    if (all && watch?.isDue === true) watch.show(measureCopy(copied, all));
  };
  for (const cluster of clusters)
    await copyChunks(sourceDirectory(cluster.id), chunksDirectory(config, cluster), {
      signal,
      copied,
      report,
    });
  if (all) watch?.end(measureCopy(copied, all).done);
  // Clusters may be in other places.
  await makePrivateDirectory(inDataDir(config));
  for (const name of keyFiles)
    if (existsSync(join(from, name))) await copyWhole(join(from, name), inDataDir(config, name));
  // The metadata comes last: without it the directory is not a complete installation, and a gateway refuses to start there.
  const metadata = inDataDir(config, 'metadata');
  await makePrivateDirectory(metadata);
  await copyWhole(join(from, 'metadata/data.mdb'), join(metadata, 'data.mdb'));
  for (const directory of [metadata, inDataDir(config)]) await flush(directory);
  return copied;
}
