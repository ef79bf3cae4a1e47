/** The tables of a keyspace: the statements of each, written once. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { nameColumns, Rows } from './rows.ts';

/** A slice of rows in order; parameters: partition, row_shard, low, high, limit. */
export interface Scans {
  readonly scan: string;
  readonly scanBack: string;
}

/** Conditional statements have no client timestamp; they follow the cluster's own order. */
interface Statements extends Scans {
  /** One row by its key. */
  readonly get: string;
  /** `SET` of every value column, revision and expiry, under a condition on the revision; TTL first. */
  readonly putIf: string;
  readonly removeIf: string;
  /** Changes nothing, but is refused unless the revision is the given one. */
  readonly checkIf: string;
  readonly fence: string;
  readonly fenceIf: string;
  readonly outcomeIf: string;
  readonly outcome: string;
  /** A note of a shard: revision and text. */
  readonly note: string;
  readonly noteIf: string;
  /** Changes nothing, but is refused unless the note's revision is the given one. */
  readonly noteStillIf: string;
  /** Plain: stamp and TTL are the last parameters. */
  readonly put: string;
  readonly remove: string;
  readonly clear: string;
}

export function buildStatements(keyspace: string, table: AnyTable): Statements {
  const { partition, values } = nameColumns(table);
  const name = `${keyspace}.${table.name}`;
  const place = [...partition.map(({ cqlName }) => `${cqlName} = ?`), 'row_shard = ?'].join(' AND ');
  const row = `${place} AND row_k = ?`;
  const all = [...values.map(({ cqlName }) => cqlName), 'row_rev', 'row_expires'];
  const assignments = all.map((column) => `${column} = ?`).join(', ');
  const columns = [...partition.map(({ cqlName }) => cqlName), 'row_shard', 'row_k', ...all];
  const slice = `${place} AND row_k >= ? AND row_k < ?`;
  return {
    get: `SELECT row_k, ${all.join(', ')} FROM ${name} WHERE ${row}`,
    ...buildScans(keyspace, table),
    putIf: `UPDATE ${name} USING TTL ? SET ${assignments} WHERE ${row} IF row_rev = ?`,
    removeIf: `DELETE FROM ${name} WHERE ${row} IF row_rev = ?`,
    checkIf: `UPDATE ${name} SET row_outcome = null WHERE ${row} IF row_rev = ?`,
    fence: `SELECT row_fence FROM ${name} WHERE ${place} LIMIT 1`,
    fenceIf: `UPDATE ${name} SET row_fence = ? WHERE ${place} IF row_fence = ?`,
    outcomeIf: `UPDATE ${name} USING TTL ? SET row_outcome = ? WHERE ${row} IF row_outcome = null`,
    outcome: `SELECT row_outcome FROM ${name} WHERE ${row}`,
    note: `SELECT row_rev, row_outcome FROM ${name} WHERE ${row}`,
    noteIf: `UPDATE ${name} SET row_rev = ?, row_outcome = ? WHERE ${row} IF row_rev = ?`,
    noteStillIf: `UPDATE ${name} SET row_expires = null WHERE ${row} IF row_rev = ?`,
    put: `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) USING TIMESTAMP ? AND TTL ?`,
    remove: `DELETE FROM ${name} USING TIMESTAMP ? WHERE ${row}`,
    clear: `DELETE FROM ${name} USING TIMESTAMP ? WHERE ${slice}`,
  };
}

/** @param requested columns beside those of the key; all when absent */
function buildScans(keyspace: string, table: AnyTable, requested?: readonly string[]): Scans {
  const { partition, values } = nameColumns(table);
  const place = [...partition.map(({ cqlName }) => `${cqlName} = ?`), 'row_shard = ?'].join(' AND ');
  const read = values.filter(({ name }) => requested?.includes(name) ?? true);
  const sorted = values.filter((each) => isSortedBy(table, each.name) && !read.includes(each));
  const names = ['row_k', ...[...sorted, ...read].map(({ cqlName }) => cqlName), 'row_rev', 'row_expires'];
  const slice = `SELECT ${names.join(', ')} FROM ${keyspace}.${table.name} WHERE ${place} AND row_k >= ? AND row_k < ?`;
  return { scan: `${slice} LIMIT ?`, scanBack: `${slice} ORDER BY row_k DESC LIMIT ?` };
}

const isSortedBy = ({ sort }: AnyTable, name: string): boolean =>
  sort.includes(name) || sort.includes(`-${name}`);

/** A counter row is a base and the additions since, each under the attempt that made it. */
interface CounterStatements {
  readonly get: string;
  readonly scan: string;
  readonly scanBack: string;
  /** The whole of a partition. */
  readonly all: string;
  /** Parameters: partition, row_shard, row_k, row_op, values, stamp. */
  readonly add: string;
  /** Sets the base, its values and its record of additions, if the record is the one given last. */
  readonly foldIf: string;
  /** Removes the additions between two names. */
  readonly clear: string;
}

function buildCounterStatements(keyspace: string, table: AnyTable): CounterStatements {
  const { partition, values } = nameColumns(table);
  const name = `${keyspace}.${table.name}`;
  const place = [...partition.map(({ cqlName }) => `${cqlName} = ?`), 'row_shard = ?'].join(' AND ');
  const names = values.map(({ cqlName }) => cqlName);
  const columns = [...partition.map(({ cqlName }) => cqlName), 'row_shard', 'row_k', 'row_op', ...names];
  const all = `SELECT ${['row_k', 'row_op', 'row_folded', ...names].join(', ')} FROM ${name} WHERE ${place}`;
  const assignments = [...names, 'row_folded'].map((column) => `${column} = ?`).join(', ');
  return {
    get: `${all} AND row_k = ?`,
    scan: `${all} AND row_k >= ? AND row_k < ?`,
    scanBack: `${all} AND row_k >= ? AND row_k < ? ORDER BY row_k DESC, row_op DESC`,
    all,
    add: `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) USING TIMESTAMP ?`,
    foldIf: `UPDATE ${name} SET ${assignments} WHERE ${place} AND row_k = ? AND row_op = '' IF row_folded = ?`,
    clear: `DELETE FROM ${name} USING TIMESTAMP ? WHERE ${place} AND row_k = ? AND row_op > ? AND row_op < ?`,
  };
}

export interface TableIn {
  readonly rows: Rows;
  readonly statements: Statements;
  readonly counter: CounterStatements;
  /** Reading some columns alone, which are the same array each time. */
  scans(columns: readonly string[] | undefined): Scans;
}

export class Tables {
  readonly keyspace: string;
  readonly #known = new Map<AnyTable, TableIn>();

  constructor(keyspace: string) {
    this.keyspace = keyspace;
  }

  of(table: AnyTable): TableIn {
    let known = this.#known.get(table);
    if (known === undefined) {
      const statements = buildStatements(this.keyspace, table);
      const some = new WeakMap<readonly string[], Scans>();
      const scans = (columns: readonly string[] | undefined): Scans => {
        const found =
          columns === undefined
            ? statements
            : (some.get(columns) ?? buildScans(this.keyspace, table, columns));
        if (columns !== undefined) some.set(columns, found);
        return found;
      };
      const counter = buildCounterStatements(this.keyspace, table);
      known = { rows: new Rows(table), statements, counter, scans };
      this.#known.set(table, known);
    }
    return known;
  }
}
