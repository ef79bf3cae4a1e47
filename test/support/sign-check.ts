/** Runs `authenticate` on requests of the test signer, and reads their content to the end. */

import { type AuthenticationOptions, authenticate } from '../../src/auth/authenticate.ts';
import type { Authenticated } from '../../src/auth/identity.ts';
import { staticCredentials } from '../../src/auth/session/credentials.ts';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { Refusal } from '../../src/base/errors.ts';
import { type Incoming, type PieceRing, Query, splitTarget, WireHeaders } from '../../src/protocol/wire.ts';
import { type SignedRequest, type SignerOptions, signer } from './sign.ts';

/** The default time of all requests in these tests. */
export const now = Date.UTC(2026, 10, 21, 12, 0, 0);

export const alice = {
  accessKey: 'AKIDALICE',
  secretKey: 'alice/secret+key',
  owner: 'account-alice',
  displayName: 'Alice',
  root: true,
  operator: false,
};

export const signAs = (options: Partial<SignerOptions> = {}) =>
  signer({
    accessKey: alice.accessKey,
    secretKey: alice.secretKey,
    host: 'storage.test:9000',
    now: () => now,
    ...options,
  });

export interface CheckOptions extends AuthenticationOptions {
  readonly at?: number;
  readonly region?: string;
  readonly regionStrict?: boolean;
  readonly sigV2Presign?: boolean;
  /** Splits the body into pieces of this size. */
  readonly pieceSize?: number;
  /** In which large bodies are joined. */
  readonly pieces?: PieceRing | undefined;
}

const credentials = staticCredentials([
  alice,
  {
    accessKey: 'AKIAIOSFODNN7EXAMPLE',
    secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    owner: 'account-example',
    displayName: 'Example',
    root: false,
    operator: false,
  },
]);
const hasher = nodeHasher();

export async function* inPieces(body: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
}

export function incomingOf(request: SignedRequest, body?: AsyncIterable<Uint8Array>): Incoming {
  const whole = request.body === undefined ? undefined : inPieces(request.body, Number.MAX_SAFE_INTEGER);
  return {
    wire: {
      method: request.method,
      target: request.target,
      headers: new WireHeaders(request.headers.flat()),
      remote: '127.0.0.1',
      secure: false,
    },
    body: body ?? whole,
    signal: new AbortController().signal,
  };
}

/** Authenticates without touching the body. */
export async function authenticateOnly(
  request: SignedRequest,
  options: CheckOptions = {},
  body?: AsyncIterable<Uint8Array>,
): Promise<Authenticated> {
  const { path, query } = splitTarget(request.target);
  const context = {
    caches: new Caches(),
    credentials,
    hasher,
    clock: { now: () => options.at ?? now },
    settings: {
      region: options.region ?? 'us-east-1',
      regionStrict: options.regionStrict ?? false,
      sigV2Presign: options.sigV2Presign ?? true,
    },
  };
  return authenticate(
    context,
    { ...incomingOf(request, body), pieces: options.pieces },
    { path, query: new Query(query) },
    options,
  );
}

export interface Checked extends Authenticated {
  readonly content: Uint8Array;
}

/** Authenticates and reads the content to its end, as a write would. */
export async function check(request: SignedRequest, options: CheckOptions = {}): Promise<Checked> {
  const body =
    options.pieceSize === undefined || request.body === undefined
      ? undefined
      : inPieces(request.body, options.pieceSize);
  const authenticated = await authenticateOnly(request, options, body);
  const pieces: Uint8Array[] = [];
  for await (const piece of authenticated.payload.content) pieces.push(piece);
  return { ...authenticated, content: Buffer.concat(pieces) };
}

/** The refusal of a request; fails the test when the request is accepted. */
export async function refusal(request: SignedRequest, options: CheckOptions = {}): Promise<Refusal> {
  let identity: unknown;
  try {
    identity = (await check(request, options)).identity;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error(`the request was let through as ${JSON.stringify(identity)}`);
}

export const refusalCode = async (request: SignedRequest, options: CheckOptions = {}): Promise<string> =>
  (await refusal(request, options)).code;
