/** What is recorded of a change in its own commit: the audit row, events. The caller of a change passes it. */
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';

/** What a commit does to a key. */
export interface KeyMove {
  readonly bucket: BucketRow;
  /** The version that it puts at the head, if it is a new one. */
  readonly fresh?: ObjectRow;
  /** The version as it is once the commit changed what is kept about it. */
  readonly amended?: ObjectRow;
  /** Versions that are gone once it applied. */
  readonly gone: readonly ObjectRow[];
}

export interface Recorder {
  /** What goes into the commit; asked at each attempt. Without a move: of a commit that changes no object. */
  changes(move?: KeyMove): readonly SideChange[] | Promise<readonly SideChange[]>;
  /** The ARN of what the request is about, where that is no bucket and no object. */
  about(arn: string): void;
  /** A commit that carried them has applied. */
  applied(): void;
}

/** For a commit that changes no object. */
export const recorded = async (record: Recorder | undefined): Promise<readonly SideChange[]> =>
  record === undefined ? [] : record.changes();
