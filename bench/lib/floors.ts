/** What the machine can do at best right now, in this process: the hashing that a request demands. */
import { createHash, hash } from 'node:crypto';
import { microsOfSync } from './micro.ts';

export interface Floors {
  /** One core's rate over large pieces. */
  readonly md5MiBPerSecond: number;
  readonly sha256MiBPerSecond: number;
  /** MD5 and SHA-256 of a body of 4 KiB, and the four SHA-256 calls of one signature. */
  readonly hashSmallBodyMicros: number;
  readonly signatureMicros: number;
}

const mib = 2 ** 20;

export function measureFloors(): Floors {
  const large = Buffer.alloc(mib, 7);
  const small = Buffer.alloc(4096, 7);
  const text = 'x'.repeat(300);
  const rate = (name: string): number => 1e6 / microsOfSync(() => createHash(name).update(large).digest());
  return {
    md5MiBPerSecond: rate('md5'),
    sha256MiBPerSecond: rate('sha256'),
    hashSmallBodyMicros: microsOfSync(() => {
      hash('md5', small, 'hex');
      hash('sha256', small, 'hex');
    }),
    signatureMicros: microsOfSync(() => {
      for (let i = 0; i < 3; i++) hash('sha256', text, 'hex');
    }),
  };
}
