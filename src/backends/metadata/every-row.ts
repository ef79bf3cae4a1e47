/** Copies of all rows of a table, for the backends that sort rows by their encoded keys. */
import type { AnyTable, CopiedRow } from '../../ports/metadata-store.ts';
import type { Span } from './key-order.ts';
import type { RowCodec, StoredRow } from './row-codec.ts';

export const rowsPerPage = 1_000;

/** The keys of a table, from behind a position on. */

export function tableSpan({ name }: Pick<AnyTable, 'name'>, position: string | undefined): Span {
  const prefix = new TextEncoder().encode(name);
  const bound = (end: number): Uint8Array => Uint8Array.of(...prefix, end);
  const low = position === undefined ? bound(0) : Uint8Array.of(...bytesOf(position), 0);
  return { low, high: bound(1), reverse: false };
}

export const positionOf = (key: Uint8Array): string => btoa(String.fromCharCode(...key));

const bytesOf = (position: string): Uint8Array =>
  Uint8Array.from(atob(position), (char) => char.charCodeAt(0));

export function copiedRow(codec: RowCodec, key: Uint8Array, stored: StoredRow): CopiedRow {
  const columns = codec.order.columnsOf(key);
  const { row } = codec.decode<object>(stored, columns, columns);
  const expiresAt = stored[1];
  return typeof expiresAt === 'number' ? { row, expiresAt } : { row };
}
