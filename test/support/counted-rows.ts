/** How many rows a test makes the gateway read of one table. */
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

export interface SeenRows {
  /** Those that scans returned. */
  rows: number;
  /** Called after each page. */
  onPage: () => void;
}

/** The same store, which counts the rows that scans of the table return. @param seen counts go on in it; absent: a new one */
export function countRows(
  metadata: MetadataStore,
  table: string,
  seen: SeenRows = { rows: 0, onPage: () => {} },
): { readonly metadata: MetadataStore; readonly seen: SeenRows } {
  const scan: MetadataStore['scan'] = (at, ...range) => {
    const cursor = metadata.scan(at, ...range);
    if (at.table.name !== table) return cursor;
    const next: typeof cursor.next = async (count) => {
      const page = await cursor.next(count);
      seen.rows += page.length;
      seen.onPage();
      return page;
    };
    return faulty(cursor, { next });
  };
  return { metadata: faulty(metadata, { scan }), seen };
}
