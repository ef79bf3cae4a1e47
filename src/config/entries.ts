/** Settings that list things with ids: a comma list of ids, or a JSON array of objects whose fields a table describes. */
import { fault, type Read, value } from './setting.ts';

interface Field {
  readonly ask: string;
  isRight(input: unknown): boolean;
}

export const matching = (pattern: RegExp, ask: string): Field => ({
  ask,
  isRight: (input) => typeof input === 'string' && pattern.test(input),
});
export const path = matching(/^./, 'a path');

/** Every field but the id. */
type Fields<Entry> = Readonly<Record<Exclude<keyof Entry, 'id'>, Field>>;

export interface EntriesRule<Entry> {
  /** The plural name of the entries. */
  readonly what: string;
  readonly fields: Fields<Entry>;
  /** Checks between two fields of an entry. */
  readonly together?: (entry: Readonly<Record<string, unknown>>) => string | undefined;
}

const idPattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const entriesMax = 256;

export function readEntries<Entry>(input: string, rule: EntriesRule<Entry>): Read<readonly Entry[]> {
  const entries = listed(input);
  if (entries === undefined) return fault('is neither a comma list of ids nor a JSON array of {"id": …}');
  if (entries.length === 0 || entries.length > entriesMax)
    return fault(`needs 1 to ${entriesMax} ${rule.what}`);
  const faults = entries.flatMap((entry, index) =>
    findFaults(entry, entries.slice(0, index), rule).map((why) => `: entry ${index + 1} ${why}`),
  );
  // The cast: an entry without a fault has these fields and no others.
  return faults.length > 0 ? { faults } : value(entries as readonly Entry[]);
}

/** Undefined for what is no list. */
function listed(input: string): readonly unknown[] | undefined {
  if (!input.startsWith('[')) {
    const ids = input.split(',').map((id) => id.trim());
    return ids.filter((id) => id !== '').map((id) => ({ id }));
  }
  try {
    const parsed: unknown = JSON.parse(input);
    return Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function findFaults<Entry>(
  entry: unknown,
  earlier: readonly unknown[],
  { fields, together }: EntriesRule<Entry>,
): readonly string[] {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return ['is not an object'];
  const { id, ...others } = entry as Record<string, unknown>;
  const faults = [...idFaults(id, earlier)];
  const known = new Map<string, Field>(Object.entries(fields));
  for (const [name, input] of Object.entries(others)) {
    const field = known.get(name);
    if (field === undefined) faults.push(`has an unknown field "${name}"`);
    else if (!field.isRight(input)) faults.push(`has a ${name} that is not ${field.ask}`);
  }
  const clash = together?.(others);
  return clash === undefined ? faults : [...faults, clash];
}

function idFaults(id: unknown, earlier: readonly unknown[]): readonly string[] {
  if (typeof id !== 'string' || !idPattern.test(id))
    return ['needs an id of a-z, 0-9, ".", "_" and "-", at most 63 long'];
  const isRepeated = earlier.some((other) => (other as { id?: unknown } | null)?.id === id);
  return isRepeated ? [`repeats the id "${id}"`] : [];
}
