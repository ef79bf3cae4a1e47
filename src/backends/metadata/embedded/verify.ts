/** The check of the whole metadata file, with what is damaged named as operators and fsck know it. */
import { closeSync, openSync } from 'node:fs';
import type { AnyTable, MetadataFault } from '../../../ports/metadata-store.ts';
import { buildOrder } from '../key-order.ts';
import { checkPages, type PageFault } from './check-pages.ts';
import type { CheckedDatabase } from './checked-database.ts';
import { showKey } from './damage.ts';
import { rangesMax } from './damaged-pages.ts';
import { dataFile } from './meta-page.ts';

/** Pages that are read before others get their turn: about a millisecond. */
const pagesAtOnce = 16;

/** Runs beside writers: a snapshot keeps its pages from being reused meanwhile. */
export async function* verifyFile(
  { directory, database }: { readonly directory: string; readonly database: CheckedDatabase },
  tables: readonly AnyTable[],
): AsyncGenerator<readonly MetadataFault[]> {
  const release = database.holdSnapshot();
  const descriptor = openSync(dataFile(directory), 'r');
  const unsound: PageFault[] = [];
  try {
    let pages = 0;
    for (const { faults } of checkPages(descriptor)) {
      unsound.push(...faults.filter(({ page }) => page !== undefined).slice(0, rangesMax - unsound.length));
      if (faults.length > 0) yield faults.map((fault) => nameFault(fault, tables));
      pages += 1;
      if (pages % pagesAtOnce !== 0) continue;
      yield [];
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    closeSync(descriptor);
    release();
    // Once for all of them: each time, every process reads the whole list again.
    database.markDamaged(unsound);
  }
}

export function nameFault(
  { detail, key, low, high, isFreeList }: PageFault,
  tables: readonly AnyTable[],
): MetadataFault {
  if (isFreeList === true)
    return { detail: `the list of free pages is damaged, and commits may overwrite rows: ${detail}` };
  if (key === undefined) {
    const from = low === undefined ? 'the first' : formatKey(low);
    const to = high === undefined ? 'the last' : formatKey(high);
    return { detail: `${detail}: its rows cannot be read, from ${from} to ${to}` };
  }
  const { table, row } = showKey(key);
  const columns = decodeColumns(
    key,
    tables.find(({ name }) => name === table),
  );
  return { detail, table, row, ...(columns === undefined ? {} : { columns }) };
}

const formatKey = (key: Uint8Array): string => {
  const { table, row } = showKey(key);
  return `${table} ${row}`;
};

function decodeColumns(key: Uint8Array, table: AnyTable | undefined): Record<string, unknown> | undefined {
  try {
    return table && buildOrder(table).columnsOf(key);
  } catch {
    // A key that is damaged may not be one of the table's at all.
    return undefined;
  }
}
