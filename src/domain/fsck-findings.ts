/** What fsck can find, how it is counted, and the walk that its checks share. */
import type { Context } from '../context.ts';
import { objectsOf } from '../metadata/objects.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';

export type FsckContext = Pick<Context, 'metadata' | 'bytes'>;

/**
 * - `missing`, `damaged`, `unreadable`: a row names bytes that are not there, not what was stored, or not to be read now.
 * - `manifest`: the rows of a large manifest are not what the object says.
 * - `unowned`: stored bytes that no row owns, that are not queued for deletion and that no sweep will examine.
 * - `usage`: the counter of a bucket differs from the sum over its rows.
 */
export const findingKinds = ['missing', 'damaged', 'unreadable', 'manifest', 'unowned', 'usage'] as const;

export interface FsckFinding {
  readonly kind: (typeof findingKinds)[number];
  /** One sentence for a person. */
  readonly detail: string;
  readonly bucket?: string;
  readonly key?: string;
  readonly version?: string;
  readonly uploadId?: string;
  readonly part?: number;
  readonly cluster?: string;
  readonly extent?: string;
}

export interface FsckSummary {
  readonly buckets: number;
  readonly versions: number;
  readonly parts: number;
  /** Extents that rows name. */
  readonly named: number;
  /** Extents that are stored. */
  readonly stored: number;
  /** Stored extents without an owner that gc or the sweep is going to delete. */
  readonly leaving: number;
  readonly findings: Readonly<Record<FsckFinding['kind'], number>>;
  /** The sum over `findings`. */
  readonly found: number;
}

export type FsckReport = (finding: FsckFinding) => void | Promise<void>;

type Counter = 'buckets' | 'versions' | 'parts' | 'named' | 'stored' | 'leaving';

/** One run: what it works on, and what it has seen so far. */
export interface FsckRun extends FsckContext {
  readonly signal: AbortSignal;
  count(what: Counter, by?: number): void;
  find(finding: FsckFinding): Promise<void>;
  summary(): FsckSummary;
}

export function openRun(context: FsckContext, report: FsckReport, signal: AbortSignal): FsckRun {
  const counts = { buckets: 0, versions: 0, parts: 0, named: 0, stored: 0, leaving: 0 };
  const findings = { missing: 0, damaged: 0, unreadable: 0, manifest: 0, unowned: 0, usage: 0 };
  return {
    metadata: context.metadata,
    bytes: context.bytes,
    signal,
    count: (what, by = 1) => {
      counts[what] += by;
    },
    async find(finding) {
      findings[finding.kind] += 1;
      await report(finding);
    },
    summary: () => ({
      ...counts,
      findings: { ...findings },
      found: Object.values(findings).reduce((sum, each) => sum + each, 0),
    }),
  };
}

const pageRows = 200;

/** Every version of a bucket that is not a delete marker. */
export async function* versionsIn(run: FsckRun, bucket: BucketRow): AsyncGenerator<ObjectRow> {
  const rows = run.metadata.scan(objectsOf(bucket));
  for (let page = await rows.next(pageRows); page.length > 0; page = await rows.next(pageRows)) {
    for (const { row } of page) {
      run.signal.throwIfAborted();
      if (!row.marker) yield row;
    }
  }
}
