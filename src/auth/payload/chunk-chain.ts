/**
 * Decodes bodies in chunks and verifies the signature of each, so that a truncated or forged body fails before anything is committed.
 * Content is passed on as it arrives, before the signature of its chunk is known: it is valid only once the generator has ended.
 */

import { equalsHex, toHex } from '../../base/text/hex.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import type { Dialect } from '../../protocol/dialect.ts';
import type { PieceRing } from '../../protocol/request/wire.ts';
import { mismatch } from '../signature/mismatch.ts';
import { BodyCursor, malformedChunk } from './body-cursor.ts';
import { isJoined, Joiner } from './joined-pieces.ts';
import { readTrailers, type TrailerRules, type TrailerVerifier } from './trailers.ts';

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
