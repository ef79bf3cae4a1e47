/** What an error of lmdb or of a checksum says about the metadata file. */
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import { space } from '../records/codec.ts';
import { decodeRowText as decodeText } from '../row-codec.ts';
import { ChecksumMismatch } from './values.ts';

/** lmdb's errors for a damaged page: MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC, MDB_INVALID. */
const damageCodes: readonly unknown[] = [-30797, -30796, -30795, -30793];
/** lmdb also returns MDB_BAD_TXN for a row with flags that only other kinds of databases have. */
const isDamage = ({ code, message }: { readonly code?: unknown; readonly message: string }): boolean =>
  damageCodes.includes(code) || message.includes('Invalid dupdata flag');

/**
 * MDB_BAD_TXN and MDB_BAD_RSLOT of a transaction that was sound when it began: another process took its slot, or an
 * earlier read spoiled it.
 */
export const isRefusedSnapshot = (cause: unknown): boolean =>
  cause instanceof Error &&
  refusedSnapshotCodes.includes((cause as { readonly code?: unknown }).code) &&
  !isDamage(cause);
const refusedSnapshotCodes: readonly unknown[] = [-30782, -30783];

/** How many bits of a table's name must differ, so that a few flipped bits did not make one name of the other. */
const differentBitsMin = 4;

/**
 * Whether the damage is a value, or a later part of the key, of a row of another table than that of `key`: such a row
 * still proves where the table of `key` begins or ends. Otherwise one damaged row would fail reads in the tables beside
 * its own, also those of a start.
 */
export function isOfOtherTable(cause: unknown, key: Uint8Array): cause is MetadataDamaged {
  if (!(cause instanceof MetadataDamaged) || cause.cause !== undefined) return false;
  const other = tableName(cause.key);
  const own = tableName(key);
  if (other === undefined || own === undefined) return false;
  let bits = 8 * Math.abs(other.length - own.length);
  for (let at = 0; at < Math.min(other.length, own.length); at += 1)
    for (let each = (other[at] as number) ^ (own[at] as number); each > 0; each &= each - 1) bits += 1;
  return bits >= differentBitsMin;
}

/** Lower-case letters, digits and `_` up to a zero byte. */
function tableName(key: Uint8Array): Uint8Array | undefined {
  const end = key.indexOf(0);
  if (end <= 0) return undefined;
  const name = key.subarray(0, end);
  return /^[a-z][a-z0-9_]*$/.test(Buffer.from(name).toString('latin1')) ? name : undefined;
}

export function misplaced(key: Uint8Array): MetadataDamaged {
  const { table, row } = showKey(key);
  return new MetadataDamaged('the rows of the metadata file are out of order', { table, row, key });
}

/** Other errors are returned unchanged. */
export function damageFrom(cause: unknown, key: Uint8Array): unknown {
  if (cause instanceof MetadataDamaged) return cause;
  const { table, row } = showKey(key);
  if (cause instanceof ChecksumMismatch)
    return new MetadataDamaged(`row ${row} of ${table} is damaged: ${cause.message}`, { table, row, key });
  if (!(cause instanceof Error && isDamage(cause))) return cause;
  const message = `a page of the metadata file is damaged, met at row ${row} of ${table}: ${(cause as Error).message}`;
  return new MetadataDamaged(message, { table, row, key, cause });
}

// Keys of lmdb as text for operators: the table's name, and the columns of the key separated by slashes.

const spaces = new Map<number, string>(Object.entries(space).map(([name, byte]) => [byte, name]));

const partsMax = 16;

/** @returns the row's key columns where they are text; other bytes as `\xNN` */
export function showKey(key: Uint8Array): { readonly table: string; readonly row: string } {
  const own = spaces.get(key[0] ?? 0);
  if (own !== undefined) return { table: own, row: showBytes(key.subarray(1)) };
  const end = key.indexOf(0);
  if (end < 0) return { table: 'unknown', row: showBytes(key) };
  return { table: showBytes(key.subarray(0, end)), row: showBytes(key.subarray(end + 1)) };
}

function showBytes(bytes: Uint8Array): string {
  const parts: string[] = [];
  let rest = bytes;
  while (rest.length > 0 && parts.length < partsMax) {
    const end = rest.indexOf(0);
    parts.push(showPart(end < 0 ? rest : rest.subarray(0, end)));
    rest = end < 0 ? rest.subarray(rest.length) : rest.subarray(end + 1);
  }
  return parts.join('/');
}

function showPart(part: Uint8Array): string {
  const text = decodeText(part, 0, part.length);
  const isText = !/[\p{Cc}\ufffd]/u.test(text);
  return isText ? text : Array.from(part, showByte).join('');
}

const showByte = (byte: number): string =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
