/** Reading a whole stream whose arrays are reused by their owner. */
import { expect, test } from 'vitest';
import { gather } from '../../src/base/concurrency.ts';
import { FormCursor } from '../../src/protocol/form-data.ts';

const text = 'every array of this stream is given back while it is read';

/** Yields Buffers as a socket does: their memory is reused when the next array but one is requested. */
async function* lentPieces() {
  const given: ArrayBuffer[] = [];
  for (let at = 0; at < text.length; at += 7) {
    const piece = Buffer.from(new TextEncoder().encode(text.slice(at, at + 7)).buffer);
    given.push(piece.buffer);
    if (given.length > 2) given.shift()?.transfer(0);
    yield piece;
  }
}

test('what is gathered of a body outlives its arrays', async () => {
  const tooLong = () => new Error('too long');
  expect(Buffer.from(await gather(lentPieces(), { max: 1000, tooLong })).toString()).toBe(text);
});

test('the fields of a form outlive the arrays of its body', async () => {
  const end = new TextEncoder().encode('\r\n--end');
  async function* body() {
    yield* lentPieces();
    yield end;
  }
  expect(Buffer.from(await new FormCursor(body(), 1000).read(end)).toString()).toBe(text);
});
