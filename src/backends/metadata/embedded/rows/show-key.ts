/** Keys of lmdb as text for operators: the table's name, and the columns of the key separated by slashes. */
import { decodeText } from '../../rows/node-text.ts';
import { space } from '../file/space.ts';

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
