/** One pool, or a namespace in it, through librados. */

import type { Lane } from '../reading/lane.ts';
import type { Completions, Operation, Start } from './completions.ts';
import {
  RadosFailure,
  type RadosPool,
  type RadosRead,
  type RadosWrite,
  type RadosWriteOptions,
} from './driver.ts';
import { attributeName, fullTry, KoffiWrite } from './koffi-write.ts';
import { later, type Native, type Pointer } from './librados.ts';

const namesPerPage = 1000;
const itemWords = 6;

export interface PoolParts {
  readonly native: Native;
  readonly completions: Completions;
  /** Calls that block a thread of the runtime, which has few. */
  readonly blocking: Lane;
}

/** C writes these while an operation is under way, so they must stay where they are. */
const words = (count: number): BigUint64Array<ArrayBuffer> => new BigUint64Array(new ArrayBuffer(8 * count));

export class KoffiPool implements RadosPool {
  readonly alignment: number;
  readonly #parts: PoolParts;
  readonly #io: Pointer;
  readonly #name: string;

  constructor(parts: PoolParts, io: Pointer, name: string) {
    this.#parts = parts;
    this.#io = io;
    this.#name = name;
    this.alignment = readAlignment(parts.native, io);
  }

  write(name: string, options: RadosWriteOptions): RadosWrite {
    const run = (begin: Start['begin']): Operation => this.#run(`write of ${name}`, [], begin);
    return new KoffiWrite({ lib: this.#parts.native.lib, io: this.#io, name, run }, options);
  }

  read(
    name: string,
    into: Uint8Array,
    { offset, wantsAttribute }: { readonly offset: number; readonly wantsAttribute: boolean },
  ): RadosRead {
    if (wantsAttribute) return this.#readAll(name, into, offset);
    const { lib } = this.#parts.native;
    const { done, cancel } = this.#run(`read of ${name}`, [into], (completion) =>
      lib.startRead(this.#io, name, completion, into, into.length, offset),
    );
    return { done: done.then((length) => ({ length })), cancel };
  }

  async attribute(name: string): Promise<Uint8Array> {
    const { attribute } = await this.#readAll(name, new Uint8Array(0), 0).done;
    return attribute;
  }

  #readAll(
    name: string,
    into: Uint8Array,
    offset: number,
  ): RadosRead & { readonly done: Promise<{ readonly length: number; readonly attribute: Uint8Array }> } {
    const { lib } = this.#parts.native;
    const [got, codes, iterator] = [words(1), words(2), words(1)];
    const op = lib.createRead();
    if (into.length > 0) lib.addRead(op, offset, into.length, into, got, codes.subarray(0, 1));
    lib.addGetAttributes(op, iterator, codes.subarray(1));
    const { done, cancel } = this.#run(`read of ${name}`, [into, got, codes, iterator], (completion) =>
      lib.startReadOp(op, this.#io, completion, name, 0),
    );
    const finish = async () => {
      try {
        await done;
        return { length: Number(got[0]), attribute: this.#attributeIn(iterator) };
      } finally {
        lib.endAttributes(iterator[0] ?? null);
        lib.releaseRead(op);
      }
    };
    return { done: finish(), cancel };
  }

  #attributeIn(iterator: BigUint64Array): Uint8Array {
    const { lib, text } = this.#parts.native;
    const [name, value, length] = [words(1), words(1), words(1)];
    while (lib.nextAttribute(iterator[0] ?? null, name, value, length) === 0 && name[0] !== 0n) {
      if (text(name[0] ?? null) !== attributeName) continue;
      const bytes = new Uint8Array(Number(length[0]));
      lib.copyMemory(bytes, value[0] ?? null, bytes.length);
      return bytes;
    }
    return new Uint8Array(0);
  }

  async remove(name: string): Promise<void> {
    const { lib } = this.#parts.native;
    const op = lib.createWrite();
    try {
      lib.addRemove(op);
      await this.#run(`removal of ${name}`, [], (completion) =>
        lib.startWrite(op, this.#io, completion, name, null, fullTry),
      ).done;
    } finally {
      lib.releaseWrite(op);
    }
  }

  async *names(): AsyncGenerator<readonly string[]> {
    const { lib } = this.#parts.native;
    const end = lib.listEnd(this.#io);
    let cursor = lib.listBegin(this.#io);
    try {
      while (lib.isListEnd(this.#io, cursor) === 0) {
        const { found, next } = await this.#page(cursor, end);
        lib.freeCursor(this.#io, cursor);
        cursor = next;
        yield found;
      }
    } finally {
      lib.freeCursor(this.#io, cursor);
      lib.freeCursor(this.#io, end);
    }
  }

  async #page(
    start: Pointer,
    end: Pointer,
  ): Promise<{ readonly found: readonly string[]; readonly next: Pointer }> {
    const { native, blocking } = this.#parts;
    const { lib, text } = native;
    const items = words(itemWords * namesPerPage);
    const next = words(1);
    // It moves to where the page ended.
    next[0] = lib.listBegin(this.#io) ?? 0n;
    const count = await blocking.run(() =>
      later(lib.list, this.#io, start, end, namesPerPage, null, 0, items, next),
    );
    if (count < 0) {
      lib.freeCursor(this.#io, next[0] ?? null);
      throw new RadosFailure(`listing ${this.#name}`, -count);
    }
    const found = Array.from({ length: count }, (_, index) =>
      text(items[index * itemWords + 1] ?? null, Number(items[index * itemWords])),
    );
    lib.freeList(count, items);
    return { found, next: next[0] ?? null };
  }

  /** The first words are bytes, kilobytes and objects. */
  async stats(): Promise<{ readonly bytesUsed: number; readonly objects: number }> {
    const { native, blocking } = this.#parts;
    const stats = words(16);
    const code = await blocking.run(() => later(native.lib.statPool, this.#io, stats));
    if (code < 0) throw new RadosFailure('pool stats', -code);
    return { bytesUsed: Number(stats[1]) * 1024, objects: Number(stats[2]) };
  }

  #run(what: string, holds: readonly unknown[], begin: Start['begin']): Operation {
    return this.#parts.completions.run({ what: `${what} in ${this.#name}`, io: this.#io, holds, begin });
  }

  /** Waits for pending operations, because librados hangs when a pool is closed during one. */
  async close(): Promise<void> {
    await this.#parts.completions.drain(this.#io);
    await later(this.#parts.native.lib.closePool, this.#io);
  }
}

/** From the map of the cluster, which is known once a pool is open. */
function readAlignment({ lib }: Native, io: Pointer): number {
  const [isRequired, bytes] = [new Int32Array(new ArrayBuffer(4)), words(1)];
  for (const code of [lib.requiresAlignment(io, isRequired), lib.requiredAlignment(io, bytes)]) {
    if (code < 0) throw new RadosFailure('the alignment of a pool', -code);
  }
  return isRequired[0] === 0 ? 1 : Math.max(1, Number(bytes[0]));
}
