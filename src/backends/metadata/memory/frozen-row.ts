/**
 * A row as the memory backend keeps it: a copy that neither its writer nor its readers can change.
 * Every column is checked against the declaration, so that a row which another backend could not keep
 * fails here first.
 */
import type { AnyTable, ColumnType } from '../../../ports/metadata-store.ts';
import type { Columns } from '../rows/order.ts';

export function frozenRow(table: AnyTable, row: Columns): Columns {
  // Copied whole and then processed, because building it column by column costs three times as much.
  const kept: Record<string, unknown> = { ...row };
  for (const column in kept) {
    const type: ColumnType | undefined = table.columns[column];
    if (type === undefined) throw new Error(`${table.name} declares no column ${column}`);
    const value = kept[column];
    if (value === undefined) delete kept[column];
    else if (type === 'json') kept[column] = frozenCopy(value);
    else if (type === 'blob' && value instanceof Uint8Array) kept[column] = Uint8Array.from(value);
    else if (!hasType(type, value)) {
      throw new Error(`${table.name}.${column} takes ${type}, not ${JSON.stringify(value)}`);
    }
  }
  return Object.freeze(kept);
}

/** A counter row starts at 0, in every column that is no part of its key. */
export function zeroRow(table: AnyTable, key: Columns): Columns {
  const keyColumns: readonly string[] = [...table.partition, ...table.sort];
  const zero: Record<string, unknown> = {};
  for (const [column, type] of Object.entries(table.columns)) {
    if (type === 'int' && !keyColumns.includes(column) && !keyColumns.includes(`-${column}`))
      zero[column] = 0;
  }
  return frozenRow(table, { ...zero, ...key });
}

function hasType(type: Exclude<ColumnType, 'json'>, value: unknown): boolean {
  switch (type) {
    case 'text':
      return typeof value === 'string';
    case 'int':
      return Number.isSafeInteger(value);
    case 'bool':
      return typeof value === 'boolean';
    case 'blob':
      return value instanceof Uint8Array;
  }
}

/** A copy as JSON would make it, of what JSON can say. */
function frozenCopy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy));
  const copy: Record<string, unknown> = { ...value };
  for (const name in copy) {
    if (copy[name] === undefined) delete copy[name];
    else copy[name] = frozenCopy(copy[name]);
  }
  return Object.freeze(copy);
}
