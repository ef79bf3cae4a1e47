/**
 * What is recorded of a change in its own commit: the audit row, with what changed of a configuration, and the events.
 * The caller of a change passes a recorder.
 */

import type { AuditChange } from '../../metadata/records/audit.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Hasher } from '../../ports/cryptography.ts';
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

// What a request changed of a configuration, for its audit row. The row of the operation says which fields are recorded; a field that it
// does not name is never stored, so a secret cannot be.

export interface RecordedFields {
  /** Fields of the state whose values are recorded. */
  readonly records?: readonly string[] | undefined;
  /** Fields whose texts are recorded by their SHA-256 and length, such as policy documents. */
  readonly digests?: readonly string[] | undefined;
}

/** An audit row stays small: a longer value is recorded by its SHA-256, and further changes by their number. */
const valueCharactersMax = 1_024;
const changesMax = 32;
const totalCharactersMax = 8_192;
const fieldCharactersMax = 128;

export function stateChanges(
  hasher: Pick<Hasher, 'sha256Hex'>,
  fields: RecordedFields,
  { before = {}, after = {} }: { readonly before?: State | undefined; readonly after?: State | undefined },
): readonly AuditChange[] {
  const digest = (text: string) => ({ sha256: hasher.sha256Hex(text), characters: text.length });
  const [old, now] = [before, after].map((state) => recordedValues(state, fields, digest));
  const names = new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])]);
  const changed = [...names].filter(
    (name) => JSON.stringify(old?.get(name)) !== JSON.stringify(now?.get(name)),
  );
  let characters = 0;
  const bounded = (side: 'old' | 'new', value: unknown): Pick<AuditChange, 'old' | 'new'> => {
    if (value === undefined) return {};
    const text = JSON.stringify(value);
    characters += text.length;
    const isLong = text.length > valueCharactersMax || characters > totalCharactersMax;
    return { [side]: isLong ? digest(text) : value };
  };
  const recorded = changed.slice(0, changesMax).map((field) => ({
    field: field.slice(0, fieldCharactersMax),
    ...bounded('old', old?.get(field)),
    ...bounded('new', now?.get(field)),
  }));
  const further = changed.length - recorded.length;
  return further === 0 ? recorded : [...recorded, { field: 'further changes', new: further }];
}

/** The values of the recorded fields, by the name of the field or of its entry. */
function recordedValues(
  state: State,
  { records = [], digests = [] }: RecordedFields,
  digest: (text: string) => object,
): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>();
  for (const field of [...records, ...digests]) {
    const toValue = (value: unknown) =>
      digests.includes(field) && typeof value === 'string' ? digest(value) : value;
    const value = state[field];
    for (const [name, each] of isMap(value)
      ? Object.entries(value).map(([name, entry]) => [`${field}.${name}`, entry] as const)
      : [[field, value] as const])
      if (each !== undefined) values.set(name, toValue(each));
  }
  return values;
}

const isMap = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
