/** `sluice backup` and `sluice restore`: a data directory with embedded metadata and file chunks, copied while gateways use it. */

import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import {
  comparedAmounts,
  comparedCounts,
  Fsck,
  type FsckFinding,
  fromTheStart,
} from '../../domain/fsck/fsck.ts';
import { everyCluster } from '../../metadata/background/clusters.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import { findInstallation } from '../../metadata/installation.ts';
import { HeldElsewhere } from '../../workers/leadership.ts';
import { formatFinding } from '../cli/cli-fsck.ts';
import { type CommandWatch, withWatch } from '../cli/command-watch.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { type Backup, backUp, chunksOf, isEmptyDirectory, readBackup, restore } from './backup.ts';
import { markName } from './copy-chunks.ts';

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
  const stopping = stopSignal();
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    const former = await readBackup(to);
    if (former === undefined && !(await isEmptyDirectory(to)))
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
      for (const finding of findings) print(formatFinding(finding));
      print(
        `backup of ${summary.at}: ${summary.files} files (${summary.bytes} bytes) copied, ${summary.kept} kept, ${summary.removed} removed`,
      );
    }
    return findings.length === 0 ? 0 : failedCode;
  } catch (cause) {
    watch?.clear();
    if (cause instanceof HeldElsewhere || cause instanceof LeaseLost || stopping.aborted)
      return refuse((cause as Error).message);
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
  const empty = config.SVC_POOL_CLUSTERS.find((each) => !existsSync(join(chunksOf(config, each), markName)));
  return (
    empty &&
    `the cluster ${empty.id} has no chunks in ${chunksOf(config, empty)}: mount its disk, or set SVC_POOL_CLUSTERS as the gateways have it`
  );
}

export function stopSignal(): AbortSignal {
  const stopping = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => stopping.abort(new Error('interrupted; the next run continues')));
  return stopping.signal;
}

/** Bytes that no row owns may have been written after the snapshot; a restore removes them. */
const isLoss = ({ kind }: FsckFinding): boolean => kind !== 'unowned' && kind !== 'queued';

/** The clusters of a backup are inside it. */
const configOf = (config: Config, directory: string, { clusters }: Pick<Backup, 'clusters'>): Config => ({
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
  const { context, close } = await compose(configOf(config, directory, backup), {
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
  if (!backup.isComplete)
    return refuse(`the backup in ${from} was cut short: run sluice backup again, or use another one`);
  const missing = backup.clusters.filter(
    (id) => !config.SVC_POOL_CLUSTERS.some((cluster) => cluster.id === id),
  );
  if (missing.length > 0)
    return refuse(
      `the backup has chunks of the clusters ${missing.join(', ')}: name them in SVC_POOL_CLUSTERS`,
    );
  for (const directory of [
    config.SVC_DATA_DIR ?? '',
    ...config.SVC_POOL_CLUSTERS.flatMap(({ dir }) => dir ?? []),
  ])
    if (!(await isEmptyDirectory(directory))) return refuse(`${directory} is not empty`);
  const signal = stopSignal();
  const copied = await restore(config, { from, backup, watch, signal });
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
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
