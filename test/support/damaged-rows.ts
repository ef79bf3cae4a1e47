/** Rows that cannot be read, on any metadata backend: a read of one throws, and a scan passes it as the port says. */
import type { Context } from '../../src/context.ts';
import { type AnyTable, type At, type Cursor, MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

/** Matched with the table and the key columns of a row, such as `objects {"bucketId":"…","space":0,"key":"photo",…}`. */
export class DamagedRows {
  readonly patterns = new Set<RegExp>();
  /** Whether a damaged row can be written again; false is a damaged page. */
  isReplaceable = true;

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
        async commit(at, changes, ...rest) {
          for (const change of changes) {
            const key = 'put' in change ? change.put : 'check' in change ? change.check : change.remove;
            if (change.expect !== 'any') assertReadable(at.table, { ...at.in, ...key });
          }
          return metadata.commit(at, changes, ...rest);
        },
        replaceDamaged: (at, row, expiresAt) => this.#replace(metadata, { at, row, expiresAt }),
        scan(at, ...rest) {
          const cursor = metadata.scan(at, ...rest);
          return faulty(cursor, { next: passingOver(cursor, (row) => assertReadable(at.table, row)) });
        },
      }),
    };
  };

  /** The places of damaged rows that were written again since their pattern was added. */
  readonly #replaced = new WeakMap<RegExp, Set<string>>();

  #isDamaged(place: string): boolean {
    return [...this.patterns].some((each) => each.test(place) && !this.#replaced.get(each)?.has(place));
  }

  async #replace(
    metadata: Context['metadata'],
    { at, row, expiresAt }: { at: At<AnyTable>; row: object; expiresAt: number | undefined },
  ): Promise<boolean> {
    const place = placeOfRow(at.table, row);
    if (!this.#isDamaged(place)) return false;
    if (!this.isReplaceable) this.#assertReadable(at.table, row);
    const expect = (await metadata.get(at, row as never))?.revision ?? 'absent';
    const expiry = expiresAt === undefined ? {} : { expiresAt };
    await metadata.commit(at, [{ put: row as never, expect, ...expiry }]);
    for (const each of this.patterns) {
      const places = this.#replaced.get(each) ?? new Set();
      this.#replaced.set(each, places.add(place));
    }
    return true;
  }

  readonly #assertReadable = (table: AnyTable, row: object): void => {
    const place = placeOfRow(table, row);
    if (this.#isDamaged(place))
      throw new MetadataDamaged(`row ${place} is damaged`, {
        table: table.name,
        row: place,
        key: new Uint8Array(),
      });
  };
}

/** The table and the key columns of a row, which patterns match. */
export function placeOfRow({ name, partition, sort }: AnyTable, row: object): string {
  const columns = row as Readonly<Record<string, unknown>>;
  const names = [...partition, ...sort].map((column) => String(column).replace(/^-/, ''));
  return `${name} ${JSON.stringify(Object.fromEntries(names.map((column) => [column, columns[column]])))}`;
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
