/** The cipher of SubtleCrypto, for runtimes without node:crypto. Each call crosses to another thread and back, whatever its size. */
import { type Cipher, tagBytes } from '../../ports/cryptography.ts';

const name = 'AES-GCM';
const tagLength = 8 * tagBytes;

export function portableCipher(): Cipher {
  return {
    async ready(bytes) {
      const key = await crypto.subtle.importKey('raw', bytes as BufferSource, name, false, [
        'encrypt',
        'decrypt',
      ]);
      return {
        async encrypt(plain, { nonce, into }) {
          const how = { name, iv: nonce as BufferSource, tagLength };
          into.set(new Uint8Array(await crypto.subtle.encrypt(how, key, plain as BufferSource)));
        },
        async decrypt(encrypted, { nonce, into }) {
          const how = { name, iv: nonce as BufferSource, tagLength };
          try {
            into.set(new Uint8Array(await crypto.subtle.decrypt(how, key, encrypted as BufferSource)));
            return true;
          } catch (error) {
            if (error instanceof DOMException && error.name === 'OperationError') return false;
            throw error;
          }
        },
      };
    },
  };
}
