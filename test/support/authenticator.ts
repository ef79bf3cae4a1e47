/** An authenticator app for tests: the codes of a seed, computed with node:crypto alone. */
import { createHmac } from 'node:crypto';

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function decode(base32: string): Buffer {
  const bits = [...base32].map((letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const bytes = bits.match(/.{8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)));
}

/** @param seed base64 of base32, as CreateVirtualMFADevice returns it */
export function authenticator(seed: string, now: () => number) {
  const key = decode(Buffer.from(seed, 'base64').toString());
  return {
    /** @param steps the number of steps of 30 seconds ahead of now */
    code(steps = 0): string {
      const counter = Buffer.alloc(8);
      counter.writeBigUInt64BE(BigInt(Math.floor(now() / 30_000) + steps));
      const mac = createHmac('sha1', key).update(counter).digest();
      const at = (mac.at(-1) ?? 0) & 15;
      return String((mac.readUInt32BE(at) & 0x7fffffff) % 1e6).padStart(6, '0');
    },
  };
}
