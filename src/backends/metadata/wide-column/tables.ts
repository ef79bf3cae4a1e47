/** The tables that were used so far: made when they are missing, with their statements. */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { Rows } from './rows.ts';
import { ownTables, tableDefinition } from './schema.ts';
import type { Session } from './session.ts';
import { type CounterStatements, counterStatementsOf, type Statements, statementsOf } from './statements.ts';

export interface TableIn {
  readonly rows: Rows;
  readonly statements: Statements;
  readonly counter: CounterStatements;
}

export class Tables {
  readonly #session: Session;
  readonly #keyspace: string;
  readonly #known = new Map<AnyTable, TableIn>();
  readonly #made = new Map<string, Promise<void>>();

  constructor(session: Session, keyspace: string) {
    this.#session = session;
    this.#keyspace = keyspace;
  }

  get keyspace(): string {
    return this.#keyspace;
  }

  /** Those of the intents, which nobody asks for by a declaration. */
  async makeOwn(replication: string): Promise<void> {
    await this.#session.run(
      `CREATE KEYSPACE IF NOT EXISTS ${this.#keyspace} WITH replication = ${replication}`,
    );
    for (const definition of ownTables(this.#keyspace)) await this.#session.run(definition);
  }

  /** Statements and rows of a table; it may not be there yet. */
  plain(table: AnyTable): TableIn {
    let known = this.#known.get(table);
    if (known === undefined) {
      const statements = statementsOf(this.#keyspace, table);
      known = { rows: new Rows(table), statements, counter: counterStatementsOf(this.#keyspace, table) };
      this.#known.set(table, known);
    }
    return known;
  }

  async of(table: AnyTable): Promise<TableIn> {
    let made = this.#made.get(table.name);
    if (made === undefined) {
      made = this.#session.run(tableDefinition(this.#keyspace, table)).then(() => undefined);
      this.#made.set(table.name, made);
      made.catch(() => this.#made.delete(table.name));
    }
    await made;
    return this.plain(table);
  }
}
