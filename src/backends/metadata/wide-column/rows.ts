/** Rows of the port as CQL parameters and back, and the CQL names of their columns. */

import { hashToShard } from '../../../base/shard.ts';
import type { AnyTable, At, ColumnType, Revision, Stored } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, type TableOrder } from '../key-order.ts';

export const rowMark = 1;
export const noteMark = 2;

export interface RawRow {
  readonly [column: string]: unknown;
}

const unquoted = (name: string): string => name.slice(1, -1);

/** The rows of one table: their keys, shards and values. */
export class Rows {
  readonly table: AnyTable;
  readonly order: TableOrder;
  readonly columns: TableColumns;

  constructor(table: AnyTable) {
    this.table = table;
    this.order = buildOrder(table);
    this.columns = nameColumns(table);
  }

  /** The clustering key of a row. */
  key(partition: object, row: object): Buffer {
    const whole = this.order.rowKey(partition as Columns, row as Columns);
    const offset = this.order.partitionKey(partition as Columns).length;
    return Buffer.concat([Buffer.of(rowMark), whole.subarray(offset)]);
  }

  /** The partition's parameters, the shard last. */
  place(at: At<AnyTable>, shard: number): unknown[] {
    return [...this.columns.partition.map(({ name, type }) => encode(type, (at.in as Columns)[name])), shard];
  }

  shardOf(at: At<AnyTable>, row: object): number {
    return this.table.spreadBy === undefined ? 0 : hashToShard(this.textOf(row), at.ways ?? 1);
  }

  /** The text whose hash selects the shard of a row. */
  textOf(row: object): string {
    return String((row as Columns)[this.table.spreadBy]);
  }

  /** How many shards the rows of a partition are spread over. */
  spreadOver(at: At<AnyTable>): number {
    return this.table.spreadBy === undefined ? 1 : (at.ways ?? 1);
  }

  /** The number of shards, including those that a split has yet to fill. */
  ways(at: At<AnyTable>): number {
    return Math.max(this.spreadOver(at), this.table.spreadBy === undefined ? 1 : (at.splittingTo ?? 1));
  }

  /** Whether a partition may have been split: then its rows are not always in the shard that `ways` implies. */
  isSpread(at: At<AnyTable>): boolean {
    return this.table.spreadBy !== undefined && at.ways !== undefined;
  }

  values(row: Columns): unknown[] {
    return this.columns.values.map(({ name, type }) => encode(type, row[name]));
  }

  decode<Row>(raw: RawRow, partition: Columns): Stored<Row> {
    const row: Record<string, unknown> = {};
    for (const { name } of this.columns.partition) row[name] = partition[name];
    for (const column of this.columns.values) {
      const value = valueIn(raw, column);
      if (value !== null && value !== undefined) row[column.name] = decode(column.type, value);
    }
    return { row: row as Row, revision: raw['row_rev'] as Revision };
  }
}

export const valueIn = (raw: RawRow, { cqlName }: Column): unknown => raw[unquoted(cqlName)];

function encode(type: ColumnType, value: unknown): unknown {
  if (value === undefined) return null;
  if (type === 'json') return JSON.stringify(value) ?? null;
  if (type === 'int') return BigInt(value as number);
  return type === 'blob' ? Buffer.from(value as Uint8Array) : value;
}

function decode(type: ColumnType, value: unknown): unknown {
  if (type === 'json') return JSON.parse(value as string);
  if (type === 'int') return Number(value);
  return type === 'blob' ? new Uint8Array(value as Buffer) : value;
}

/** Whether a row exists for a reader at `now`. */
export function isAlive(raw: RawRow | undefined, now: number): raw is RawRow {
  if (raw === undefined || raw['row_rev'] === null || raw['row_rev'] === undefined) return false;
  const expires = raw['row_expires'];
  return expires === null || expires === undefined || Number(expires) > now;
}

// Names in CQL, derived from a table's declaration; quoted, because some are words of the language.

const identifier = (name: string): string =>
  `"${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}"`;

const types: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  int: 'bigint',
  bool: 'boolean',
  json: 'text',
  blob: 'blob',
};

interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly cqlName: string;
  readonly cqlType: string;
}

interface TableColumns {
  readonly partition: readonly Column[];
  /** All others, the sort columns too: those are also in the clustering key, encoded. */
  readonly values: readonly Column[];
}

export function nameColumns(table: AnyTable): TableColumns {
  const all = Object.entries(table.columns).map(([name, { type }]) => ({
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
