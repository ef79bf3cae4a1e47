/** The body as its sender declared it: hashed, unsigned, or in chunks. */
import { fail } from '../base/errors.ts';
import { tap } from '../base/tap.ts';
import { equalsHex, toHex } from '../base/text/hex.ts';
import type { SignedHash } from '../domain/content/digests.ts';
import type { Hash, Hasher } from '../ports/cryptography.ts';
import { type Dialect, dialects, streamingUnsignedTrailer, unsignedPayload } from '../protocol/dialect.ts';
import type { Incoming, Wire } from '../protocol/wire.ts';
import { type ChunkChain, decodeChunks, isJoined, joinPieces } from './chunk-chain.ts';
import type { Payload } from './identity.ts';

interface Declaration {
  readonly hasher: Hasher;
  readonly incoming: Incoming;
  readonly dialect: Dialect;
  /** The value of the content-sha256 header as it was signed; undefined uses the header itself. */
  readonly declared: string | undefined;
  /** Verifies signed chunks; undefined when the request can have no signed chunks. */
  readonly chain?: ChunkChain | undefined;
}

const emptySha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
/** The public API has checksum trailers only, and clients send one. */
const trailersMax = 8;
const noTrailers: ReadonlyMap<string, string> = new Map();

/** An anonymous body: declared by either dialect's header, or not at all; never in signed chunks. */
export function anonymousPayload(hasher: Hasher, incoming: Incoming): Payload {
  const declaring = dialects.filter(({ headerPrefix }) =>
    incoming.wire.headers.has(`${headerPrefix}content-sha256`),
  );
  if (declaring.length > 1) throw fail('InvalidRequest', 'The payload was declared in two ways');
  const dialect = declaring[0] ?? (dialects[0] as Dialect);
  return signedPayload({ hasher, incoming, dialect, declared: undefined });
}

export function signedPayload(declaration: Declaration): Payload {
  const { incoming, dialect, chain } = declaration;
  const { wire } = incoming;
  const hashName = `${dialect.headerPrefix}content-sha256`;
  const declared = declaration.declared ?? wire.headers.get(hashName) ?? unsignedPayload;
  switch (declared) {
    case unsignedPayload:
      return plain(declaration, undefined);
    case streamingUnsignedTrailer:
      return chunked(declaration, { chain: undefined, trailer: true });
    case dialect.streamingSigned:
    case dialect.streamingSignedTrailer:
      if (chain === undefined)
        throw fail('InvalidRequest', `${declared} needs a signature in the Authorization header`);
      return chunked(declaration, { chain, trailer: declared === dialect.streamingSignedTrailer });
    default:
      if (isSha256(declared)) return plain(declaration, declared.toLowerCase());
  }
  throw fail('InvalidArgument', {
    message: `${hashName} must be ${unsignedPayload}, ${streamingUnsignedTrailer}, ${dialect.streamingSigned}, ${dialect.streamingSignedTrailer} or a valid sha256 value.`,
    elements: { ArgumentName: hashName, ArgumentValue: declared.slice(0, 200) },
  });
}

const isSha256 = (text: string): boolean => text.length === 64 && /^[0-9a-fA-F]+$/.test(text);

function plain({ hasher, incoming, dialect }: Declaration, sha256: string | undefined): Payload {
  const { wire, body } = incoming;
  if (wire.headers.has(`${dialect.headerPrefix}trailer`))
    throw fail('InvalidRequest', 'Trailing headers were announced for a body that cannot carry any');
  const declaredLength = readLength(wire, 'content-length');
  if (body === undefined) {
    if (declaredLength !== undefined && declaredLength !== 0) throw fail('IncompleteBody');
    if (sha256 !== undefined && sha256 !== emptySha256) throw wrongHash(sha256, emptySha256);
    const hash = sha256 === undefined ? undefined : { hex: sha256, delegate() {} };
    return { length: 0, content: nothing, trailers: noTrailers, announced: [], sha256: hash };
  }
  const arriving = inPieces(incoming, counted(body, declaredLength), declaredLength);
  if (sha256 === undefined)
    return { length: declaredLength, content: arriving, trailers: noTrailers, announced: [], sha256 };
  const { content, hash } = hashed(hasher, arriving, sha256);
  return { length: declaredLength, content, trailers: noTrailers, announced: [], sha256: hash };
}

const nothing: AsyncIterable<Uint8Array> = { [Symbol.asyncIterator]: () => nothingLeft };
const nothingLeft: AsyncIterator<Uint8Array> = { next: async () => ({ done: true, value: undefined }) };

/** Compares the body with its Content-Length, because some runtimes do not. */
function counted(
  body: AsyncIterable<Uint8Array>,
  declaredLength: number | undefined,
): AsyncIterable<Uint8Array> {
  if (declaredLength === undefined) return body;
  let received = 0;
  return tap(body, {
    see(piece) {
      received += piece.length;
      if (received > declaredLength) throw fail('IncompleteBody');
    },
    end() {
      if (received < declaredLength) throw fail('IncompleteBody');
    },
  });
}

/** Joins a large body whose length is known, which `arriving` does not exceed. */
function inPieces(
  { pieces }: Incoming,
  arriving: AsyncIterable<Uint8Array>,
  length: number | undefined,
): AsyncIterable<Uint8Array> {
  if (pieces === undefined || length === undefined || !isJoined(pieces, length)) return arriving;
  return joinPieces(arriving, pieces, length);
}

function hashed(
  hasher: Hasher,
  body: AsyncIterable<Uint8Array>,
  expected: string,
): { readonly content: AsyncIterable<Uint8Array>; readonly hash: SignedHash } {
  let hash: Hash | undefined = hasher.create('sha256');
  const content = tap(body, {
    see: (piece) => hash?.update(piece),
    end() {
      const computed = hash?.digest();
      if (computed !== undefined && !equalsHex(computed, expected))
        throw wrongHash(expected, toHex(computed));
    },
  });
  const delegate = (): void => {
    hash = undefined;
  };
  return { content, hash: { hex: expected, delegate } };
}

const wrongHash = (client: string, computed: string) =>
  fail('XAmzContentSHA256Mismatch', {
    elements: { ClientComputedContentSHA256: client, S3ComputedContentSHA256: computed },
  });

function chunked(
  { hasher, incoming, dialect }: Declaration,
  { chain, trailer }: { chain: ChunkChain | undefined; trailer: boolean },
): Payload {
  const { wire, body } = incoming;
  const length = readLength(wire, `${dialect.headerPrefix}decoded-content-length`);
  if (length === undefined)
    throw fail('MissingContentLength', {
      message: `A body in chunks needs the header ${dialect.headerPrefix}decoded-content-length`,
    });
  const declaredLength = readLength(wire, 'content-length');
  // The framing only adds bytes, so a shorter body cannot contain the declared content.
  if (declaredLength !== undefined && declaredLength < length) throw fail('IncompleteBody');
  const announced = announcedTrailers(wire, dialect);
  if (announced.length > 0 && !trailer)
    throw fail('InvalidRequest', 'Trailing headers were announced for a body that cannot carry any');
  const trailers = new Map<string, string>();
  const content = decodeChunks(counted(body ?? nothing, declaredLength), {
    hasher,
    dialect,
    length,
    pieces: incoming.pieces,
    chain,
    trailers: trailer ? { announced, received: trailers } : undefined,
  });
  return { length, content, trailers, announced, sha256: undefined };
}

function readLength(wire: Wire, name: string): number | undefined {
  const text = wire.headers.get(name)?.trim();
  if (text === undefined) return undefined;
  if (!/^\d{1,20}$/.test(text))
    throw fail('InvalidArgument', {
      message: `${name} must be a number of bytes`,
      elements: { ArgumentName: name, ArgumentValue: text.slice(0, 200) },
    });
  const length = Number(text);
  if (!Number.isSafeInteger(length)) throw fail('EntityTooLarge', { elements: { ProposedSize: text } });
  return length;
}

/** Only checksums are accepted: any other trailer would reach the handlers unchecked, because authorization precedes the body. */
function announcedTrailers(wire: Wire, dialect: Dialect): readonly string[] {
  const header = wire.headers.get(`${dialect.headerPrefix}trailer`);
  if (header === undefined) return [];
  const names = header
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  for (const [i, name] of names.entries()) {
    if (!name.startsWith(`${dialect.headerPrefix}checksum-`) || names.indexOf(name) !== i || i >= trailersMax)
      throw fail(
        'InvalidRequest',
        `The value specified in the ${dialect.headerPrefix}trailer header is not supported: "${name.slice(0, 200)}"`,
      );
    if (wire.headers.has(name))
      throw fail('InvalidRequest', `${name} was sent both as a header and as a trailer`);
  }
  return names;
}
