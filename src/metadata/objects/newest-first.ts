/** Reading several partitions as one, from their ends. */
import type { AnyTable, Cursor, RowOf } from '../../ports/metadata-store.ts';

/** Rows of a partition that are read together. */
const readAhead = 64;

interface Source<Row> {
  readonly read: () => Promise<Row[]>;
  rows: Row[];
}

/** Merges the rows of cursors that run backwards: the newest row comes first. */
export const newestFirst = <T extends AnyTable>(
  cursors: readonly Cursor<T>[],
  isNewer: (a: RowOf<T>, b: RowOf<T>) => boolean,
): AsyncGenerator<RowOf<T>> => mergeRows(cursors, isNewer);

/** Merges the rows of cursors that all run in the order of `isBefore`. */
export async function* mergeRows<T extends AnyTable>(
  cursors: readonly Cursor<T>[],
  isBefore: (a: RowOf<T>, b: RowOf<T>) => boolean,
): AsyncGenerator<RowOf<T>> {
  const sources = await Promise.all(
    cursors.map(async (cursor): Promise<Source<RowOf<T>>> => {
      const read = async (): Promise<RowOf<T>[]> => (await cursor.next(readAhead)).map(({ row }) => row);
      return { read, rows: await read() };
    }),
  );
  for (;;) {
    let first: Source<RowOf<T>> | undefined;
    for (const source of sources) {
      const [row] = source.rows;
      if (row !== undefined && (first === undefined || isBefore(row, first.rows[0] as RowOf<T>)))
        first = source;
    }
    if (first === undefined) return;
    yield first.rows.shift() as RowOf<T>;
    if (first.rows.length === 0) first.rows = await first.read();
  }
}
