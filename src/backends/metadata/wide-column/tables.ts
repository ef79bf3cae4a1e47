/** The statements of the tables, by their declarations. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { Rows } from './rows.ts';
import {
  buildCounterStatements,
  buildScans,
  buildStatements,
  type CounterStatements,
  type Scans,
  type Statements,
} from './statements.ts';

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
