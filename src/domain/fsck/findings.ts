/** The findings of fsck, and the counts of a run. */
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';

/** The guard of a run that may change something: only one such run works at a time (`workers/fsck.ts`). */
export interface RepairGuard {
  /** Called before each change. @throws where another run may have taken over */
  readonly assertMayRepair?: (() => Promise<void>) | undefined;
}

export type FsckContext = Pick<
  Context,
  'caches' | 'metadata' | 'bytes' | 'clock' | 'random' | 'config' | 'hasher'
> &
  RepairGuard;

interface KindOfFinding {
  /** Whether a backup that has it lacks something. */
  readonly isLoss: boolean;
  /** Whether the mode `drop` repairs it too. */
  readonly isDropped?: true;
}

/** A row for each kind, which docs/operations/fsck.md explains to operators. */
export const findingKinds = {
  /** A row or a page of the metadata is damaged. A run that found one repairs nothing from then on. */
  metadata: { isLoss: true },
  /** A row names bytes that do not exist. */
  missing: { isLoss: true, isDropped: true },
  /** A row names bytes that differ from what was stored. */
  damaged: { isLoss: true },
  /** A row names bytes that cannot be read now. */
  unreadable: { isLoss: true },
  /** A row names bytes that are marked as removed, so that their space will be reclaimed. */
  removed: { isLoss: true, isDropped: true },
  /** The rows of a large manifest, or the sizes of its bytes, do not match the object. */
  manifest: { isLoss: true },
  /** The list of open uploads names one that does not exist. */
  upload: { isLoss: true },
  /** Two versions, or a version and a part of an open upload, name the same bytes. */
  shared: { isLoss: true },
  /** Bytes that a version or part owns wait to be deleted. A restore takes them from the deletion queue. */
  queued: { isLoss: false },
  /**
   * Stored bytes that no row owns, that are not queued for deletion, and that belong to no open op or abandoned intent. In a backup they
   * may have been written after the snapshot; a restore removes them.
   */
  unowned: { isLoss: false },
  /** The counter of a bucket differs from the sum over its rows. */
  usage: { isLoss: true },
} as const satisfies Readonly<Record<string, KindOfFinding>>;
type FindingKind = keyof typeof findingKinds;
const kindNames = Object.keys(findingKinds) as readonly FindingKind[];
const kindOf = ({ kind }: Pick<FsckFinding, 'kind'>): KindOfFinding => findingKinds[kind];

/** Whether a backup that has this finding lacks something. */
export const isLoss = (finding: FsckFinding): boolean => kindOf(finding).isLoss;

export interface FsckFinding {
  readonly kind: FindingKind;
  /** One sentence for the operator. */
  readonly detail: string;
  /** For damaged metadata: the table, and the key columns of the row as text. */
  readonly table?: string;
  readonly row?: string;
  readonly bucket?: string;
  /** Set where no bucket with this id is known. */
  readonly bucketId?: string;
  readonly key?: string;
  readonly version?: string;
  readonly uploadId?: string;
  readonly part?: number;
  readonly cluster?: string;
  readonly extent?: string;
  /** What a run with `fix` did about it. */
  readonly fixed?: string;
  /** Why a run with `fix` did nothing about it. */
  readonly left?: string;
}

const counters = [
  'buckets',
  'versions',
  'parts',
  'named',
  'stored',
  'leaving',
  'underway',
  'unjudged',
  'fixed',
] as const;
type Counter = (typeof counters)[number];

/**
 * `named` counts the extents that rows name, `stored` those that exist. Stored extents without an owner are `leaving`, when gc or
 * the sweeper will delete them, or `underway`, when an open op may still commit them. `unjudged` counts buckets whose counters
 * differed from the sum over their rows while concurrent writers, or commits that are not settled, could explain it.
 */
export interface FsckSummary extends Readonly<Record<Counter, number>> {
  readonly findings: Readonly<Record<FindingKind, number>>;
  /** The sum over `findings`. */
  readonly found: number;
}

export interface FsckMode {
  /** Makes the repairs that lose no data. */
  readonly fix: boolean;
  /**
   * Removes versions whose bytes are lost, and the removal marks of bytes that still exist. Without `fix` it repairs nothing else,
   * and unowned bytes stay for a rebuild.
   */
  readonly drop: boolean;
  /** Reads every byte of every object, and compares contents that are not encrypted with their ETags and checksums. */
  readonly deep?: boolean;
}

export type FsckReport = (finding: FsckFinding) => Awaitable<void>;

const zeros = <Name extends string>(names: readonly Name[]): Record<Name, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;

export const nothingSeen: FsckSummary = { ...zeros(counters), findings: zeros(kindNames), found: 0 };

/** A run of fsck, with its counts so far. */
export interface FsckRun extends FsckContext {
  readonly mode: FsckMode;
  readonly signal: AbortSignal;
  count(what: Counter, by?: number): void;
  /** Reports a finding; calls `repair` where the mode allows it. */
  find(finding: FsckFinding, repair?: () => Promise<Repaired>): Promise<void>;
}
export type Repaired = Pick<FsckFinding, 'fixed' | 'left'>;

export function openRun(
  { caches, metadata, bytes, clock, random, config, hasher, assertMayRepair }: FsckContext,
  run: Pick<FsckRun, 'mode' | 'signal'> & {
    readonly report: FsckReport;
    readonly seen: FsckSummary;
    /** Finds damage in the metadata; called before a repair. */
    readonly verify: (run: FsckRun) => Promise<void>;
  },
): FsckRun & { summary(): FsckSummary } {
  // A run that an older gateway saved has fewer counters.
  const seen = {
    ...zeros(counters),
    ...run.seen,
    findings: { ...zeros(kindNames), ...run.seen.findings },
  };
  const isSound = async (): Promise<boolean> => {
    if (seen.findings.metadata === 0) await run.verify(opened);
    return seen.findings.metadata === 0;
  };
  const opened: FsckRun & { summary(): FsckSummary } = {
    ...{ caches, metadata, bytes, clock, random, config, hasher },
    mode: run.mode,
    signal: run.signal,
    count: (what, by = 1) => {
      seen[what] += by;
    },
    async find(finding, repair) {
      seen.findings[finding.kind] += 1;
      // Bytes may look unowned or missing only because a row cannot be read.
      const mayRepair = run.mode.fix || (run.mode.drop && kindOf(finding).isDropped === true);
      const canRepair = mayRepair && finding.kind !== 'metadata' && repair !== undefined && (await isSound());
      if (canRepair) await assertMayRepair?.();
      const repaired = !mayRepair ? {} : canRepair ? await repair() : { left: damagedMetadata };
      seen.found += 1;
      if (repaired.fixed !== undefined) seen.fixed += 1;
      await run.report({ ...finding, ...repaired });
    },
    summary: () => ({ ...seen, findings: { ...seen.findings } }),
  };
  return opened;
}

const damagedMetadata = 'nothing is repaired while metadata is damaged: see docs/recovery.md';

/** Rows that are read in one step. */
export const pageRows = 200;
