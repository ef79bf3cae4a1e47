/**
 * The tables of the keyspace, derived from the record tables. A partition is a shard of a record partition. Its rows are clustered by
 * `row_k`, the order-preserving encoding of the sort columns, so that every range of the port is one slice, whatever the directions of its
 * columns, and listings come by key ascending and version descending.
 *
 * The first byte of a `row_k` is its kind: 0 the outcome of a commit, 1 a row, 2 a note of a shard that splits.
 */
import type { AnyTable } from '../../../../ports/metadata-store.ts';
import { nameColumns } from './names.ts';

/**
 * The version of the row format. It is raised when a gateway of the former version would misread rows; new tables and columns alone need
 * no new version. 1: before versions were recorded; 2: counters have a base.
 */
export const schemaVersion = 2;

export interface TableShape {
  readonly name: string;
  /** CQL types, with `static` after them where applicable. */
  readonly columns: Readonly<Record<string, string>>;
  readonly primaryKey: string;
  /** `gc_grace_seconds`. A node that was away for longer restores rows that were deleted meanwhile. */
  readonly graceSeconds: number;
}

const hour = 60 * 60;
/**
 * A deleted object must stay deleted: its table, like all conditional ones, has Cassandra's default. A row that reappears in a plain table
 * is processed or looked up once more without effect; one that reappears in an intent is swept.
 */
const graceSeconds = { conditional: 10 * 24 * hour, counter: 10 * 24 * hour, plain: 24 * hour, own: hour };

export function buildShape(table: AnyTable): TableShape {
  const { partition, values } = nameColumns(table);
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

/** The tables of intents: the leases of epochs, and the attempts under way in each of their lanes. */
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

/** The version, and the process that is changing the schema: the first table to exist. */
export const schemaState: TableShape = {
  name: 'schema_state',
  columns: { id: 'text', version: 'int', owner: 'text' },
  primaryKey: 'id',
  graceSeconds: graceSeconds.own,
};

export function formatDefinition(
  keyspace: string,
  { name, columns, primaryKey, ...shape }: TableShape,
): string {
  const all = [...Object.entries(columns).map((column) => column.join(' ')), `PRIMARY KEY (${primaryKey})`];
  const options = `compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = ${shape.graceSeconds}`;
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${name} (${all.join(', ')}) WITH ${options}`;
}

/** The statements that extend a keyspace with the columns `found` to the shapes; nothing is ever removed. */
export function changesTo(
  keyspace: string,
  {
    found,
    shapes,
  }: { readonly found: ReadonlyMap<string, ReadonlySet<string>>; readonly shapes: readonly TableShape[] },
): string[] {
  return shapes.flatMap((shape) => {
    const known = found.get(shape.name);
    if (known === undefined) return [formatDefinition(keyspace, shape)];
    const missing = Object.entries(shape.columns).filter(
      ([column]) => !known.has(column.replaceAll('"', '')),
    );
    return missing.map(
      ([column, type]) => `ALTER TABLE ${keyspace}.${shape.name} ADD IF NOT EXISTS ${column} ${type}`,
    );
  });
}
