/** The state of the scrub: its position, its counts, and the damaged contents. */
import type { objects, uploadIndex } from '../../../metadata/tables.ts';
import type { SortOf } from '../../../ports/metadata-store.ts';

export type VersionPlace = SortOf<typeof objects>;
export type UploadPlace = SortOf<typeof uploadIndex>;

interface InBucket {
  readonly slot: number;
  readonly bucket: string;
}

/** The position in the stored bytes of one version or part. */
export interface Within {
  readonly read: number;
  /** Chunks of it that were found damaged in this pass. */
  readonly damagedChunks: number;
}

/** If the version at the place is no longer `version`, a client has written another one since the scrub began to read it. */
export interface WithinVersion extends Within {
  readonly place: VersionPlace;
  readonly version: string;
}

export interface WithinUpload extends Within {
  readonly place: UploadPlace;
  readonly part: number;
}

/**
 * Uploads of a bucket come before its versions: the parts of an upload that is completed meanwhile were read already, or are read
 * with its version. A version that becomes the head again before the cursor is read by the next pass.
 */
export type ScrubPosition =
  | { readonly at: 'buckets'; readonly slot: number; readonly after?: string }
  | (InBucket & { readonly at: 'uploads'; readonly after?: UploadPlace; readonly within?: WithinUpload })
  | (InBucket & { readonly at: 'versions'; readonly after?: VersionPlace; readonly within?: WithinVersion })
  | { readonly at: 'done' };

const counters = ['versions', 'parts', 'chunks', 'bytes', 'damaged', 'unread'] as const;

/**
 * `versions` and `parts` of open uploads that were visited; `chunks` that were read to their end, and `bytes`; `damaged`
 * versions and parts have a chunk that is damaged or missing; `unread` ones, or rows and buckets, could not be read now.
 */
export type ScrubCounts = Readonly<Record<(typeof counters)[number], number>>;

export const nothingRead = Object.fromEntries(counters.map((name) => [name, 0])) as ScrubCounts;

/** Times are the store's, in ms. */
export interface ScrubRun {
  /** When a scrub first ran on this installation. */
  readonly firstAt: number;
  /** When the last pass began that read everything. */
  readonly completeFrom?: number;
  /** Damaged versions and parts of the last pass that ended. */
  readonly lastDamaged: number;
  /** Rows in the list of damaged ones. */
  readonly listed: number;
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly position: ScrubPosition;
  readonly seen: ScrubCounts;
}

/** A version, or a part of an open upload, with a chunk whose read failed or returned other bytes than were stored. */
export interface DamagedContent {
  readonly kind: 'damaged' | 'missing';
  /** The error of the first such chunk. */
  readonly detail: string;
  readonly cluster: string;
  readonly extent: string;
  readonly bucket: string;
  readonly bucketId: string;
  readonly key: string;
  readonly version?: string;
  readonly uploadId?: string;
  readonly part?: number;
  /** How many such chunks the latest pass found in it. */
  readonly chunks: number;
  readonly foundAt: number;
  /** When the pass began that found it last. */
  readonly pass: number;
}

/** Damaged versions and parts known now: those of the last pass, until this pass has found more. */
export const knownDamaged = ({ finishedAt, seen, lastDamaged }: ScrubRun): number =>
  finishedAt === undefined ? Math.max(seen.damaged, lastDamaged) : seen.damaged;

/**
 * How long ago the last complete pass began: every byte that was stored before that time has been read since. Before the first complete
 * pass, how long ago the first pass began.
 */
export const oldestUncheckedMs = ({ completeFrom, firstAt }: ScrubRun, now: number): number =>
  Math.max(0, now - (completeFrom ?? firstAt));
