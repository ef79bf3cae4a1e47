/** Reads a page of rows and skips damaged ones, which the check of the metadata has reported. */
import { type Cursor, MetadataDamaged, type Stored } from '../../../ports/metadata-store.ts';

/** The largest number of damaged rows that are skipped for one page. */
const damagedMax = 10_000;

export async function nextSound<T, Row>(
  cursor: Cursor<T, Row>,
  count: number,
  onDamaged?: (damaged: MetadataDamaged) => void,
): Promise<readonly Stored<Row>[]> {
  for (let damaged = 0; ; damaged += 1) {
    try {
      return await cursor.next(count);
    } catch (cause) {
      // The cursor is after the damaged row.
      if (!(cause instanceof MetadataDamaged) || damaged === damagedMax) throw cause;
      onDamaged?.(cause);
    }
  }
}
