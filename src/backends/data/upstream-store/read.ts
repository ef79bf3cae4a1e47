/** Reading a range: passed through as one, and taken up where it broke off. */
import { type ByteRange, ChunkDamaged, ChunkMissing, type Extent } from '../../../ports/object-bytes.ts';
import { LentArrays } from '../chunked/write-chunks.ts';
import { isGone, UpstreamError } from './answers.ts';
import { Attempts, type UpstreamReply } from './client.ts';
import type { Connection } from './connection.ts';
import { toKey } from './names.ts';

/** Ranges up to this size are returned as one array. */
const wholeMax = 64 * 1024;
/** A reader may use the last array while it requests the next (`ObjectBytes.read`). */
const lentMax = 2;

export async function* readRange(
  connection: Connection,
  extent: Extent,
  { range, signal }: { readonly range: ByteRange; readonly signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array> {
  const end = Math.min(range.end, extent.size - 1);
  const attempts = new Attempts(connection, signal);
  const lent = new LentArrays(lentMax);
  for (let at = range.start; at <= end; ) {
    try {
      for await (const piece of readPieces(connection, extent, { range: { start: at, end }, signal })) {
        at += piece.length;
        attempts.progress();
        lent.lend(piece);
        yield piece;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (isGone(cause, 'NoSuchKey'))
        throw new ChunkMissing(`extent ${extent.id} is not upstream`, { cause });
      if (extent.foreign !== undefined && cause instanceof UpstreamError && cause.status === 412)
        throw new ChunkDamaged(
          `upstream object ${extent.foreign.key} changed since it was imported with ETag ${extent.foreign.etag}`,
          { cause },
        );
      await attempts.failed(cause, { isRepeatable: true });
    }
  }
}

async function* readPieces(
  { client, prefix }: Connection,
  extent: Extent,
  { range, signal }: { readonly range: ByteRange; readonly signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array> {
  const { start, end } = range;
  const reply = await client.send({
    method: 'GET',
    key: extent.foreign?.key ?? toKey(prefix, extent.id),
    headers: {
      range: `bytes=${start}-${end}`,
      ...(extent.foreign === undefined ? {} : { 'if-match': `"${extent.foreign.etag}"` }),
    },
    signal,
  });
  try {
    check(reply, extent, range);
    const requested = end - start + 1;
    let got = 0;
    const whole = requested <= wholeMax ? new Uint8Array(requested) : undefined;
    for await (const piece of pieces(reply)) {
      if (got + piece.length > requested)
        throw new UpstreamError(`extent ${extent.id} came longer than it is`);
      whole?.set(piece, got);
      got += piece.length;
      if (whole === undefined) yield piece;
    }
    if (got < requested)
      throw new UpstreamError(`extent ${extent.id} broke off ${requested - got} bytes early`);
    if (whole !== undefined) yield whole;
  } finally {
    reply.body.destroy();
  }
}

async function* pieces({ body }: UpstreamReply): AsyncGenerator<Uint8Array> {
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw new UpstreamError('an upstream answer broke off', { cause });
  }
}

function check({ status, headers }: UpstreamReply, extent: Extent, { start, end }: ByteRange): void {
  const { size } = extent;
  const isWhole =
    status === 200 && start === 0 && end === size - 1 && headers['content-length'] === String(size);
  if (isWhole || headers['content-range'] === `bytes ${start}-${end}/${size}`) return;
  throw new ChunkDamaged(
    `extent ${extent.id} has ${size} bytes, but upstream ${headers['content-range'] ?? headers['content-length']}`,
  );
}
