/** The cost of encryption beside that of the runtime's AES-GCM alone, and beside the MD5 of every write. */
import { createCipheriv, createSecretKey, hash } from 'node:crypto';
import { nodeCipher } from '../../src/backends/crypto/node.ts';
import { portableCipher } from '../../src/backends/crypto/portable.ts';
import {
  contentBytes,
  decryptSegments,
  encryptedSize,
  encryptSegments,
} from '../../src/domain/content/segments.ts';
import type { CipherKey } from '../../src/ports/cryptography.ts';
import { microsOf, microsOfSync, type Piece } from '../lib/micro.ts';

const mib = 1024 * 1024;
/** The size of the arrays from a socket. */
const arrivingBytes = 64 * 1024;

async function* arriving(size: number): AsyncGenerator<Uint8Array> {
  const piece = new Uint8Array(arrivingBytes);
  for (let left = size; left > 0; left -= piece.length) yield piece.subarray(0, Math.min(left, piece.length));
}

async function drain(source: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const _ of source);
}

export async function cipher(): Promise<Piece[]> {
  const secret = createSecretKey(new Uint8Array(32).fill(1));
  const nonce = new Uint8Array(12);
  const segment = new Uint8Array(contentBytes);
  const native = microsOfSync(() => {
    const cipher = createCipheriv('aes-256-gcm', secret, nonce);
    cipher.update(segment).buffer.transfer(0);
    cipher.final();
    cipher.getAuthTag();
  });
  const floor = { name: 'AES-GCM alone', micros: (native * mib) / contentBytes };
  const pieces: Piece[] = [];
  for (const [name, made] of [['native', nodeCipher()] as const, ['portable', portableCipher()] as const]) {
    const key: CipherKey = await made.ready(new Uint8Array(32).fill(1));
    const stored: Uint8Array[] = [];
    for await (const piece of encryptSegments(arriving(mib), key)) stored.push(piece.slice());
    const whole = Buffer.concat(stored);
    const read = async function* ({ start, end }: { start: number; end: number }) {
      for (let at = start; at <= end; at += 4 * arrivingBytes)
        yield whole.subarray(at, Math.min(at + 4 * arrivingBytes, end + 1));
    };
    const encrypted = { size: encryptedSize(mib), read };
    const encrypting = await microsOf(() => drain(encryptSegments(arriving(mib), key)), { batch: 1 });
    const range = { start: 0, end: mib - 1 };
    const decrypting = await microsOf(() => drain(decryptSegments(encrypted, key, range)), { batch: 1 });
    pieces.push(
      { name: `encrypt 1 MiB, ${name}`, micros: encrypting, floor },
      { name: `decrypt 1 MiB, ${name}`, micros: decrypting, floor },
    );
  }
  const content = new Uint8Array(mib);
  const md5 = microsOfSync(() => hash('md5', content, 'buffer'));
  return [...pieces, { name: 'MD5 of 1 MiB, for comparison', micros: md5 }];
}
