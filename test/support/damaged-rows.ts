/** Rows that cannot be read, on any metadata backend: a read of one throws, and a scan passes it as the port says. */
import type { Context } from '../../src/context.ts';
import { type AnyTable, type Cursor, MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

/** Matched with the table and the key columns of a row, such as `objects {"bucketId":"…","space":0,"key":"photo",…}`. */
export class DamagedRows {
  readonly patterns = new Set<RegExp>();

  readonly wrap = (context: Context): Context => {
    const { metadata } = context;
    const assertReadable = this.#assertReadable;
    return {
      ...context,
      metadata: faulty(metadata, {
        async get(at, key, ...rest) {
          assertReadable(at.table, { ...at.in, ...key });
          return metadata.get(at, key, ...rest);
        },
        scan(at, ...rest) {
          const cursor = metadata.scan(at, ...rest);
          return faulty(cursor, { next: passingOver(cursor, (row) => assertReadable(at.table, row)) });
        },
      }),
    };
  };

  readonly #assertReadable = ({ name, partition, sort }: AnyTable, row: object): void => {
    const columns = row as Readonly<Record<string, unknown>>;
    const names = [...partition, ...sort].map((column) => String(column).replace(/^-/, ''));
    const key = names.map((column) => [column, columns[column]]);
    const place = `${name} ${JSON.stringify(Object.fromEntries(key))}`;
    if ([...this.patterns].some((each) => each.test(place)))
      throw new MetadataDamaged(`row ${place} is damaged`, {
        table: name,
        row: place,
        key: new Uint8Array(),
      });
  };
}

/** The rows before a damaged one come with the next page, and then those after it. */
function passingOver<T, Row>(cursor: Cursor<T, Row>, check: (row: object) => void): Cursor<T, Row>['next'] {
  let held: Awaited<ReturnType<typeof cursor.next>> = [];
  return async (count) => {
    if (held.length > 0) {
      const page = held;
      held = [];
      return page;
    }
    const rows = [];
    while (rows.length < count) {
      const [stored] = await cursor.next(1);
      if (stored === undefined) break;
      try {
        check(stored.row as object);
      } catch (cause) {
        held = rows;
        throw cause;
      }
      rows.push(stored);
    }
    return rows;
  };
}
