/** `sluice fsck`: compares metadata and data, repairs what it safely can, and makes a lost index again. */
import { existsSync } from 'node:fs';
import { printable } from '../../base/text/printable.ts';
import type { Context } from '../../context.ts';
import type { RepairGuard } from '../../domain/fsck/findings.ts';
import {
  comparedAmounts,
  comparedCounts,
  Fsck,
  type FsckFinding,
  type FsckSummary,
  fromTheStart,
  type SavedRun,
  savedRun,
  saveRun,
} from '../../domain/fsck/fsck.ts';
import { type LostBucket, type Rebuilt, rebuildIndex } from '../../domain/fsck/rebuild.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { RepairElsewhere, type RepairTurn, repairAloneSoon } from '../../workers/fsck.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { type CommandWatch, withWatch } from './command-watch.ts';
import { describeStop, stopSignal } from './stop-signal.ts';

/** Something was found that is not repaired; 2 is a faulty command line. */
const foundCode = 1;
/** Another run changes something now, or has taken over from one that was paused. */
const elsewhereCode = 1;
const stoppedCode = 1;
/** How often the position of a run is saved. */
const savedMs = 1_000;

const bucketFlag = /^--bucket=([0-9a-f]{32}):([a-z0-9][a-z0-9.-]{1,61}[a-z0-9]):([A-Za-z0-9][\w.@-]{0,127})$/;

/** Why there is nothing to compare, and which flags do not go together. */
export function fsckFaults({ config }: Configuration, own: readonly string[]): readonly string[] {
  const { SVC_DATA_DIR: directory } = config;
  const has = (flag: string): boolean => own.includes(flag);
  const buckets = own.filter((flag) => flag.startsWith('--bucket='));
  return [
    ...(config.SVC_META_BACKEND === 'memory' ? ['fsck compares what is kept: it needs --data-dir'] : []),
    ...(directory === undefined || existsSync(directory) ? [] : [`there is no directory ${directory}`]),
    ...(has('--deep') && has('--rebuild')
      ? ['--deep goes without --rebuild, which reads every byte that it uses']
      : []),
    ...(has('--rebuild') && (has('--fix') || has('--resume') || has('--drop-missing'))
      ? [
          '--rebuild goes without --fix, --drop-missing and --resume: what is not owned may be what makes the index again',
        ]
      : []),
    ...(buckets.length > 0 && !has('--rebuild') ? ['--bucket goes with --rebuild'] : []),
    ...buckets
      .filter((flag) => !bucketFlag.test(flag))
      .map((flag) => `${flag} is not --bucket=<bucket id>:<name>:<account>`),
    ...(new Set(buckets.map((flag) => flag.split(':')[1])).size < buckets.length
      ? ['two --bucket flags name one bucket']
      : []),
  ];
}

/** Runs beside running gateways or without one. Resolves with the exit code. */
export async function fsck({ config }: Configuration, own: readonly string[]): Promise<number> {
  const signal = stopSignal(
    own.includes('--rebuild')
      ? 'run the command again: it creates only the rows that are missing'
      : '--resume goes on from here',
  );
  const { context, close } = await compose(config, {
    credentials: [],
    // Without metadata the stored bytes can still be inspected, and an index rebuilt from them.
    installation: own.includes('--rebuild') ? 'adopt' : 'inspect',
  });
  try {
    return await withWatch(own, (watch) => work({ context, watch, signal }, own));
  } catch (cause) {
    if (signal.aborted) {
      process.stderr.write(`sluice: ${describeStop(signal)}\n`);
      return stoppedCode;
    }
    if (!(cause instanceof RepairElsewhere || cause instanceof LeaseLost)) throw cause;
    process.stderr.write(`sluice: ${cause.message}; wait for its end, then run the command again\n`);
    return elsewhereCode;
  } finally {
    await close();
  }
}

/** Only one run may change something at a time; any number may read beside it. */
async function work({ context, watch, signal }: Working, own: readonly string[]): Promise<number> {
  const saved = own.includes('--rebuild') ? undefined : await findRun(context, own);
  const does = (input: Working) => (saved === undefined ? rebuild(input, own) : compare(input, own, saved));
  const { fix, drop } = saved?.state.mode ?? { fix: true, drop: true };
  if (!fix && !drop) return does({ context, watch, signal });
  return repairAloneSoon(context, signal, (turn) =>
    does({ context: { ...context, ...turn }, watch, ...turn }),
  );
}

interface Working extends Pick<RepairTurn, 'signal'> {
  readonly context: Context & RepairGuard;
  readonly watch: CommandWatch | undefined;
}

const print = (text: string): void => {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
};

async function compare(
  { context, watch, signal }: Working,
  own: readonly string[],
  run: SavedRun,
): Promise<number> {
  const asJson = own.includes('--json');
  const report = (finding: FsckFinding): void => {
    watch?.clear();
    print(asJson ? JSON.stringify(finding) : formatFinding(finding));
  };
  const working = new Fsck(context, { report, state: run.state });
  const counted = { kind: 'fsck', of: comparedCounts, paced: 'count' } as const;
  watch?.begin(counted, await comparedAmounts(context, working.state));
  let savedAt = context.clock.elapsed();
  while (!working.isDone) {
    await working.step(signal);
    if (context.clock.elapsed() - savedAt < savedMs) continue;
    savedAt = context.clock.elapsed();
    await saveUnlessDamaged(context, { ...run, state: working.state });
    watch?.show(await comparedAmounts(context, working.state));
  }
  const finishedAt = await context.metadata.now();
  await saveUnlessDamaged(context, { ...run, state: working.state, finishedAt });
  const summary = working.state.seen;
  watch?.end((await comparedAmounts(context, working.state)).done);
  watch?.clear();
  print(asJson ? JSON.stringify({ summary }) : formatSummary(summary));
  return summary.found === summary.fixed ? 0 : foundCode;
}

/** A run whose own row is damaged cannot be resumed; it still has findings to report. */
async function saveUnlessDamaged(context: Context, run: SavedRun): Promise<void> {
  await saveRun(context, 'command', run).catch((cause: unknown) => {
    if (!(cause instanceof MetadataDamaged)) throw cause;
  });
}

/** The one that was cut short, where it is to go on; else a new one. */
async function findRun(context: Context, own: readonly string[]): Promise<SavedRun> {
  const former = own.includes('--resume') ? await savedRun(context, 'command') : undefined;
  if (former !== undefined && former.finishedAt === undefined) return former;
  const mode = {
    fix: own.includes('--fix'),
    drop: own.includes('--drop-missing'),
    deep: own.includes('--deep'),
  };
  return { state: fromTheStart(mode), startedAt: await context.metadata.now() };
}

async function rebuild({ context, watch, signal }: Working, own: readonly string[]): Promise<number> {
  const asJson = own.includes('--json');
  const buckets = own.flatMap((flag): readonly LostBucket[] => {
    const [, id, name, owner] = bucketFlag.exec(flag) ?? [];
    return id === undefined || name === undefined || owner === undefined ? [] : [{ id, name, owner }];
  });
  let done = 0;
  watch?.begin({ kind: 'rebuild', of: 'rows', paced: 'count' }, { done: { count: done } });
  const report = (rebuilt: Rebuilt): void => {
    watch?.clear();
    print(asJson ? JSON.stringify(rebuilt) : formatFinding(rebuilt));
    done += 1;
    watch?.show({ done: { count: done } });
  };
  const summary = await rebuildIndex(context, { buckets, report, signal });
  watch?.end({ count: done });
  watch?.clear();
  print(asJson ? JSON.stringify({ summary }) : `${summary.rebuilt} rebuilt, ${summary.left} left`);
  return summary.left === 0 ? 0 : foundCode;
}

function formatSummary(summary: FsckSummary): string {
  const { buckets, versions, parts, named, stored, leaving, underway, unjudged, found, fixed, findings } =
    summary;
  const kinds = Object.entries(findings).filter(([, count]) => count > 0);
  const repaired = fixed === 0 ? '' : `; ${fixed} of them repaired`;
  const left =
    unjudged === 0
      ? []
      : [
          `the counters of ${unjudged} buckets could not be judged: writers, or a gateway that died a minute ago, were changing them; run fsck again`,
        ];
  const verdict = kinds.map(([kind, count]) => `${count} ${kind}`).join(', ');
  return [
    `${buckets} buckets, ${versions} versions, ${parts} parts in progress`,
    `${named} extents named, ${stored} stored, ${leaving} about to be deleted, ${underway} being written`,
    ...left,
    ...(findings.metadata > 0
      ? ['the metadata is damaged, so other findings may follow from that: docs/recovery.md says what to do']
      : []),
    found === 0 ? (unjudged === 0 ? 'all is well' : 'nothing else was found') : verdict + repaired,
  ].join('\n');
}

// A finding of fsck as a line of text.

export function formatFinding({ kind, detail, ...place }: FsckFinding | Rebuilt): string {
  const where = Object.entries(place).map(([name, value]) => `${name}=${value}`);
  return printable([kind, ...where, detail].join('  '));
}
