/**
 * A WebAssembly program of MD5 (RFC 1321) that hashes four or eight contents at a time. One content cannot be hashed faster, because each step of MD5
 * waits for the one before it; the steps of several contents run side by side in the lanes of one vector.
 */

/** Bytes of each lane that one call hashes at most. */
export const laneBytes = 16 * 1024;
export const lanesMax = 8;

/** For a state word and a vector: the words of four lanes, one after the other. */
const vectorBytes = 16;
const stateAt = 0;
/** The constant of each step, four times. */
const constantsAt = 1024;
const lanesAt = 4096;
const pageBytes = 64 * 1024;

export interface Md5Program {
  /** By `wordAt`. */
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
  /** Hashes `length` bytes, a multiple of 64 above 0, of the first 1, 4 or 8 lanes. */
  readonly run: Readonly<Record<1 | 4 | 8, (length: number) => void>>;
}

/** The index in `words` of a state word of a lane. */
export const wordAt = (lane: number, word: number): number =>
  (stateAt + (lane >> 2) * 4 * vectorBytes + word * vectorBytes) / 4 + (lane & 3);
/** Where the bytes of a lane begin. */
export const byteAt = (lane: number): number => lanesAt + lane * laneBytes;

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
  const run = (name: string) => exports[name] as (length: number) => void;
  return { words, bytes: new Uint8Array(buffer), run: { 1: run('x1'), 4: run('x4'), 8: run('x8') } };
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

function unsigned(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest & 127) | 128);
  }
}

const list = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()];
const section = (id: number, content: Code): Code => [id, ...unsigned(content.length), ...content];
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

function encodeModule(): Uint8Array<ArrayBuffer> {
  const functions = [hashing(single, 1), hashing(fourfold, 1), hashing(fourfold, 2)];
  const pages = Math.ceil((lanesAt + lanesMax * laneBytes) / pageBytes);
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list([[0x60, 1, 0x7f, 0]])),
    ...section(3, list(functions.map(() => [0]))),
    ...section(5, list([[0, ...unsigned(pages)]])),
    ...section(
      7,
      list([
        [...text('memory'), 2, 0],
        [...text('x1'), 0, 0],
        [...text('x4'), 0, 1],
        [...text('x8'), 0, 2],
      ]),
    ),
    ...section(10, list(functions.map((body) => [...unsigned(body.length), ...body]))),
  ]);
}

const [lengthLocal, atLocal, firstLocal] = [0, 1, 2];
/** Of a vector: the state, the state before the block, the block, and what is in use to transpose it. */
const [stateLocals, savedLocals, messageLocals, spareLocals, localsOfVector] = [0, 4, 8, 24, 28];

type FourLocals = [number, number, number, number];

/** The parameter is the length; the state is loaded, a loop hashes the blocks of the lanes, the state is stored. */
function hashing(words: Instructions, vectors: number): Code {
  const code: number[] = [];
  const emit = (...parts: readonly Code[]): void => {
    for (const part of parts) code.push(...part);
  };
  const each = Array.from({ length: vectors }, (_, index) => index);
  const local = (index: number, which: number): number => firstLocal + index * localsOfVector + which;
  const stateOffset = (index: number, word: number): number => stateAt + (index * 4 + word) * vectorBytes;
  const stateWords = [0, 1, 2, 3];

  for (const index of each)
    for (const word of stateWords)
      emit(small(0), words.load(stateOffset(index, word)), set(local(index, stateLocals + word)));
  emit([0x03, 0x40]);
  for (const index of each) {
    for (const word of stateWords)
      emit(get(local(index, stateLocals + word)), set(local(index, savedLocals + word)));
    emit(words === single ? loadWords(local(index, 0)) : loadTransposed(index, local(index, 0)));
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
    [...unsigned(vectors * localsOfVector), words.type],
  ]);
  return [...locals, ...code, end];
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

function loadWords(first: number): Code {
  return Array.from({ length: 16 }, (_, word) => [
    ...get(atLocal),
    ...single.load(byteAt(0) + word * 4),
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
