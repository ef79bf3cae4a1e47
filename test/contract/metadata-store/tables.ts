/** The tables of the laws: one of each kind, with every type of column and key. */
import { tables } from '../../../src/metadata/tables.ts';
import {
  type AnyTable,
  type At,
  blob,
  bool,
  int,
  json,
  type MetadataStore,
  optional,
  type RowOf,
  table,
  text,
} from '../../../src/ports/metadata-store.ts';
import { kept } from '../../support/split-race.ts';

export const headColumns = {
  bucket: text(),
  key: text(),
  slot: text(),
  etag: text(),
  size: optional(int()),
  marker: optional(bool()),
  headers: optional(json<unknown>()),
  manifest: optional(blob()),
};

export const heads = table({
  name: 'heads',
  kind: 'conditional',
  isExported: true,
  partition: ['bucket'],
  sort: ['key', '-slot'],
  spreadBy: 'key',
  columns: headColumns,
});
export interface Head extends RowOf<typeof heads> {}
const rankColumns = { board: text(), score: int(), name: text(), note: optional(text()) };

export const ranks = table({
  name: 'ranks',
  kind: 'plain',
  isExported: true,
  partition: ['board'],
  sort: ['-score', 'name'],
  columns: rankColumns,
});
export interface Ranked extends RowOf<typeof ranks> {}

export const scores = table({
  name: 'scores',
  kind: 'plain',
  isExported: true,
  partition: ['board'],
  sort: ['score', '-name'],
  columns: rankColumns,
});

export const tallies = table({
  name: 'tallies',
  kind: 'counter',
  isExported: true,
  partition: ['bucket', 'part'],
  sort: ['className'],
  columns: { bucket: text(), part: int(), className: text(), bytes: int(), objects: int() },
});
export interface Tally extends RowOf<typeof tallies> {}

/** A counter with a column that keeps the largest amount. */
export const visits = table({
  name: 'visits',
  kind: 'counter',
  isExported: true,
  partition: ['bucket'],
  sort: ['className'],
  columns: { bucket: text(), className: text(), count: int(), lastAt: int() },
  maxima: ['lastAt'],
});
export interface Visit extends RowOf<typeof visits> {}

/** A table whose partitions are single rows. */
export const holders = table({
  name: 'holders',
  kind: 'conditional',
  isExported: true,
  partition: ['name'],
  sort: [],
  columns: { name: text(), holder: text() },
});
export interface Holder extends RowOf<typeof holders> {}

/** For backends that must know their tables before the first request. */
export const contractTables: readonly AnyTable[] = [
  heads,
  ranks,
  scores,
  tallies,
  visits,
  holders,
  kept,
  tables.leases,
];

let partitions = 0;
/** The name of a new partition, so that random cases can share a store. */
export const fresh = (): string => `p${++partitions}`;

export const headsOf = (bucket: string, fence?: number): At<typeof heads> => ({
  table: heads,
  in: { bucket },
  ...(fence === undefined ? {} : { fence }),
});
export const ranksOf = (board: string): At<typeof ranks> => ({ table: ranks, in: { board } });
export const scoresOf = (board: string): At<typeof scores> => ({ table: scores, in: { board } });
export const talliesOf = (bucket: string, part = 0): At<typeof tallies> => ({
  table: tallies,
  in: { bucket, part },
});

export const visitsOf = (bucket: string): At<typeof visits> => ({ table: visits, in: { bucket } });

export const head = (bucket: string, key: string, more: Partial<Head> = {}): Head => ({
  bucket,
  key,
  slot: '~',
  etag: 'e',
  ...more,
});

/** Stores rows outside of the expected tables. */
export async function putHeads(store: MetadataStore, rows: readonly Head[]): Promise<void> {
  for (const row of rows) await store.commit(headsOf(row.bucket), [{ put: row, expect: 'absent' }]);
}

export async function putRanks(store: MetadataStore, board: string, ranked: readonly [number, string][]) {
  for (const [score, name] of ranked) {
    await store.commit(ranksOf(board), [{ put: { board, score, name }, expect: 'any' }]);
  }
}

/** Every row of a cursor, `page` at a time. */
export async function all<Row>(
  cursor: { next(count: number): Promise<readonly { readonly row: Row }[]> },
  page = 7,
): Promise<Row[]> {
  const rows: Row[] = [];
  // A law has a few hundred rows; the limit makes a cursor that never ends fail instead of hang.
  const rowsMax = 10_000;
  for (let read = await cursor.next(page); read.length > 0; read = await cursor.next(page)) {
    rows.push(...read.map((stored) => stored.row));
    if (rows.length > rowsMax) throw new Error(`a scan yielded more than ${rowsMax} rows`);
  }
  return rows;
}
