/** The lower bounds of this machine, measured in this process: hashing and writing files. */
import { createHash, hash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { microsOfSync } from './micro.ts';

export interface Floors {
  /** The rate of one core over large arrays. */
  readonly md5MiBPerSecond: number;
  readonly sha256MiBPerSecond: number;
  /** MD5 and SHA-256 of a body of 4 KiB, and the four SHA-256 calls of one signature. */
  readonly hashSmallBodyMicros: number;
  readonly signatureMicros: number;
  /**
   * Writing to new files in pieces of 256 KiB. On a virtual machine this is 0.3 when the page cache gets memory that was used
   * before, and up to 2.5 when the host must first provide the memory. Every PUT of the run includes this cost.
   */
  readonly writeMillisPerMiB: number;
}

const mib = 2 ** 20;

function writeMillisPerMiB(directory: string): number {
  const parent = fs.mkdtempSync(join(directory, 'floor-'));
  const piece = Buffer.alloc(mib / 4, 7);
  const { user, system } = process.cpuUsage();
  for (let file = 0; file < writtenMiB / 4; file++) {
    const fd = fs.openSync(join(parent, String(file)), 'w');
    for (let at = 0; at < 16; at++) fs.writeSync(fd, piece, 0, piece.length, at * piece.length);
    fs.closeSync(fd);
  }
  const used = process.cpuUsage();
  fs.rmSync(parent, { recursive: true });
  return (used.user + used.system - user - system) / 1000 / writtenMiB;
}

const writtenMiB = 256;

export function measureFloors(directory: string): Floors {
  const large = Buffer.alloc(mib, 7);
  const small = Buffer.alloc(4096, 7);
  const text = 'x'.repeat(300);
  const rate = (name: string): number => 1e6 / microsOfSync(() => createHash(name).update(large).digest());
  return {
    writeMillisPerMiB: writeMillisPerMiB(directory),
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
