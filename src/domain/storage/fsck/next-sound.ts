/** Reads a page of rows and passes over those that are damaged, which the check of the metadata has reported. */
import { type Cursor, MetadataDamaged, type Stored } from '../../../ports/metadata-store.ts';

/** Damaged rows that are passed over for one page. */
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
