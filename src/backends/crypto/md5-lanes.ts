/**
 * MD5 of long contents, several at a time. MD5 is the largest part of the CPU of a large PUT, and one content cannot be
 * hashed faster; pieces of several uploads that arrive in one turn of the event loop are hashed together by a
 * WebAssembly program (below), for a third of the CPU.
 */
import type { DeferredHash, Hash } from '../../ports/cryptography.ts';

const blockBytes = 64;
/** Shorter arrays are hashed immediately, because a promise would cost more. */
const deferredBytesMin = 16 * 1024;
/** A content that got no update during this many updates of others is not counted: it was abandoned, or its client is slow. */
const updatesUntilIdle = 256;
/** Turns of the event loop for which a piece waits for those of other contents. */
const turnsMax = 2;
/** Enough contents to hash without waiting for more. */
const contentsEnough = 4;

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
  /** No other content was being hashed when the last one began: there are not several uploads now. */
  #wasAlone = true;
  /** The contents that are being hashed, with the number of the last update of each. */
  readonly #contents = new Map<object, number>();

  /**
   * @param single the hash of a content that is alone, as the one before it was; the runtime computes it faster than one lane
   * @param nextTurn calls after the event loop has taken what has arrived
   */
  constructor(single: () => Hash, nextTurn: (run: () => void) => void) {
    this.#single = single;
    this.#nextTurn = nextTurn;
  }

  open(): DeferredHash {
    for (const [content, update] of this.#contents)
      if (this.#updates - update > updatesUntilIdle) this.#contents.delete(content);
    const isAlone = this.#contents.size === 0;
    const program = isAlone && this.#wasAlone ? undefined : loadMd5Program();
    this.#wasAlone = isAlone;
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
      else if (length >= Math.min(contentsEnough, this.#contents.size) || this.#turns > turnsMax) this.#run();
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

/**
 * Hashes as many bytes of each piece, up to `lanesMax` of them, as the shortest has, or a lane holds.
 * @returns whether a piece has come to its end
 */
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
  (run[pieces.length] as Run)(length);
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

// A WebAssembly program of MD5 (RFC 1321) that hashes up to twelve contents at a time. One content cannot be hashed faster, because each
// step of MD5 waits for the one before it. The steps of up to four contents run side by side as words, which a processor executes in one;
// those of more contents run in the lanes of two or three vectors.

/** Bytes of each lane that one call hashes at most. */
const laneBytes = 16 * 1024;
const lanesMax = 12;

/** For a state word and a vector: the words of four lanes, one after the other. */
const vectorBytes = 16;
const stateAt = 0;
/** The constant of each step, four times. */
const constantsAt = 1024;
const lanesAt = 4096;
const pageBytes = 64 * 1024;

interface Md5Program {
  /** By `wordAt`. */
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
  /** By the number of contents: hashes `length` bytes, a multiple of 64 above 0, of as many lanes. */
  readonly run: readonly (Run | undefined)[];
}

type Run = (length: number) => void;

/** The index in `words` of a state word of a lane. */
const wordAt = (lane: number, word: number): number =>
  (stateAt + (lane >> 2) * 4 * vectorBytes + word * vectorBytes) / 4 + (lane & 3);
/** Where the bytes of a lane begin. */
const byteAt = (lane: number): number => lanesAt + lane * laneBytes;

let loaded: { readonly program: Md5Program | undefined } | undefined;

/**
 * The program of this process: a call of it waits for nothing, so all contents share its memory. Undefined where the runtime compiles no
 * WebAssembly, or no vectors in it.
 */
export function loadMd5Program(): Md5Program | undefined {
  loaded ??= { program: compile() };
  return loaded.program;
}

function compile(): Md5Program | undefined {
  let exports: WebAssembly.Exports;
  try {
    exports = new WebAssembly.Instance(new WebAssembly.Module(encodeModule())).exports;
  } catch {
    return undefined;
  }
  const { buffer } = exports['memory'] as WebAssembly.Memory;
  const words = new Uint32Array(buffer);
  for (const [step, constant] of constants.entries())
    words.fill(
      constant,
      (constantsAt + step * vectorBytes) / 4,
      (constantsAt + (step + 1) * vectorBytes) / 4,
    );
  const run = Array.from({ length: lanesMax + 1 }, (_, contents) => {
    const index = shapes.findIndex(({ words, each }) => each * words.lanes >= contents);
    return exports[`run${index}`] as Run;
  });
  return { words, bytes: new Uint8Array(buffer), run };
}

const constants = Array.from({ length: 64 }, (_, step) => Math.floor(Math.abs(Math.sin(step + 1)) * 2 ** 32));
/** By round. */
const rotations = [
  [7, 12, 17, 22],
  [5, 9, 14, 20],
  [4, 11, 16, 23],
  [6, 10, 15, 21],
] as const;
/** The word of the block that a step adds. */
const messageWord = (step: number): number =>
  ([step, 5 * step + 1, 3 * step + 5, 7 * step][step >> 4] as number) % 16;

type Code = readonly number[];

const unsigned = (value: number): Code =>
  value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)];

const list = (items: readonly Code[]): Code => [unsigned(items.length), ...items].flat();
const sized = (content: Code): Code => [unsigned(content.length), content].flat();
const section = (id: number, content: Code): Code => [[id], sized(content)].flat();
const text = (value: string): Code => [...unsigned(value.length), ...new TextEncoder().encode(value)];

const get = (local: number): Code => [0x20, ...unsigned(local)];
const set = (local: number): Code => [0x21, ...unsigned(local)];
const tee = (local: number): Code => [0x22, ...unsigned(local)];
/** Up to 63, so that the signed form is the unsigned one. */
const small = (value: number): Code => [0x41, value];
const vector = (operation: number): Code => [0xfd, ...unsigned(operation)];
const at = (alignment: number, offset: number): Code => [alignment, ...unsigned(offset)];
const end = 0x0b;

/** The instructions of 32-bit words, of one lane or of four. */
interface Instructions {
  readonly lanes: 1 | 4;
  readonly type: number;
  readonly add: Code;
  readonly and: Code;
  readonly or: Code;
  readonly xor: Code;
  readonly not: Code;
  load(offset: number): Code;
  store(offset: number): Code;
  /** Rotates a local that was just computed. */
  rotate(local: number, bits: number): Code;
}

const single: Instructions = {
  lanes: 1,
  type: 0x7f,
  add: [0x6a],
  and: [0x71],
  or: [0x72],
  xor: [0x73],
  not: [0x41, 0x7f, 0x73],
  load: (offset) => [0x28, ...at(2, offset)],
  store: (offset) => [0x36, ...at(2, offset)],
  rotate: (local, bits) => [...get(local), ...small(bits), 0x77],
};

const fourfold: Instructions = {
  lanes: 4,
  type: 0x7b,
  add: vector(174),
  and: vector(78),
  or: vector(80),
  xor: vector(81),
  not: vector(77),
  load: (offset) => [...vector(0), ...at(2, offset)],
  store: (offset) => [...vector(11), ...at(2, offset)],
  rotate: (local, bits) => [
    ...get(local),
    ...small(bits),
    ...vector(171),
    ...get(local),
    ...small(32 - bits),
    ...vector(173),
    ...vector(80),
  ],
};

/** The functions of the program, the smallest first: how many words, or vectors, of each kind are hashed side by side. */
const shapes: readonly { readonly words: Instructions; readonly each: number }[] = [
  { words: single, each: 1 },
  { words: single, each: 2 },
  { words: single, each: 3 },
  { words: single, each: 4 },
  { words: fourfold, each: 2 },
  { words: fourfold, each: 3 },
];

function encodeModule(): Uint8Array<ArrayBuffer> {
  const functions = shapes.map(({ words, each }) => hashing(words, each));
  const pages = Math.ceil((lanesAt + lanesMax * laneBytes) / pageBytes);
  return new Uint8Array(
    [
      [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      section(1, list([[0x60, 1, 0x7f, 0]])),
      section(3, list(functions.map(() => [0]))),
      section(5, list([[0, ...unsigned(pages)]])),
      section(
        7,
        list([[...text('memory'), 2, 0], ...shapes.map((_, index) => [...text(`run${index}`), 0, index])]),
      ),
      section(10, list(functions.map(sized))),
    ].flat(),
  );
}

const [lengthLocal, atLocal, firstLocal] = [0, 1, 2];
/** Of a vector: the state, the state before the block, the block, and what is in use to transpose it. */
const [stateLocals, savedLocals, messageLocals, spareLocals, localsOfVector] = [0, 4, 8, 24, 28];

type FourLocals = [number, number, number, number];

/**
 * The parameter is the length; the state is loaded, a loop hashes the blocks of the lanes, the state is stored.
 * @param count of words, or of vectors
 */
function hashing(words: Instructions, count: number): Code {
  const code: number[] = [];
  const emit = (...parts: readonly Code[]): void => {
    for (const part of parts) code.push(...part);
  };
  const each = Array.from({ length: count }, (_, index) => index);
  const local = (index: number, which: number): number => firstLocal + index * localsOfVector + which;
  const stateOffset = (index: number, word: number): number => wordAt(index * words.lanes, word) * 4;
  const stateWords = [0, 1, 2, 3];

  for (const index of each)
    for (const word of stateWords)
      emit(small(0), words.load(stateOffset(index, word)), set(local(index, stateLocals + word)));
  emit([0x03, 0x40]);
  for (const index of each) {
    for (const word of stateWords)
      emit(get(local(index, stateLocals + word)), set(local(index, savedLocals + word)));
    emit(words.lanes === 1 ? loadWords(index, local(index, 0)) : loadTransposed(index, local(index, 0)));
  }
  for (let step = 0; step < 64; step++)
    for (const index of each) {
      const [a, b, c, d] = stateWords.map((word) =>
        local(index, stateLocals + ((word - step) & 3)),
      ) as FourLocals;
      const message = local(index, messageLocals + messageWord(step));
      const bits = (rotations[step >> 4] as readonly number[])[step & 3] as number;
      emit(
        get(a),
        get(message),
        words.add,
        small(0),
        words.load(constantsAt + step * vectorBytes),
        words.add,
      );
      emit(mixing(words, step >> 4, [b, c, d]), words.add, set(a));
      emit(words.rotate(a, bits), get(b), words.add, set(a));
    }
  for (const index of each)
    for (const word of stateWords)
      emit(
        get(local(index, stateLocals + word)),
        get(local(index, savedLocals + word)),
        words.add,
        set(local(index, stateLocals + word)),
      );
  // The next block, unless this was the last one.
  emit(get(atLocal), [0x41, 0xc0, 0x00], single.add, tee(atLocal), get(lengthLocal), [0x49, 0x0d, 0], [end]);
  for (const index of each)
    for (const word of stateWords)
      emit(small(0), get(local(index, stateLocals + word)), words.store(stateOffset(index, word)));
  const locals = list([
    [1, 0x7f],
    [...unsigned(count * localsOfVector), words.type],
  ]);
  return [locals, code, [end]].flat();
}

/** The function of a round, as RFC 1321 names them: F, G, H, I. */
function mixing(
  { and, or, xor, not }: Instructions,
  round: number,
  [b, c, d]: readonly [number, number, number],
): Code {
  switch (round) {
    case 0:
      return [...get(c), ...get(d), ...xor, ...get(b), ...and, ...get(d), ...xor];
    case 1:
      return [...get(b), ...get(c), ...xor, ...get(d), ...and, ...get(c), ...xor];
    case 2:
      return [...get(c), ...get(d), ...xor, ...get(b), ...xor];
    default:
      return [...get(d), ...not, ...get(b), ...or, ...get(c), ...xor];
  }
}

function loadWords(lane: number, first: number): Code {
  return Array.from({ length: 16 }, (_, word) => [
    ...get(atLocal),
    ...single.load(byteAt(lane) + word * 4),
    ...set(first + messageLocals + word),
  ]).flat();
}

/** The two lower, or upper, words of two vectors, in turns; and the lower, or upper, halves of two vectors. */
const shuffles = {
  lowWords: [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23],
  highWords: [8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31],
  lowHalves: [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23],
  highHalves: [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31],
} as const;

/** Loads four words of each of four lanes at a time, and makes them four vectors with a word of each lane. */
function loadTransposed(index: number, first: number): Code {
  const code: number[] = [];
  const shuffle = (which: keyof typeof shuffles, from: readonly Code[], into: number): void => {
    code.push(...from.flat(), ...vector(13), ...shuffles[which], ...set(into));
  };
  const [t0, t1, t2, t3] = [0, 1, 2, 3].map((spare) => first + spareLocals + spare) as [
    number,
    number,
    number,
    number,
  ];
  for (let group = 0; group < 4; group++) {
    const lane = (number: number): Code => [
      ...get(atLocal),
      ...fourfold.load(byteAt(index * 4 + number) + group * vectorBytes),
    ];
    shuffle('lowWords', [lane(0), lane(1)], t0);
    shuffle('highWords', [lane(0), lane(1)], t1);
    shuffle('lowWords', [lane(2), lane(3)], t2);
    shuffle('highWords', [lane(2), lane(3)], t3);
    const message = first + messageLocals + group * 4;
    shuffle('lowHalves', [get(t0), get(t2)], message);
    shuffle('highHalves', [get(t0), get(t2)], message + 1);
    shuffle('lowHalves', [get(t1), get(t3)], message + 2);
    shuffle('highHalves', [get(t1), get(t3)], message + 3);
  }
  return code;
}
