/**
 * The tables of the keyspace, derived from the record tables. A partition is a shard of a record partition; inside it
 * rows lie under `row_k`, the order-preserving encoding of the sort columns, so that every range of the port is one slice
 * whatever the directions of its columns are, and listings come by key ascending and version descending (spec item 5).
 *
 * A first byte tells what a `row_k` is: 0 the outcome of a commit, 1 a row.
 */
import type { AnyTable } from '../../../ports/metadata-store.ts';
import { columnsOf } from './names.ts';

/** Rows that come and go quickly are compacted away; the driver's own default would keep their tombstones for long. */
const options = "WITH compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = 3600";

export function tableDefinition(keyspace: string, table: AnyTable): string {
  const { partition, values } = columnsOf(table);
  const columns = [...partition, ...values].map(({ cqlName, cqlType }) => `${cqlName} ${cqlType}`);
  const key = `(${[...partition.map(({ cqlName }) => cqlName), 'row_shard'].join(', ')})`;
  const isCounter = table.kind === 'counter';
  // A counter row is the sum of a base and of what was added since, a row for each commit.
  const own = isCounter
    ? ['row_shard int', 'row_k blob', 'row_op text']
    : [
        'row_shard int',
        'row_k blob',
        'row_rev text',
        'row_expires bigint',
        'row_outcome text',
        'row_fence bigint static',
      ];
  const primary = `PRIMARY KEY (${key}, row_k${isCounter ? ', row_op' : ''})`;
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${table.name} (${[...columns, ...own, primary].join(', ')}) ${options}`;
}

/** What intents need: the leases of epochs, and for each of their lanes what is being committed. */
export const ownTables = (keyspace: string): readonly string[] => [
  `CREATE TABLE IF NOT EXISTS ${keyspace}.epochs (slot int, id text, until bigint, state int, PRIMARY KEY (slot, id)) ${options}`,
  `CREATE TABLE IF NOT EXISTS ${keyspace}.epoch_lanes (epoch text, lane int, attempt text, state int static, place text, side text, PRIMARY KEY ((epoch, lane), attempt)) ${options}`,
];
