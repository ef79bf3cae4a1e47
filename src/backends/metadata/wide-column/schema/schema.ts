/**
 * The tables of the keyspace, derived from the record tables. A partition is a shard of a record partition; inside it
 * rows lie under `row_k`, the order-preserving encoding of the sort columns, so that every range of the port is one slice
 * whatever the directions of its columns are, and listings come by key ascending and version descending.
 *
 * A first byte tells what a `row_k` is: 0 the outcome of a commit, 1 a row, 2 a note of a shard that splits.
 */
import type { AnyTable } from '../../../../ports/metadata-store.ts';
import { columnsOf } from './names.ts';

/**
 * How rows are written and read. It is raised when a gateway of the version before would misread them; tables and columns
 * that are only new need no other version. 1: before there was a version; 2: counters have a base.
 */
export const schemaVersion = 2;

export interface TableShape {
  readonly name: string;
  /** CQL types, with `static` behind them where it is so. */
  readonly columns: Readonly<Record<string, string>>;
  readonly primaryKey: string;
  /** How long a deletion is remembered. A node that was away for longer brings back what was deleted meanwhile. */
  readonly graceSeconds: number;
}

const hour = 60 * 60;
/**
 * An object that was deleted must stay so: its table, like all that decide, remembers as long as Cassandra does by itself.
 * What comes back to a plain table is done or looked up in vain once more; what comes back to an intent is swept.
 */
const graceSeconds = { conditional: 10 * 24 * hour, counter: 10 * 24 * hour, plain: 24 * hour, own: hour };

export function shapeOf(table: AnyTable): TableShape {
  const { partition, values } = columnsOf(table);
  const declared = [...partition, ...values].map(({ cqlName, cqlType }) => [cqlName, cqlType]);
  const key = `(${[...partition.map(({ cqlName }) => cqlName), 'row_shard'].join(', ')})`;
  const isCounter = table.kind === 'counter';
  return {
    name: table.name,
    columns: {
      ...Object.fromEntries(declared),
      row_shard: 'int',
      row_k: 'blob',
      // A counter row is the sum of a base and of what was added since, a row for each commit.
      ...(isCounter
        ? { row_op: 'text', row_folded: 'text' }
        : { row_rev: 'text', row_expires: 'bigint', row_outcome: 'text', row_fence: 'bigint static' }),
    },
    primaryKey: `${key}, row_k${isCounter ? ', row_op' : ''}`,
    graceSeconds: graceSeconds[table.kind],
  };
}

/** What intents need: the leases of epochs, and for each of their lanes what is being committed. */
export const ownShapes: readonly TableShape[] = [
  {
    name: 'epochs',
    columns: { slot: 'int', id: 'text', until: 'bigint', state: 'int', floor: 'text static' },
    primaryKey: 'slot, id',
    graceSeconds: graceSeconds.own,
  },
  {
    name: 'epoch_lanes',
    columns: {
      epoch: 'text',
      lane: 'int',
      attempt: 'text',
      state: 'int static',
      place: 'text',
      side: 'text',
    },
    primaryKey: '(epoch, lane), attempt',
    graceSeconds: graceSeconds.own,
  },
];

/** The version, and who is changing the schema: the one table that is there before all others. */
export const schemaState: TableShape = {
  name: 'schema_state',
  columns: { id: 'text', version: 'int', owner: 'text' },
  primaryKey: 'id',
  graceSeconds: graceSeconds.own,
};

export function definitionOf(keyspace: string, { name, columns, primaryKey, ...shape }: TableShape): string {
  const all = [...Object.entries(columns).map((column) => column.join(' ')), `PRIMARY KEY (${primaryKey})`];
  const options = `compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = ${shape.graceSeconds}`;
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${name} (${all.join(', ')}) WITH ${options}`;
}

/** What brings a keyspace that has `found`, columns by table, to the shapes; they are only ever added to. */
export function changesTo(
  keyspace: string,
  {
    found,
    shapes,
  }: { readonly found: ReadonlyMap<string, ReadonlySet<string>>; readonly shapes: readonly TableShape[] },
): string[] {
  return shapes.flatMap((shape) => {
    const known = found.get(shape.name);
    if (known === undefined) return [definitionOf(keyspace, shape)];
    const missing = Object.entries(shape.columns).filter(
      ([column]) => !known.has(column.replaceAll('"', '')),
    );
    return missing.map(
      ([column, type]) => `ALTER TABLE ${keyspace}.${shape.name} ADD IF NOT EXISTS ${column} ${type}`,
    );
  });
}
