/** The statements of a table, written once. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { columnsOf } from './names.ts';

/** Conditional ones are refused a timestamp of ours; they go by the cluster's own order. */
export interface Statements {
  /** One row by its key. */
  readonly get: string;
  /** A slice of rows in order; parameters: partition, row_shard, low, high, limit. */
  readonly scan: string;
  readonly scanBack: string;
  /** `SET` of every value column, revision and expiry, under a condition on the revision; TTL first. */
  readonly putIf: string;
  readonly removeIf: string;
  /** Changes nothing, but refuses unless the revision is as said. */
  readonly checkIf: string;
  readonly fence: string;
  readonly fenceIf: string;
  readonly outcomeIf: string;
  readonly outcome: string;
  /** Plain: stamp and TTL are the last parameters. */
  readonly put: string;
  readonly remove: string;
  readonly clear: string;
}

export function statementsOf(keyspace: string, table: AnyTable): Statements {
  const { partition, values } = columnsOf(table);
  const name = `${keyspace}.${table.name}`;
  const place = [...partition.map(({ cqlName }) => `${cqlName} = ?`), 'row_shard = ?'].join(' AND ');
  const row = `${place} AND row_k = ?`;
  const all = [...values.map(({ cqlName }) => cqlName), 'row_rev', 'row_expires'];
  const assignments = all.map((column) => `${column} = ?`).join(', ');
  const columns = [...partition.map(({ cqlName }) => cqlName), 'row_shard', 'row_k', ...all];
  const slice = `${place} AND row_k >= ? AND row_k < ?`;
  return {
    get: `SELECT row_k, ${all.join(', ')} FROM ${name} WHERE ${row}`,
    scan: `SELECT row_k, ${all.join(', ')} FROM ${name} WHERE ${slice} LIMIT ?`,
    scanBack: `SELECT row_k, ${all.join(', ')} FROM ${name} WHERE ${slice} ORDER BY row_k DESC LIMIT ?`,
    putIf: `UPDATE ${name} USING TTL ? SET ${assignments} WHERE ${row} IF row_rev = ?`,
    removeIf: `DELETE FROM ${name} WHERE ${row} IF row_rev = ?`,
    checkIf: `UPDATE ${name} SET row_outcome = null WHERE ${row} IF row_rev = ?`,
    fence: `SELECT row_fence FROM ${name} WHERE ${place} LIMIT 1`,
    fenceIf: `UPDATE ${name} SET row_fence = ? WHERE ${place} IF row_fence = ?`,
    outcomeIf: `UPDATE ${name} USING TTL ? SET row_outcome = ? WHERE ${row} IF row_outcome = null`,
    outcome: `SELECT row_outcome FROM ${name} WHERE ${row}`,
    put: `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) USING TIMESTAMP ? AND TTL ?`,
    remove: `DELETE FROM ${name} USING TIMESTAMP ? WHERE ${row}`,
    clear: `DELETE FROM ${name} USING TIMESTAMP ? WHERE ${slice}`,
  };
}

/** A counter row is a base and the additions since, each under the op that made it. */
export interface CounterStatements {
  readonly get: string;
  readonly scan: string;
  readonly scanBack: string;
  /** Parameters: partition, row_shard, row_k, row_op, values, stamp. */
  readonly add: string;
}

export function counterStatementsOf(keyspace: string, table: AnyTable): CounterStatements {
  const { partition, values } = columnsOf(table);
  const name = `${keyspace}.${table.name}`;
  const place = [...partition.map(({ cqlName }) => `${cqlName} = ?`), 'row_shard = ?'].join(' AND ');
  const all = ['row_k', 'row_op', ...values.map(({ cqlName }) => cqlName)].join(', ');
  const columns = [
    ...partition.map(({ cqlName }) => cqlName),
    'row_shard',
    'row_k',
    'row_op',
    ...values.map(({ cqlName }) => cqlName),
  ];
  return {
    get: `SELECT ${all} FROM ${name} WHERE ${place} AND row_k = ?`,
    scan: `SELECT ${all} FROM ${name} WHERE ${place} AND row_k >= ? AND row_k < ?`,
    scanBack: `SELECT ${all} FROM ${name} WHERE ${place} AND row_k >= ? AND row_k < ? ORDER BY row_k DESC`,
    add: `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) USING TIMESTAMP ?`,
  };
}
