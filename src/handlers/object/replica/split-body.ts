/** The body of ReplicateObject: a document, then the content of the version. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import { replicaDocumentMax } from '../../../metadata/objects/replica.ts';
import { header } from '../../common/own-headers.ts';

export interface SplitBody {
  readonly document: Uint8Array;
  readonly source: AsyncIterable<Uint8Array>;
  /** Of the content; undefined when the request does not state it. */
  readonly length: number | undefined;
}

const lengthHeader = 'replica-document-length';

function readDocumentLength(request: AuthorizedInBucket): number {
  const raw = header(request, lengthHeader) ?? '';
  const length = /^\d{1,7}$/.test(raw) ? Number(raw) : 0;
  if (length > 0 && length <= replicaDocumentMax) return length;
  throw fail('InvalidArgument', {
    message: `${lengthHeader} must be the length of the document in bytes, 1 to ${replicaDocumentMax}.`,
    elements: { ArgumentName: lengthHeader, ArgumentValue: raw.slice(0, 64) },
  });
}

/** Reads the document; the content stays a stream. @throws InvalidArgument, IncompleteBody, SlowDown */
export async function splitBody(
  { bodyMemory }: Pick<Context, 'bodyMemory'>,
  request: AuthorizedInBucket,
): Promise<SplitBody> {
  const size = readDocumentLength(request);
  const { content, length } = request.payload;
  if (length !== undefined && length < size) throw fail('IncompleteBody');
  if (!bodyMemory.take(size)) throw fail('SlowDown', 'Too many large requests are being read.');
  request.heldBytes += size;
  const pieces = content[Symbol.asyncIterator]();
  const document = new Uint8Array(size);
  let rest: Uint8Array = document.subarray(0, 0);
  for (let filled = 0; filled < size; ) {
    const { done, value } = await pieces.next();
    if (done) throw fail('IncompleteBody');
    const part = value.subarray(0, size - filled);
    document.set(part, filled);
    filled += part.length;
    rest = value.subarray(part.length);
  }
  return {
    document,
    source: resumed(rest, pieces),
    length: length === undefined ? undefined : length - size,
  };
}

/** The remainder of a piece, then all others. */
async function* resumed(
  rest: Uint8Array,
  pieces: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    if (rest.length > 0) yield rest;
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return;
      yield value;
    }
  } finally {
    await pieces.return?.();
  }
}
