/**
 * MD5 of long contents, several at a time. MD5 is the largest part of the CPU of a large PUT, and one content cannot be hashed faster; pieces of
 * several uploads that arrive in one turn of the event loop are hashed together by `md5-program.ts`, for a third of the CPU.
 */
import type { DeferredHash, Hash } from '../../ports/cryptography.ts';
import { byteAt, laneBytes, lanesMax, loadMd5Program, type Md5Program, wordAt } from './md5-program.ts';

const blockBytes = 64;
/** Shorter arrays are hashed immediately, because a promise would cost more. */
const deferredBytesMin = 16 * 1024;
/** A content that got no update during this many updates of others is not counted: it was abandoned, or its client is slow. */
const updatesUntilIdle = 256;
/** Turns of the event loop for which a piece waits for those of other contents. */
const turnsMax = 2;
/** Enough lanes to hash without waiting for more. */
const lanesEnough = 4;
/** The lanes of the smallest function that holds so many contents: eight lanes cost less than one and a half times four. */
const lanesFor = (contents: number): 1 | 4 | 8 => (contents === 1 ? 1 : contents <= lanesEnough ? 4 : 8);

const initialState = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476] as const;

interface Piece {
  readonly state: Uint32Array;
  readonly bytes: Uint8Array;
  /** The first byte that was not hashed yet, and the end of the bytes to hash. */
  at: number;
  readonly end: number;
  readonly hashed: () => void;
}

export class Md5Lanes {
  readonly #single: () => Hash;
  readonly #nextTurn: (run: () => void) => void;
  #program: Md5Program | undefined;
  #waiting: Piece[] = [];
  #turns = 0;
  #isScheduled = false;
  #updates = 0;
  /** The contents that are being hashed, with the number of the last update of each. */
  readonly #contents = new Map<object, number>();

  /**
   * @param single the hash of a content that is alone, which the runtime computes faster than one lane
   * @param nextTurn calls after the event loop has taken what has arrived
   */
  constructor(single: () => Hash, nextTurn: (run: () => void) => void) {
    this.#single = single;
    this.#nextTurn = nextTurn;
  }

  open(): DeferredHash {
    for (const [content, update] of this.#contents)
      if (this.#updates - update > updatesUntilIdle) this.#contents.delete(content);
    const program = this.#contents.size > 0 ? loadMd5Program() : undefined;
    this.#program ??= program;
    const hash = program ? new LaneHash(this, program) : new SingleHash(this, this.#single());
    this.#contents.set(hash, this.#updates);
    return hash;
  }

  count(content: object): void {
    this.#updates += 1;
    this.#contents.set(content, this.#updates);
  }

  close(content: object): void {
    this.#contents.delete(content);
  }

  /** Resolves when the blocks were hashed into the state. */
  hash(state: Uint32Array, bytes: Uint8Array, at: number, end: number): Promise<void> {
    return new Promise((hashed) => {
      this.#waiting.push({ state, bytes, at, end, hashed });
      if (this.#waiting.length === lanesMax) this.#run();
      else if (!this.#isScheduled) this.#schedule();
    });
  }

  #schedule(): void {
    this.#isScheduled = true;
    this.#nextTurn(() => {
      this.#isScheduled = false;
      this.#turns += 1;
      const { length } = this.#waiting;
      if (length === 0) this.#turns = 0;
      else if (length >= Math.min(lanesEnough, this.#contents.size) || this.#turns > turnsMax) this.#run();
      else this.#schedule();
    });
  }

  #run(): void {
    this.#turns = 0;
    let pieces = this.#waiting;
    this.#waiting = [];
    const program = this.#program as Md5Program;
    while (pieces.length > 0) {
      if (!hashSome(program, pieces)) continue;
      for (const piece of pieces) if (piece.at >= piece.end) piece.hashed();
      pieces = pieces.filter(({ at, end }) => at < end);
    }
  }
}

/** Hashes as many bytes of each piece, up to `lanesMax` of them, as the shortest has, or a lane holds. @returns whether a piece has come to its end */
function hashSome({ words, bytes, run }: Md5Program, pieces: readonly Piece[]): boolean {
  let length = laneBytes;
  for (const piece of pieces) {
    // The request has ended early, and its array was freed.
    if (piece.bytes.length < piece.end) piece.at = piece.end;
    length = Math.min(length, piece.end - piece.at);
  }
  if (length <= 0) return true;
  for (const [lane, piece] of pieces.entries()) {
    bytes.set(piece.bytes.subarray(piece.at, piece.at + length), byteAt(lane));
    for (let word = 0; word < 4; word++) words[wordAt(lane, word)] = piece.state[word] as number;
  }
  run[lanesFor(pieces.length)](length);
  let hasEnded = false;
  for (const [lane, piece] of pieces.entries()) {
    for (let word = 0; word < 4; word++) piece.state[word] = words[wordAt(lane, word)] as number;
    piece.at += length;
    hasEnded ||= piece.at >= piece.end;
  }
  return hasEnded;
}

class SingleHash implements DeferredHash {
  readonly #lanes: Md5Lanes;
  readonly #hash: Hash;

  constructor(lanes: Md5Lanes, hash: Hash) {
    this.#lanes = lanes;
    this.#hash = hash;
  }

  update(bytes: Uint8Array): undefined {
    this.#lanes.count(this);
    this.#hash.update(bytes);
  }

  digest(): Uint8Array {
    this.#lanes.close(this);
    return this.#hash.digest();
  }
}

class LaneHash implements DeferredHash {
  readonly #lanes: Md5Lanes;
  readonly #program: Md5Program;
  readonly #state = new Uint32Array(initialState);
  /** The beginning of a block, at the end of the bytes so far. */
  readonly #rest = new Uint8Array(blockBytes);
  #restLength = 0;
  #length = 0;

  constructor(lanes: Md5Lanes, program: Md5Program) {
    this.#lanes = lanes;
    this.#program = program;
  }

  update(bytes: Uint8Array): Promise<void> | undefined {
    this.#lanes.count(this);
    this.#length += bytes.length;
    let at = 0;
    if (this.#restLength > 0) {
      at = this.#keep(bytes);
      if (this.#restLength < blockBytes) return undefined;
      this.#hashNow(this.#rest);
      this.#restLength = 0;
    }
    const end = bytes.length - ((bytes.length - at) % blockBytes);
    this.#keep(bytes.subarray(end));
    if (end === at) return undefined;
    if (end - at >= deferredBytesMin) return this.#lanes.hash(this.#state, bytes, at, end);
    this.#hashNow(bytes.subarray(at, end));
    return undefined;
  }

  digest(): Uint8Array {
    this.#lanes.close(this);
    const length = this.#restLength;
    // The padding ends a block: one bit, zeros, and the number of bits.
    const last = new Uint8Array(length < blockBytes - 8 ? blockBytes : 2 * blockBytes);
    last.set(this.#rest.subarray(0, length));
    last[length] = 0x80;
    const view = new DataView(last.buffer);
    view.setBigUint64(last.length - 8, BigInt(this.#length) * 8n, true);
    this.#hashNow(last);
    const digest = new Uint8Array(16);
    const digestView = new DataView(digest.buffer);
    for (const [at, word] of this.#state.entries()) digestView.setUint32(at * 4, word, true);
    return digest;
  }

  /** Fills the block that is begun. @returns how many bytes it took */
  #keep(bytes: Uint8Array): number {
    const taken = Math.min(bytes.length, blockBytes - this.#restLength);
    this.#rest.set(bytes.subarray(0, taken), this.#restLength);
    this.#restLength += taken;
    return taken;
  }

  #hashNow(bytes: Uint8Array): void {
    const piece = { state: this.#state, bytes, at: 0, end: bytes.length, hashed: () => {} };
    while (piece.at < piece.end) hashSome(this.#program, [piece]);
  }
}
