/** What is recorded of a change in its own commit: the audit row and the events. The caller of a change passes a recorder. */
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';

/** What a commit does to a key. */
export interface KeyMove {
  readonly bucket: BucketRow;
  /** The version that it puts at the head, if it is a new one. */
  readonly fresh?: ObjectRow;
  /** The version after the commit changed its tags, ACL or lock. */
  readonly amended?: ObjectRow;
  /** Versions that the commit removes. */
  readonly gone: readonly ObjectRow[];
}

export interface Recorder {
  /** Side changes for the commit; called at each attempt. Without a move: for a commit that changes no object. */
  changes(move?: KeyMove): readonly SideChange[] | Promise<readonly SideChange[]>;
  /** The ARN of what the request is about, where that is no bucket and no object. */
  about(arn: string): void;
  /** A commit that carried them has applied. */
  applied(): void;
}

/** For a commit that changes no object. */
export const recorded = async (record: Recorder | undefined): Promise<readonly SideChange[]> =>
  record === undefined ? [] : record.changes();
