/**
 * The cipher of node:crypto (Node, Bun, Deno). It runs where it is called: SubtleCrypto's way to another thread and
 * back costs three times what encrypting 64 KiB does.
 */
import { createCipheriv, createDecipheriv, createSecretKey } from 'node:crypto';
import { type Cipher, tagBytes } from '../../ports/cryptography.ts';

const algorithm = 'aes-256-gcm';
const options = { authTagLength: tagBytes };

export function nodeCipher(): Cipher {
  return {
    async ready(bytes) {
      const key = createSecretKey(bytes);
      return {
        async encrypt(plain, { nonce, into }) {
          const cipher = createCipheriv(algorithm, key, nonce, options);
          move(cipher.update(plain), into);
          cipher.final();
          into.set(cipher.getAuthTag(), plain.length);
        },
        async decrypt(encrypted, { nonce, into }) {
          const end = encrypted.length - tagBytes;
          const decipher = createDecipheriv(algorithm, key, nonce, options);
          decipher.setAuthTag(encrypted.subarray(end));
          move(decipher.update(encrypted.subarray(0, end)), into);
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
function move(from: Buffer<ArrayBuffer>, into: Uint8Array): void {
  into.set(from);
  if (from.length >= largeBytes && from.buffer.byteLength === from.length) from.buffer.transfer(0);
}
