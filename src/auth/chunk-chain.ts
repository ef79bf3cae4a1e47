/**
 * Decodes bodies in chunks and verifies the signature of each, so that a truncated or forged body fails before anything is committed.
 * Content is passed on as it arrives, before the signature of its chunk is known: it is valid only once the generator has ended.
 */
import { fail, type Refusal } from '../base/errors.ts';
import { equalsHex, toHex } from '../base/text/hex.ts';
import type { Hasher } from '../ports/cryptography.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { PieceRing } from '../protocol/wire.ts';
import { mismatch } from './verify-signature.ts';

/** The request's own signature, which the first chunk's signature includes. */
export interface ChunkChain {
  readonly key: Uint8Array;
  readonly accessKey: string;
  readonly timestamp: string;
  readonly scope: string;
  readonly signature: string;
}

interface ChunkRules {
  readonly hasher: Hasher;
  readonly dialect: Dialect;
  /** Bytes of content that the request declared. */
  readonly length: number;
  /** Undefined: content is passed on in the arrays in which it arrives. */
  readonly pieces?: PieceRing | undefined;
  /** Undefined: the chunks are not signed. */
  readonly chain: ChunkChain | undefined;
  /** Undefined: the body ends without trailing headers. */
  readonly trailers: TrailerRules | undefined;
}

/** A header is a length, in signed bodies followed by 81 characters. The rest is for extensions, which no known client sends. */
const headerLengthMax = 256;
const trailerLengthMax = 4096;

export async function* decodeChunks(
  body: AsyncIterable<Uint8Array>,
  rules: ChunkRules,
): AsyncGenerator<Uint8Array> {
  const cursor = new BodyCursor(body);
  const chain = rules.chain === undefined ? undefined : new Chain(rules, rules.chain);
  const { length, pieces } = rules;
  const joiner = pieces !== undefined && isJoined(pieces, length) ? new Joiner(pieces, length) : undefined;
  let remaining = length;
  try {
    for (;;) {
      // Most lines arrive whole: `lineNow` decodes such a line at once, without a promise and without joining its characters.
      if (!cursor.hasBytes) await cursor.fill();
      const line = cursor.lineNow(headerLengthMax) ?? (await cursor.line(headerLengthMax));
      const size = parseSize(line, chain !== undefined);
      // This also refuses a chunk of 16 EiB before it is read.
      if (size > remaining) throw wrongLength();
      remaining -= size;
      const hash = chain === undefined ? undefined : rules.hasher.create('sha256');
      for (let left = size; left > 0; ) {
        if (!cursor.hasBytes && !(await cursor.fill())) throw wrongLength();
        const arrived = cursor.take(joiner === undefined ? left : Math.min(left, joiner.free));
        left -= arrived.length;
        if (joiner === undefined) {
          hash?.update(arrived);
          yield arrived;
          continue;
        }
        joiner.add(arrived);
        if (left > 0 && joiner.free > 0) continue;
        hash?.update(joiner.takeAdded());
        if (joiner.free === 0) yield joiner.take();
      }
      if (hash !== undefined) chain?.verify(parseSignature(line), toHex(hash.digest()));
      if (size === 0) break;
      if ((cursor.lineNow(0) ?? (await cursor.line(0))) !== '') throw malformedChunk();
    }
    if (remaining > 0) throw wrongLength();
    const end = await cursor.rest(trailerLengthMax);
    readTrailers(end, rules.trailers, rules.dialect, chain);
  } finally {
    await cursor.close();
  }
}

const wrongLength = (): Refusal =>
  fail(
    'IncompleteBody',
    'The content of the body is not as long as the decoded content length of the request says',
  );

const extension = ';chunk-signature=';

/** Parses `<hex length>`, with `;chunk-signature=<hex>` in signed bodies. Other extensions are accepted in unsigned bodies only. */
function parseSize(line: string, signed: boolean): number {
  const semicolon = line.indexOf(';');
  const size = semicolon < 0 ? line : line.slice(0, semicolon);
  if (!/^[0-9a-fA-F]{1,16}$/.test(size)) throw malformedChunk();
  if (signed && !line.startsWith(extension, semicolon < 0 ? line.length : semicolon)) throw malformedChunk();
  return Number.parseInt(size, 16);
}

const parseSignature = (line: string): string => line.slice(line.indexOf(';') + extension.length);

/** The chain of signatures: each covers its chunk and the signature before it. */
class Chain implements TrailerVerifier {
  readonly #hasher: Hasher;
  readonly #dialect: Dialect;
  readonly #chain: ChunkChain;
  readonly #emptyHash: string;
  #previous: string;

  constructor({ hasher, dialect }: ChunkRules, chain: ChunkChain) {
    this.#hasher = hasher;
    this.#dialect = dialect;
    this.#chain = chain;
    this.#emptyHash = hasher.sha256Hex('');
    this.#previous = chain.signature;
  }

  verify(signature: string, contentHash: string): void {
    this.#check(signature, `${this.#dialect.chunkAlgorithm}\n`, `${this.#emptyHash}\n${contentHash}`);
  }

  verifyTrailers(signature: string, trailers: string): void {
    this.#check(signature, `${this.#dialect.trailerAlgorithm}\n`, this.#hasher.sha256Hex(trailers));
  }

  #check(signature: string, algorithm: string, hashes: string): void {
    const { key, timestamp, scope, accessKey } = this.#chain;
    const stringToSign = `${algorithm}${timestamp}\n${scope}\n${this.#previous}\n${hashes}`;
    if (!equalsHex(this.#hasher.hmacSha256(key, stringToSign), signature))
      throw mismatch({ accessKey, signature, stringToSign });
    this.#previous = signature;
  }
}

// The part after the last chunk of a body: trailing headers, their signature, the end.

interface TrailerRules {
  /** Lower-case names that must be sent; any other name is refused. */
  readonly announced: readonly string[];
  /** Receives the trailing headers. */
  readonly received: Map<string, string>;
}

/** Verifies the signature of trailing headers, each given as `name:value\n`. @throws SignatureDoesNotMatch */
interface TrailerVerifier {
  verifyTrailers(signature: string, trailers: string): void;
}

const ascii = new TextDecoder('latin1');

/**
 * Lines end with CRLF. minio-go ends a trailer with LF and puts an empty line before the signature, so line
 * feeds count and empty lines do not; the end itself is one empty line, or the body is torn.
 */
function readTrailers(
  end: Uint8Array,
  rules: TrailerRules | undefined,
  dialect: Dialect,
  chain: TrailerVerifier | undefined,
): void {
  const text = ascii.decode(end);
  if (rules === undefined) {
    if (text === '\r\n') return;
    throw '\r\n'.startsWith(text) ? fail('IncompleteBody') : malformedChunk();
  }
  if (text !== '\r\n' && !text.endsWith('\r\n\r\n')) throw fail('IncompleteBody');
  const lines = text.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  const signatureName = `${dialect.headerPrefix}trailer-signature`;
  let signed = '';
  let signature: string | undefined;
  for (const line of lines) {
    if (line === '') continue;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase();
    const value = line.slice(colon + 1).trim();
    // The signature covers the lines before it, so no line may follow.
    if (name === '' || signature !== undefined || !isText(line)) throw malformedTrailer(line);
    if (chain !== undefined && name === signatureName) {
      signature = value;
      continue;
    }
    if (!rules.announced.includes(name) || rules.received.has(name)) throw malformedTrailer(line);
    rules.received.set(name, value);
    signed += `${name}:${value}\n`;
  }
  if (rules.received.size < rules.announced.length)
    throw fail('MalformedTrailerError', 'A trailing header that was announced did not come');
  if (chain === undefined) return;
  if (signature === undefined)
    throw fail('MalformedTrailerError', `The trailing headers end without ${signatureName}`);
  chain.verifyTrailers(signature, signed);
}

/** Checksums and signatures are ASCII; a control character would vanish in trimming. */
function isText(line: string): boolean {
  for (let i = 0; i < line.length; i++) {
    const code = line.charCodeAt(i);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

const malformedTrailer = (line: string) =>
  fail(
    'MalformedTrailerError',
    `The trailing header "${line.slice(0, 100)}" is malformed, repeated or was not announced`,
  );

// Reads framed text and content from a body that arrives in arbitrary pieces, without copying the content.

const nothing = new Uint8Array();
const carriageReturn = 13;
const lineFeed = 10;

class BodyCursor {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = nothing;
  #at = 0;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#source = body[Symbol.asyncIterator]();
  }

  /** Whether bytes are buffered. */
  get hasBytes(): boolean {
    return this.#at < this.#piece.length;
  }

  /** Waits for bytes; false at the end of the body. Call it only when no bytes are buffered. */
  async fill(): Promise<boolean> {
    for (;;) {
      const { done, value } = await this.#source.next();
      if (done === true) return false;
      if (value.length === 0) continue;
      this.#piece = value;
      this.#at = 0;
      return true;
    }
  }

  /** A view of up to `limit` of the buffered bytes. */
  take(limit: number): Uint8Array {
    const from = this.#at;
    this.#at = Math.min(this.#piece.length, from + limit);
    return this.#piece.subarray(from, this.#at);
  }

  /** The next line, as `line` returns it, if all of it is buffered and well-formed; undefined otherwise. */
  lineNow(limit: number): string | undefined {
    const from = this.#at;
    const end = this.#piece.indexOf(lineFeed, from) - 1;
    if (end < from || end - from > limit || this.#piece[end] !== carriageReturn) return undefined;
    for (let at = from; at < end; at++) {
      const code = this.#piece[at] as number;
      if (code > 0x7e || code === carriageReturn) return undefined;
    }
    this.#at = end + 2;
    return ascii.decode(this.#piece.subarray(from, end));
  }

  /** A line without its CRLF, as ASCII; one longer than `limit`, or broken in any other way, is refused. */
  async line(limit: number): Promise<string> {
    let text = '';
    for (let previous = 0; ; ) {
      if (!this.hasBytes && !(await this.fill())) throw fail('IncompleteBody');
      const code = this.#piece[this.#at++] as number;
      if (code === lineFeed && previous === carriageReturn) return text.slice(0, -1);
      if (code === lineFeed || previous === carriageReturn || code > 0x7e || text.length > limit)
        throw malformedChunk();
      text += String.fromCharCode(code);
      previous = code;
    }
  }

  /** Everything up to the end of the body, refused when it is more than `limit`. */
  async rest(limit: number): Promise<Uint8Array> {
    let all = nothing;
    while (this.hasBytes || (await this.fill())) {
      const piece = this.take(limit + 1);
      if (all.length + piece.length > limit) throw malformedChunk();
      const longer = new Uint8Array(all.length + piece.length);
      longer.set(all);
      longer.set(piece, all.length);
      all = longer;
    }
    return all;
  }

  /** Releases the source when the body is abandoned before its end. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}

const malformedChunk = () =>
  fail('InvalidRequest', 'The chunks of the body are not framed as its declaration says');

// Joins the arrays of a large body to fewer, longer ones: hashing, the layers of a stream and the store cost a call for each array, and a
// store that wants long pieces would copy them anyway.

/** Whether a body is joined. One of less than a quarter of a piece mostly arrives as one array, which is passed on as it is. */
export const isJoined = ({ pieceBytes }: PieceRing, length: number): boolean => length > pieceBytes / 4;

const noBytes = new Uint8Array();

/** The piece that is being filled. Pieces are full, but for the last one. */
class Joiner {
  readonly #ring: PieceRing;
  /** Bytes of the body after the present piece. */
  #left: number;
  /** Lent when its first byte arrives, because until then the reader may use the array that becomes free. */
  #piece: Uint8Array | undefined;
  #length = 0;
  #filled = 0;
  /** Where the bytes begin that `takeAdded` has not returned. */
  #taken = 0;

  /** @param length bytes of the body */
  constructor(ring: PieceRing, length: number) {
    this.#ring = ring;
    this.#left = length;
    this.#begin();
  }

  /** Bytes that the present piece still takes; 0 when it is complete. */
  get free(): number {
    return this.#length - this.#filled;
  }

  /** @param arrived at most `free` bytes */
  add(arrived: Uint8Array): void {
    this.#piece ??= this.#ring.next(this.#length);
    this.#piece.set(arrived, this.#filled);
    this.#filled += arrived.length;
  }

  /** What was added to the present piece since the last call. */
  takeAdded(): Uint8Array {
    const from = this.#taken;
    this.#taken = this.#filled;
    return this.#piece?.subarray(from, this.#filled) ?? noBytes;
  }

  /** The complete piece, valid until the piece after the next one is begun. */
  take(): Uint8Array {
    const piece = this.#piece ?? noBytes;
    this.#begin();
    return piece;
  }

  #begin(): void {
    this.#length = Math.min(this.#left, this.#ring.pieceBytes);
    this.#left -= this.#length;
    this.#piece = undefined;
    this.#filled = 0;
    this.#taken = 0;
  }
}

/** @param length bytes of the body, which `body` does not exceed */
export async function* joinPieces(
  body: AsyncIterable<Uint8Array>,
  ring: PieceRing,
  length: number,
): AsyncGenerator<Uint8Array> {
  const joiner = new Joiner(ring, length);
  for await (const arrived of body) {
    for (let at = 0; at < arrived.length; ) {
      const part = arrived.subarray(at, at + joiner.free);
      joiner.add(part);
      at += part.length;
      if (joiner.free === 0) yield joiner.take();
    }
  }
}
