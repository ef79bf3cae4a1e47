/** Reads that leave out damaged rows, so that the other rows remain usable. A metric counts the damaged rows, and fsck names them. */
import { type Cursor, MetadataDamaged, type Stored } from '../ports/metadata-store.ts';

/** The largest number of damaged rows that are skipped for one page. */
const damagedMax = 10_000;
/** Rows that a count reads together. */
const countedPage = 1_000;

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

/** All rows of a cursor, in pages, in which damaged ones are left out. */
export async function* soundPages<T, Row>(
  cursor: Cursor<T, Row>,
  count: number,
  onDamaged?: (damaged: MetadataDamaged) => void,
): AsyncGenerator<readonly Stored<Row>[]> {
  const next = () => nextSound(cursor, count, onDamaged);
  for (let page = await next(); page.length > 0; page = await next()) yield page;
}

/** How many rows a cursor has, counted up to `max`, and the first of them. Damaged ones are left out. */
export async function countRows<T, Row>(
  cursor: Cursor<T, Row>,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal | undefined },
): Promise<{ readonly rows: number; readonly first: Row | undefined }> {
  let rows = 0;
  let first: Row | undefined;
  while (rows < max) {
    const page = await nextSound(cursor, Math.min(countedPage, max - rows));
    signal?.throwIfAborted();
    if (page.length === 0) break;
    first ??= page[0]?.row;
    rows += page.length;
  }
  return { rows, first };
}

interface SoundPage<Row> {
  readonly rows: readonly Stored<Row>[];
  /** The damaged rows among and after them, which were left out. */
  readonly damaged: readonly MetadataDamaged[];
  /** The range has no further row. */
  readonly isEnd: boolean;
}

/**
 * One page of a walk that saves its position after each page. A page that is not full ends the range, damaged rows included, so the next
 * page begins after a row that was read, and each damaged row is in one page only.
 */
export async function soundPage<T, Row>(cursor: Cursor<T, Row>, count: number): Promise<SoundPage<Row>> {
  const rows: Stored<Row>[] = [];
  const damaged: MetadataDamaged[] = [];
  while (rows.length < count) {
    const page = await nextSound(cursor, count - rows.length, (each) => damaged.push(each));
    if (page.length === 0) return { rows, damaged, isEnd: true };
    rows.push(...page);
  }
  return { rows, damaged, isEnd: false };
}

/** For the `catch` of a read whose row the caller can do without. Other errors are thrown. */
export function undefinedIfDamaged(cause: unknown): undefined {
  if (!(cause instanceof MetadataDamaged)) throw cause;
  return undefined;
}
