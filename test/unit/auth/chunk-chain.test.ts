/** The chunk decoder: any split of the input, and any damage to it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeChunks } from '../../../src/auth/chunk-chain.ts';
import { nodeHasher } from '../../../src/backends/crypto/node.ts';
import { portableHasher } from '../../../src/backends/crypto/portable.ts';
import { Refusal } from '../../../src/base/errors.ts';
import { amz } from '../../../src/protocol/dialect.ts';
import type { PieceRing } from '../../../src/protocol/wire.ts';
import type { SignedRequest } from '../../support/sign.ts';
import { authenticateOnly, inPieces, signAs } from '../../support/sign-check.ts';

type Mode = 'streaming' | 'streaming-trailer' | 'unsigned-trailer';
const modes: readonly Mode[] = ['streaming', 'streaming-trailer', 'unsigned-trailer'];

const request = (mode: Mode, body: Uint8Array, chunkSize: number): SignedRequest =>
  signAs().request({
    method: 'PUT',
    path: '/b/k',
    body,
    chunkSize,
    payload: mode,
    ...(mode === 'streaming' ? {} : { trailers: { '*-checksum-crc32': 'AAAAAA==' } }),
  });

/** Reads the content as it arrives, and joined to pieces in two arrays that alternate, which is the shortest validity that a ring gives. */
async function read(signed: SignedRequest, source: () => AsyncIterable<Uint8Array>): Promise<Buffer> {
  const outcomes = [readOnce(signed, source()), readOnce(signed, source(), ringOf(100))];
  const [asArrived, joined] = await Promise.allSettled(outcomes);
  expect(joined).toEqual(asArrived);
  if (asArrived?.status === 'fulfilled') return asArrived.value;
  throw asArrived?.reason;
}

async function readOnce(
  signed: SignedRequest,
  source: AsyncIterable<Uint8Array>,
  ring?: PieceRing,
): Promise<Buffer> {
  const { payload } = await authenticateOnly(signed, { pieces: ring }, source);
  const pieces: Uint8Array[] = [];
  for await (const piece of payload.content) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

function ringOf(pieceBytes: number): PieceRing {
  const arrays = [new Uint8Array(pieceBytes), new Uint8Array(pieceBytes)];
  let turn = 0;
  return {
    pieceBytes,
    next(length) {
      turn = 1 - turn;
      return (arrays[turn] as Uint8Array).fill(0xee).subarray(0, length);
    },
  };
}

/** Cuts the body at the given places, which may be in any order and may repeat, so that some pieces are empty. */
async function* cutAt(body: Uint8Array, places: readonly number[]): AsyncGenerator<Uint8Array> {
  const sorted = [...places.map((place) => place % (body.length + 1)), body.length].toSorted((a, b) => a - b);
  let from = 0;
  for (const to of sorted) {
    yield body.subarray(from, to);
    from = to;
  }
}

const bodies = fc.uint8Array({ maxLength: 2000 });
const chunkSizes = fc.integer({ min: 1, max: 700 });

describe.each(modes)('%s', (mode) => {
  test('decodes to the same content however the body is split', async () => {
    await fc.assert(
      fc.asyncProperty(
        bodies,
        chunkSizes,
        fc.array(fc.nat(), { maxLength: 40 }),
        async (body, size, places) => {
          const signed = request(mode, body, size);
          const decoded = await read(signed, () => cutAt(signed.body as Uint8Array, places));
          expect(decoded.equals(body)).toBe(true);
        },
      ),
    );
  });

  test('passes content on as views of what arrived', async () => {
    const signed = request(mode, new Uint8Array(1000).fill(7), 100);
    const source = signed.body as Uint8Array;
    const { payload } = await authenticateOnly(signed, {}, inPieces(source, 64));
    for await (const piece of payload.content) expect(piece.buffer).toBe(source.buffer);
  });
});

describe.each(['streaming', 'streaming-trailer'] as const)('%s', (mode) => {
  test('refuses any flipped bit', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 300 }),
        fc.integer({ min: 1, max: 100 }),
        fc.nat(),
        fc.integer({ min: 0, max: 7 }),
        async (body, size, place, bit) => {
          const signed = request(mode, body, size);
          const damaged = Uint8Array.from(signed.body as Uint8Array);
          const at = place % damaged.length;
          damaged[at] = (damaged[at] as number) ^ (1 << bit);
          fc.pre(!meansTheSame(signed.body as Uint8Array, damaged, at));
          await expect(read(signed, () => inPieces(damaged, 50))).rejects.toBeInstanceOf(Refusal);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('refuses every flipped bit of one body', async () => {
    const signed = request(mode, new Uint8Array(25).fill(65), 10);
    const whole = signed.body as Uint8Array;
    for (let at = 0; at < whole.length; at++)
      for (let bit = 0; bit < 8; bit++) {
        const damaged = Uint8Array.from(whole);
        damaged[at] = (damaged[at] as number) ^ (1 << bit);
        if (meansTheSame(whole, damaged, at)) continue;
        const outcome = await read(signed, () => inPieces(damaged, 64)).catch((error: unknown) => error);
        expect(outcome, `bit ${bit} of byte ${at}`).toBeInstanceOf(Refusal);
      }
  });
});

/** Bit 5 changes a letter's case, which does not matter in a hexadecimal size or in a trailer's name. */
function meansTheSame(before: Uint8Array, after: Uint8Array, at: number): boolean {
  const isLetter = /[a-z]/i.test(String.fromCharCode(before[at] as number));
  const lower = (byte: number | undefined) => String.fromCharCode(byte as number).toLowerCase();
  if (!isLetter || lower(before[at]) !== lower(after[at])) return false;
  const lineEnd = Buffer.from(before.subarray(0, at)).lastIndexOf('\r\n');
  const lineStart = lineEnd < 0 ? 0 : lineEnd + 2;
  const line = Buffer.from(before.subarray(lineStart)).toString('latin1');
  const size = /^[0-9a-f]+;chunk-signature=/.exec(line);
  const name = /^x-amz-[a-z0-9-]+:/.exec(line);
  const offset = at - lineStart;
  const inSize = size !== null && offset < line.indexOf(';');
  return inSize || (name !== null && offset < line.indexOf(':'));
}

test('both hashers decode alike', async () => {
  const signed = request('streaming', new Uint8Array(300).fill(1), 100);
  const signature = signed.headers.find(([name]) => name === 'authorization')?.[1].slice(-64) as string;
  for (const hasher of [nodeHasher(), portableHasher()]) {
    let key: Uint8Array = new TextEncoder().encode('AWS4alice/secret+key');
    for (const part of ['20261121', 'us-east-1', 's3', 'aws4_request']) key = hasher.hmacSha256(key, part);
    const chain = {
      key,
      accessKey: 'AKIDALICE',
      timestamp: '20261121T120000Z',
      scope: '20261121/us-east-1/s3/aws4_request',
      signature,
    };
    const source = inPieces(signed.body as Uint8Array, 11);
    let length = 0;
    const rules = { hasher, dialect: amz, length: 300, chain, trailers: undefined };
    for await (const piece of decodeChunks(source, rules)) length += piece.length;
    expect(length).toBe(300);
  }
});
