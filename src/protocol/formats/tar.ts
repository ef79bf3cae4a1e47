/** Writes an archive in the format `ustar` (POSIX.1-1988), a file at a time. */

const blockBytes = 512;
const encoder = new TextEncoder();

export interface TarFile {
  /** At most 100 bytes. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** In ms since the epoch. */
  readonly modifiedAt: number;
}

export function tarEntry({ name, bytes, modifiedAt }: TarFile): Uint8Array {
  const padded = Math.ceil(bytes.length / blockBytes) * blockBytes;
  const entry = new Uint8Array(blockBytes + padded);
  const write = (at: number, text: string): void => entry.set(encoder.encode(text), at);
  const octal = (at: number, length: number, value: number): void =>
    write(
      at,
      `${Math.floor(value)
        .toString(8)
        .padStart(length - 1, '0')}\0`,
    );
  write(0, name);
  octal(100, 8, 0o600);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, bytes.length);
  octal(136, 12, modifiedAt / 1000);
  // The checksum is computed as if its own field held spaces.
  write(148, ' '.repeat(8));
  write(156, '0');
  write(257, 'ustar\x0000');
  let sum = 0;
  for (const byte of entry.subarray(0, blockBytes)) sum += byte;
  write(148, `${sum.toString(8).padStart(6, '0')}\0 `);
  entry.set(bytes, blockBytes);
  return entry;
}

/** Two empty blocks end an archive. */
export const tarEnd = (): Uint8Array => new Uint8Array(2 * blockBytes);
