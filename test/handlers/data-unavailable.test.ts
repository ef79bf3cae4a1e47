/** A data cluster that does not answer: 503 with Retry-After, never a lost object or a wrong answer. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { DataUnavailable } from '../../src/ports/object-bytes.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';

test('while the cluster is unavailable reads and writes answer 503 with Retry-After, and work again when it is back', async () => {
  let isAway = false;
  const check = () => {
    if (isAway) throw new DataUnavailable('cluster default does not answer');
  };
  const wrap = (context: Context): Context => {
    const { bytes } = context;
    const write: typeof bytes.write = async (source, options) => {
      check();
      return bytes.write(source, options);
    };
    const read: typeof bytes.read = (extent, range, signal) => ({
      async *[Symbol.asyncIterator]() {
        check();
        yield* bytes.read(extent, range, signal);
      },
    });
    return { ...context, bytes: faulty(bytes, { write, read }) };
  };
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'kept' });

  isAway = true;
  for (const answer of [
    await world.client.get('/bucket/key'),
    await world.client.put('/bucket/key', { body: 'lost' }),
  ]) {
    expect(answer.status).toBe(503);
    expect(Number(answer.header('retry-after'))).toBeGreaterThan(0);
    expect(answer.code).toBe('ServiceUnavailable');
  }
  expect((await world.client.head('/bucket/key')).status).toBe(200);

  isAway = false;
  expect((await world.client.get('/bucket/key')).text).toBe('kept');
});
