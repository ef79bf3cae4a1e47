/** The checksum of a row of the embedded store, beside CRC32C by the native module. */

import { crc32c } from '../../src/backends/crypto/node.ts';
import { rowChecksum } from '../../src/backends/metadata/embedded/values.ts';
import { microsOfSync, type Piece } from '../lib/micro.ts';

const key = new TextEncoder().encode(`objects\0${'b'.repeat(32)}\0${'k'.repeat(30)}`);
const page = new Uint8Array(4096).fill(7);

export const rowChecksums = async (): Promise<Piece[]> =>
  [60, 350, 900].map((bytes) => ({
    name: `checksum of a row, ${bytes} B`,
    micros: microsOfSync(() => rowChecksum(key, page, { from: 4, to: 4 + bytes })),
    floor: {
      name: 'CRC32C',
      micros: microsOfSync(() => crc32c(page.subarray(4, 4 + bytes), crc32c(key))),
    },
  }));
