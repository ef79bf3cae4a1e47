/** Reads that leave out damaged rows, so that the other rows remain usable. A metric counts the damaged rows, and fsck names them. */
import { type Cursor, MetadataDamaged, type Stored } from '../ports/metadata-store.ts';

/** The largest number of damaged rows that are skipped for one page. */
const damagedMax = 10_000;

/** The next rows of a cursor, in which damaged ones are left out; empty at its end. */
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

/** For the `catch` of a read whose row the caller can do without. Other errors are thrown. */
export function undefinedIfDamaged(cause: unknown): undefined {
  if (!(cause instanceof MetadataDamaged)) throw cause;
  return undefined;
}
