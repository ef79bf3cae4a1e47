/** Bytes as hexadecimal digits, in lower case. */
const hexDigits = Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0));

/** In one piece: what is put together piece by piece stays so in memory, and is put together again by whoever looks. */
export function toHex(bytes: Uint8Array): string {
  const codes = new Array<number>(bytes.length * 2);
  for (let i = 0; i < bytes.length; i++) {
    codes[2 * i] = hexDigits[(bytes[i] as number) >> 4] as number;
    codes[2 * i + 1] = hexDigits[(bytes[i] as number) & 15] as number;
  }
  return String.fromCharCode.apply(null, codes);
}

export const fromHex = (hex: string): Uint8Array =>
  Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
