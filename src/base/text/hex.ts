/** Bytes as hexadecimal digits, and comparisons in constant time. */
const toCodes = (digits: string): readonly number[] => Array.from(digits, (digit) => digit.charCodeAt(0));
const lower = toCodes('0123456789abcdef');
const upper = toCodes('0123456789ABCDEF');

export const toHex = (bytes: Uint8Array): string => written(bytes, lower);
export const toUpperHex = (bytes: Uint8Array): string => written(bytes, upper);

/** Arrays for short texts by their length, used again because nothing waits between writing to one and reading it. */
const arrays: number[][] = [];
const reusedLengthMax = 64;

function reuseArray(length: number): number[] {
  if (length > reusedLengthMax) return new Array<number>(length);
  arrays[length] ??= new Array<number>(length);
  return arrays[length];
}

/** Builds the string in one piece, so that later reads do not flatten a rope. */
function written(bytes: Uint8Array, digits: readonly number[]): string {
  const codes = reuseArray(bytes.length * 2);
  for (let i = 0; i < bytes.length; i++) {
    codes[2 * i] = digits[(bytes[i] as number) >> 4] as number;
    codes[2 * i + 1] = digits[(bytes[i] as number) & 15] as number;
  }
  return String.fromCharCode.apply(null, codes);
}

export const fromHex = (hex: string): Uint8Array =>
  Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));

/** Compares bytes with lower-case digits, in a time that does not depend on where the first difference is. */
export function equalsHex(bytes: Uint8Array, hex: string): boolean {
  if (hex.length !== bytes.length * 2) return false;
  let difference = 0;
  for (let i = 0; i < bytes.length; i++) {
    const high = nibble(hex.charCodeAt(2 * i));
    const low = nibble(hex.charCodeAt(2 * i + 1));
    difference |= ((high << 4) | low) ^ (bytes[i] as number);
  }
  return difference === 0;
}

/** The value of a lower-case hexadecimal digit; for any other character a value that no byte equals. */
function nibble(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  return 0x1000;
}

/** Compares in a time that depends on the lengths only. */
export function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= (a[i] as number) ^ (b[i] as number);
  return difference === 0;
}
