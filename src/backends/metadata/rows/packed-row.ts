/**
 * Reads some values of a row, which is one msgpack array, and skips the others: a page of a listing needs few columns of a thousand rows.
 * Whole rows are unpacked by the library that packs them.
 */
import type { DecodeText } from './order.ts';

/** By position: true for the columns that the caller needs, up to the last of them. */
export type Wanted = readonly boolean[];

/** From `unsigned` on, a tag is followed by bytes to skip. */
const is = {
  small: 0,
  nil: 1,
  no: 2,
  yes: 3,
  array: 4,
  map: 5,
  unsigned: 6,
  signed: 7,
  double: 8,
  text: 9,
  bytes: 10,
} as const;
type Kind = (typeof is)[keyof typeof is];

/** The bytes after a tag: for numbers their length, for others the length of the size field. */
type Tag = readonly [kind: Kind, bytes: number];
const tags = new Map<number, Tag>([
  [0xc0, [is.nil, 0]],
  [0xc2, [is.no, 0]],
  [0xc3, [is.yes, 0]],
  [0xc4, [is.bytes, 1]],
  [0xc5, [is.bytes, 2]],
  [0xc6, [is.bytes, 4]],
  [0xcb, [is.double, 8]],
  [0xcc, [is.unsigned, 1]],
  [0xcd, [is.unsigned, 2]],
  [0xce, [is.unsigned, 4]],
  [0xd0, [is.signed, 1]],
  [0xd1, [is.signed, 2]],
  [0xd2, [is.signed, 4]],
  [0xd9, [is.text, 1]],
  [0xda, [is.text, 2]],
  [0xdb, [is.text, 4]],
  [0xdc, [is.array, 2]],
  [0xdd, [is.array, 4]],
  [0xde, [is.map, 2]],
  [0xdf, [is.map, 4]],
]);
const tagged = Array.from({ length: 256 }, (_, tag) => tags.get(tag));

// Reading never awaits, so one place serves all.
let row = new Uint8Array(0);
let at = 0;
let decodeText: DecodeText;
/** Of the value whose tag was read last. */
let kind: Kind = is.nil;
/** For a small number its value; for other numbers, text and bytes their length; for arrays and maps the number of values. */
let size = 0;

export interface ReadSome {
  readonly wanted: Wanted;
  readonly decode: DecodeText;
  /** The position of the row in the bytes. Default 0. */
  readonly from?: number;
}

/** The values at the wanted positions; the others are holes. */
export function readSome(packed: Uint8Array, { wanted, decode, from = 0 }: ReadSome): unknown[] {
  row = packed as Uint8Array<ArrayBuffer>;
  at = from;
  decodeText = decode;
  readTag();
  if (kind !== is.array) throw new Error('a row is an array');
  const count = Math.min(size, wanted.length);
  const values: unknown[] = new Array(count);
  for (let place = 0; place < count; place++) {
    if (wanted[place]) values[place] = read();
    else skip();
  }
  return values;
}

function readTag(): void {
  const tag = row[at++] as number;
  if (tag < 0x80) found(is.small, tag);
  else if (tag < 0x90) found(is.map, tag & 0x0f);
  else if (tag < 0xa0) found(is.array, tag & 0x0f);
  else if (tag < 0xc0) found(is.text, tag & 0x1f);
  else if (tag >= 0xe0) found(is.small, tag - 0x100);
  else {
    const known = tagged[tag];
    if (known === undefined) throw new Error(`rows hold no 0x${tag.toString(16)}`);
    const [is, bytes] = known;
    found(is, isNumber(is) ? bytes : readUnsigned(bytes));
  }
}

const isNumber = (each: Kind): boolean => each >= is.unsigned && each <= is.double;

function found(its: Kind, length: number): void {
  kind = its;
  size = length;
}

function skip(): void {
  for (let left = 1; left > 0; left--) {
    readTag();
    if (kind === is.map) left += 2 * size;
    else if (kind === is.array) left += size;
    else if (kind >= is.unsigned) at += size;
  }
}

function read(): unknown {
  readTag();
  switch (kind) {
    case is.small:
      return size;
    case is.nil:
      return null;
    case is.no:
      return false;
    case is.yes:
      return true;
    case is.unsigned:
      return readUnsigned(size);
    case is.signed:
      return readSigned(size);
    case is.double:
      return readDouble();
    case is.text:
      return readText(size);
    case is.bytes:
      at += size;
      return new Uint8Array(row.subarray(at - size, at));
    case is.array:
      return Array.from({ length: size }, read);
    default:
      return readMap(size);
  }
}

function readUnsigned(bytes: number): number {
  let value = 0;
  for (const end = at + bytes; at < end; ) value = value * 256 + (row[at++] as number);
  return value;
}

function readSigned(bytes: number): number {
  const value = readUnsigned(bytes);
  const beyond = 2 ** (8 * bytes);
  return value < beyond / 2 ? value : value - beyond;
}

const double = new DataView(new ArrayBuffer(8));
function readDouble(): number {
  for (let i = 0; i < 8; i++) double.setUint8(i, row[at++] as number);
  return double.getFloat64(0);
}

function readMap(count: number): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (let i = 0; i < count; i++) {
    const name = read() as string;
    values[name] = read();
  }
  return values;
}

/** Short texts are the same in row after row: names of properties, storage classes, owners. Each slot has the last of its kind. */
const repeatedMax = 16;
const repeated = Array.from({ length: 256 }, () => ({
  length: 0,
  bytes: new Uint8Array(repeatedMax),
  text: '',
}));

function readText(length: number): string {
  const from = at;
  at += length;
  if (length > repeatedMax) return decodeText(row, from, at);
  const ends = 31 * (row[from] as number) + 17 * (row[at - 1] as number);
  const last = repeated[(length + ends) & 0xff] as (typeof repeated)[number];
  let same = last.length === length ? 0 : -1;
  while (same >= 0 && same < length) same = last.bytes[same] === row[from + same] ? same + 1 : -1;
  if (same < 0) {
    for (let i = 0; i < length; i++) last.bytes[i] = row[from + i] as number;
    last.length = length;
    last.text = decodeText(row, from, at);
  }
  return last.text;
}
