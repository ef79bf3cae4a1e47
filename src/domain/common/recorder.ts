/** What is recorded of a change in its own commit: the audit row and the events. The caller of a change passes a recorder. */
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';

/** The effect of a commit on a key. */
export interface KeyMove {
  readonly bucket: BucketRow;
  /** The new version at the head, if the commit adds one. */
  readonly fresh?: ObjectRow;
  /** The version after the commit changed its tags, ACL or lock. */
  readonly amended?: ObjectRow;
  /** Versions that the commit removes. */
  readonly gone: readonly ObjectRow[];
}

export interface Recorder {
  /** Side changes for the commit; called at each attempt. Without a move: for a commit that changes no object. */
  changes(move?: KeyMove): Promise<readonly SideChange[]>;
  /** Sets the ARN of the request's resource when it is neither a bucket nor an object. */
  about(arn: string): void;
  /** Adds to the name of the action what the request is about, such as a family of configurations. */
  qualify?(part: string): void;
  /** Sets the caller, where the request itself found it out: a log-in. */
  by?(caller: { readonly principal: string; readonly accessKey: string; readonly account: string }): void;
  /**
   * Says what the next commit changes of a configuration: its state before and after, undefined where nothing is set. The row of the
   * operation says which of the fields are recorded. Call it at each attempt, before `changes`.
   */
  change?(before: State | undefined, after: State | undefined): void;
  /** Whether a field of `change` is recorded. If it is not, the caller skips the read that the field would need. */
  records?(field: string): boolean;
  /** Reports that a commit with these rows has applied. */
  applied(): void;
}

/** Rows for the commit of a change. */
export type RecordedRows = readonly SideChange[];

/** The same with further rows in each commit. */
export const withRows = (record: Recorder, rows: RecordedRows): Recorder => ({
  changes: async (move) => [...rows, ...(await record.changes(move))],
  about: (arn) => record.about(arn),
  applied: () => record.applied(),
});

/** For a commit that changes no object. */
export const recorded = async (record: Recorder | undefined): Promise<readonly SideChange[]> =>
  record === undefined ? [] : record.changes();

/** A state as GET shows it, or a part of it. Values are JSON; maps from names to values have a field for each name. */
export type State = Readonly<Record<string, unknown>>;
