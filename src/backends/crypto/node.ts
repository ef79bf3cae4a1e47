/**
 * The native hasher and cipher of Node, Bun and Deno: the CRC32C is that of @node-rs/crc32, and long contents share the
 * lanes of an MD5.
 */

import { createCipheriv, createDecipheriv, createSecretKey } from 'node:crypto';
import { setImmediate } from 'node:timers';
import nodeRs from '@node-rs/crc32';
import { type Cipher, type Hasher, tagBytes } from '../../ports/cryptography.ts';
import type { Crc32 } from './crc.ts';
import { Md5Lanes } from './md5-lanes.ts';
import { nativeHasher } from './native-hasher.ts';

/** Continues a CRC32C (0 to begin with), at 13 GB/s: what the stored blocks are checked with. */
export const crc32c: Crc32 = nodeRs.crc32c;

const hasher = nativeHasher({ crc32c });
/** One for the process, because contents are hashed together. */
const md5Lanes = new Md5Lanes(() => hasher.create('md5'), setImmediate);

export const nodeHasher = (): Hasher => ({ ...hasher, createLongMd5: () => md5Lanes.open() });

// The cipher of node:crypto. It runs where it is called: SubtleCrypto's way to another thread and back costs three
// times what encrypting 64 KiB does.

const algorithm = 'aes-256-gcm';
const cipherOptions = { authTagLength: tagBytes };

export function nodeCipher(): Cipher {
  return {
    async ready(bytes) {
      const key = createSecretKey(bytes);
      return {
        async encrypt(plain, { nonce, into }) {
          const cipher = createCipheriv(algorithm, key, nonce, cipherOptions);
          copyAndFree(cipher.update(plain), into);
          cipher.final();
          into.set(cipher.getAuthTag(), plain.length);
        },
        async decrypt(encrypted, { nonce, into }) {
          const end = encrypted.length - tagBytes;
          const decipher = createDecipheriv(algorithm, key, nonce, cipherOptions);
          decipher.setAuthTag(encrypted.subarray(end));
          copyAndFree(decipher.update(encrypted.subarray(0, end)), into);
          try {
            decipher.final();
            return true;
          } catch {
            // All that `final` does is to compare the tags.
            return false;
          }
        },
      };
    },
  };
}

/** Arrays of at least this size are freed explicitly. */
const largeBytes = 16 * 1024;

/**
 * Copies, and frees the runtime's array immediately. Left to the garbage collector, each new array takes new pages from the kernel,
 * which costs as much as the cipher itself.
 */
function copyAndFree(from: Buffer<ArrayBuffer>, into: Uint8Array): void {
  into.set(from);
  if (from.length >= largeBytes && from.buffer.byteLength === from.length) from.buffer.transfer(0);
}
