/**
 * What a request changed of a configuration, for its audit row. The row of the operation says which fields are recorded; a field that it
 * does not name is never stored, so a secret cannot be.
 */
import type { AuditChange } from '../../metadata/records/audit.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import type { State } from '../common/recorder.ts';

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
