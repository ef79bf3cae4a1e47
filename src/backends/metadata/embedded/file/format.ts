/** The format of the data directory: which bytes a release of sluice finds in lmdb's file. */
import { StoreRefused } from '../../../../ports/metadata-store.ts';
import { textKeyIn } from '../../records/key-spaces.ts';
import type { CheckedDatabase } from '../rows/checked-database.ts';
import { checksumBytes } from '../rows/row-checksum.ts';

/** 1: rows without a checksum. 2: a checksum before every value. */
export const storeFormat = 2;

const formatKey = textKeyIn('catalog', '');

/** Notes the format; the first transaction of a new file does. */
export const noteFormat = (database: CheckedDatabase): void => database.put(formatKey, storeFormat);

/** @returns whether the file is new @throws StoreRefused where it has another format */
export function isNewFile(database: CheckedDatabase): boolean {
  database.refresh();
  const found = database.get(formatKey);
  if (found === storeFormat) return false;
  if (found === undefined && database.isEmpty()) return true;
  const has = found === undefined ? 'has no note of its format' : `has format ${String(found)}`;
  throw new StoreRefused(
    `the data directory ${has}, and this release reads format ${storeFormat}: ` +
      'an earlier or later release wrote it, or its first row is damaged; docs/recovery.md says what to do',
  );
}

/** @param value of the first row, with its checksum @throws StoreRefused where it is no note of this format */
export function assertFormat(value: Uint8Array | undefined): void {
  if (value?.length === checksumBytes + 1 && value[checksumBytes] === storeFormat) return;
  throw new StoreRefused(
    `the metadata file has no note of format ${storeFormat}; docs/recovery.md says what to do`,
  );
}
