/** Bytes as hexadecimal digits. */
const codesOf = (digits: string): readonly number[] => Array.from(digits, (digit) => digit.charCodeAt(0));
const lower = codesOf('0123456789abcdef');
const upper = codesOf('0123456789ABCDEF');

export const toHex = (bytes: Uint8Array): string => written(bytes, lower);
export const toUpperHex = (bytes: Uint8Array): string => written(bytes, upper);

/** Builds the string in one piece, so that later reads do not flatten a rope. */
function written(bytes: Uint8Array, digits: readonly number[]): string {
  const codes = new Array<number>(bytes.length * 2);
  for (let i = 0; i < bytes.length; i++) {
    codes[2 * i] = digits[(bytes[i] as number) >> 4] as number;
    codes[2 * i + 1] = digits[(bytes[i] as number) & 15] as number;
  }
  return String.fromCharCode.apply(null, codes);
}

export const fromHex = (hex: string): Uint8Array =>
  Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
