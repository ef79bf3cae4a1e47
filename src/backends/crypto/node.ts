/** The native hasher of Node, Bun and Deno: the CRC32C is that of @node-rs/crc32, and long contents share the lanes of an MD5. */
import { setImmediate } from 'node:timers';
import nodeRs from '@node-rs/crc32';
import type { Hasher } from '../../ports/cryptography.ts';
import type { Crc32 } from './crc.ts';
import { Md5Lanes } from './md5-lanes.ts';
import { nativeHasher } from './native-hasher.ts';

/** Continues a CRC32C (0 to begin with), at 13 GB/s: what the stored blocks are checked with. */
export const crc32c: Crc32 = nodeRs.crc32c;

const hasher = nativeHasher({ crc32c });
/** One for the process, because contents are hashed together. */
const md5Lanes = new Md5Lanes(() => hasher.create('md5'), setImmediate);

export const nodeHasher = (): Hasher => ({ ...hasher, createLongMd5: () => md5Lanes.open() });
