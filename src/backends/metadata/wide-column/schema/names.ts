/** Names in CQL, derived from a table's declaration; quoted, because some are words of the language. */
import type { AnyTable, ColumnType } from '../../../../ports/metadata-store.ts';

export const identifier = (name: string): string =>
  `"${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}"`;

const types: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  int: 'bigint',
  bool: 'boolean',
  json: 'text',
  blob: 'blob',
};

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly cqlName: string;
  readonly cqlType: string;
}

export interface TableColumns {
  readonly partition: readonly Column[];
  /** All others, the sort columns too: those are also in the clustering key, encoded. */
  readonly values: readonly Column[];
}

export function nameColumns(table: AnyTable): TableColumns {
  const all = Object.entries(table.columns as Record<string, ColumnType>).map(([name, type]) => ({
    name,
    type,
    cqlName: identifier(name),
    cqlType: types[type],
  }));
  const isPartition = (name: string): boolean => (table.partition as readonly string[]).includes(name);
  return {
    partition: all.filter(({ name }) => isPartition(name)),
    values: all.filter(({ name }) => !isPartition(name)),
  };
}
