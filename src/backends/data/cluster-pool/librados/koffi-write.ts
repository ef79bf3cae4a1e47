/** A write that is collected in librados' own memory, and then executed. */
import { blockBytes } from '../../chunked/buffers.ts';
import type { Operation } from './completions.ts';
import type { RadosWrite, RadosWriteOptions } from './driver.ts';
import type { Librados, Pointer } from './librados.ts';

export const attributeName = 'sluice';
/** On a full cluster, refuses writes immediately and allows removals; without it both would wait for space. */
export const fullTry = 64;
/** Written and read front to back, and never changed: the cluster then keeps a checksum of each block, not of each 4 KiB. */
const hints = 1 | 4 | 16 | 32;

/** How an attribute is compared. */
const isEqual = 1;

export interface Target {
  readonly lib: Librados;
  readonly io: Pointer;
  readonly name: string;
  readonly run: (begin: (completion: Pointer) => number) => Operation;
}

export class KoffiWrite implements RadosWrite {
  readonly #target: Target;
  readonly #op: Pointer;

  constructor(target: Target, { isNew, expected, size }: RadosWriteOptions) {
    const { lib } = target;
    this.#target = target;
    this.#op = lib.createWrite();
    if (expected !== undefined)
      lib.addCompareAttribute(this.#op, attributeName, isEqual, expected, expected.length);
    if (!isNew) return;
    lib.addCreate(this.#op, 1, null);
    if (size > blockBytes) lib.addHints(this.#op, size, blockBytes, hints);
  }

  add(bytes: Uint8Array, offset: number): void {
    this.#target.lib.addWrite(this.#op, bytes, bytes.length, offset);
  }

  async run(attribute?: Uint8Array): Promise<void> {
    const { lib, io, name, run } = this.#target;
    try {
      if (attribute !== undefined) lib.addSetAttribute(this.#op, attributeName, attribute, attribute.length);
      await run((completion) => lib.startWrite(this.#op, io, completion, name, null, fullTry)).done;
    } finally {
      this.drop();
    }
  }

  drop(): void {
    this.#target.lib.releaseWrite(this.#op);
  }
}
