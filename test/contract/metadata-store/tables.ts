/** The tables of the laws: one of each kind, with every type of column and key. */
import { tables } from '../../../src/metadata/tables.ts';
import { type AnyTable, type At, type MetadataStore, table } from '../../../src/ports/metadata-store.ts';
import { kept } from '../../support/split-race.ts';

export interface Head {
  readonly bucket: string;
  readonly key: string;
  readonly slot: string;
  readonly etag: string;
  readonly size?: number;
  readonly marker?: boolean;
  readonly headers?: unknown;
  readonly manifest?: Uint8Array;
}
export const heads = table<Head>()({
  name: 'heads',
  kind: 'conditional',
  partition: ['bucket'],
  sort: ['key', '-slot'],
  spreadBy: 'key',
  columns: {
    bucket: 'text',
    key: 'text',
    slot: 'text',
    etag: 'text',
    size: 'int',
    marker: 'bool',
    headers: 'json',
    manifest: 'blob',
  },
});

export interface Ranked {
  readonly board: string;
  readonly score: number;
  readonly name: string;
  readonly note?: string;
}
export const ranks = table<Ranked>()({
  name: 'ranks',
  kind: 'plain',
  partition: ['board'],
  sort: ['-score', 'name'],
  columns: { board: 'text', score: 'int', name: 'text', note: 'text' },
});

export const scores = table<Ranked>()({
  name: 'scores',
  kind: 'plain',
  partition: ['board'],
  sort: ['score', '-name'],
  columns: { board: 'text', score: 'int', name: 'text', note: 'text' },
});

export interface Tally {
  readonly bucket: string;
  readonly part: number;
  readonly className: string;
  readonly bytes: number;
  readonly objects: number;
}
export const tallies = table<Tally>()({
  name: 'tallies',
  kind: 'counter',
  partition: ['bucket', 'part'],
  sort: ['className'],
  columns: { bucket: 'text', part: 'int', className: 'text', bytes: 'int', objects: 'int' },
});

/** A counter with a column that keeps the largest amount. */
export interface Visit {
  readonly bucket: string;
  readonly className: string;
  readonly count: number;
  readonly lastAt: number;
}
export const visits = table<Visit>()({
  name: 'visits',
  kind: 'counter',
  partition: ['bucket'],
  sort: ['className'],
  columns: { bucket: 'text', className: 'text', count: 'int', lastAt: 'int' },
  maxima: ['lastAt'],
});

/** A table whose partitions are single rows. */
export interface Holder {
  readonly name: string;
  readonly holder: string;
}
export const holders = table<Holder>()({
  name: 'holders',
  kind: 'conditional',
  partition: ['name'],
  sort: [],
  columns: { name: 'text', holder: 'text' },
});

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
