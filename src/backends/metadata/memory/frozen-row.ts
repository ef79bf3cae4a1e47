/**
 * A row as the memory backend keeps it: a copy that neither its writer nor its readers can change.
 * Every column is checked against the declaration, so that a row which another backend could not keep
 * fails here first.
 */
import type { AnyTable, ColumnType } from '../../../ports/metadata-store.ts';
import type { Columns } from '../order.ts';

export function frozenRow(table: AnyTable, row: Columns): Columns {
  const kept: Record<string, unknown> = {};
  const key: readonly string[] = [...table.partition, ...table.sort];
  for (const [column, value] of Object.entries(row)) {
    const type: ColumnType | undefined = table.columns[column];
    if (type === undefined) throw new Error(`${table.name} declares no column ${column}`);
    if (value !== undefined) kept[column] = keptValue(`${table.name}.${column}`, type, value);
  }
  if (table.kind === 'counter') {
    // A counter row starts at 0, in every column.
    for (const [column, type] of Object.entries(table.columns)) {
      if (type === 'int' && !key.includes(column) && !key.includes(`-${column}`)) kept[column] ??= 0;
    }
  }
  return Object.freeze(kept);
}

function keptValue(name: string, type: ColumnType, value: unknown): unknown {
  switch (type) {
    case 'text':
      if (typeof value === 'string') return value;
      break;
    case 'int':
      if (Number.isSafeInteger(value)) return value;
      break;
    case 'bool':
      if (typeof value === 'boolean') return value;
      break;
    case 'blob':
      if (value instanceof Uint8Array) return Uint8Array.from(value);
      break;
    case 'json':
      return deepFrozen(JSON.parse(JSON.stringify(value)));
  }
  throw new Error(`${name} takes ${type}, not ${JSON.stringify(value)}`);
}

function deepFrozen(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  for (const inner of Object.values(value)) deepFrozen(inner);
  return Object.freeze(value);
}
