/** A data cluster that does not answer: 503 with Retry-After, never a lost object or a wrong answer. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { ChunkDamaged, DataUnavailable, type ObjectBytes } from '../../src/ports/object-bytes.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway, operator } from '../support/gateway.ts';

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

/** A gateway with metrics, and with calls of its data backend replaced. */
const openMeasured = (replace: (bytes: ObjectBytes) => Partial<ObjectBytes>) =>
  openGateway({
    telemetry: { ...createMetricRegistry({ version: '1', runtime: 'test' }), log: () => {} },
    wrap: (context) => ({ ...context, bytes: faulty(context.bytes, replace(context.bytes)) }),
  });

test.each([
  ['a cluster that does not answer', 503, 'ServiceUnavailable', new DataUnavailable('no answer')],
  ['a damaged block', 500, 'InternalError', new ChunkDamaged('block 0 does not match its checksum')],
] as const)(
  'a GET above 64 KiB that fails at its first piece, for %s, is refused and counted with the status that the client gets',
  async (_, status, error, cause) => {
    let isFailing = false;
    await using world = await openMeasured((bytes) => ({
      read: (extent, range, signal) => ({
        async *[Symbol.asyncIterator]() {
          if (isFailing) throw cause;
          yield* bytes.read(extent, range, signal);
        },
      }),
    }));
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x'.repeat(200_000) });
    isFailing = true;
    for (const headers of [{}, { range: 'bytes=10-99999' }]) {
      const refused = await world.client.get('/bucket/key', { headers });
      expect([refused.status, refused.code]).toEqual([status, error]);
    }
    const { text } = await world.as({ credential: operator }).get('/metrics');
    expect(text).toContain(`svc_http_operations_total{operation="GetObject",code="${status}"} 2\n`);
    expect(text).not.toMatch(/svc_http_operations_total\{operation="GetObject",code="20/);
    expect(text).toContain(`svc_http_refusals_total{error="${error}"} 2\n`);

    isFailing = false;
    expect((await world.client.get('/bucket/key')).text).toHaveLength(200_000);
  },
);

test('probes that answer 503, and scrapes, are no requests of clients: they use none of the error budget', async () => {
  await using world = await openMeasured(() => ({
    write: async () => {
      throw new DataUnavailable('no answer');
    },
  }));
  const admin = world.as({ credential: operator });
  expect((await world.anonymous.get('/readyz')).status).toBe(503);
  expect((await admin.get('/readyz')).status).toBe(503);
  expect((await world.anonymous.head('/readyz')).status).toBe(503);
  expect((await world.anonymous.get('/healthz')).status).toBe(200);
  expect((await world.anonymous.get('/metrics')).status).toBe(403);
  const countOf = async (code: number): Promise<string | undefined> =>
    (await admin.get('/metrics')).text.match(`svc_http_requests_total{code="${code}"} (.*)`)?.[1];
  expect([await countOf(503), await countOf(200), await countOf(403)]).toEqual(['0', '0', undefined]);
  expect((await admin.get('/metrics')).text).toContain(
    'svc_http_operations_total{operation="area:readyz",code="503"} 3\n',
  );

  // A client gets its 503 as before, also in a bucket with the name of a probe.
  await world.client.put('/bucket');
  expect((await world.client.put('/bucket/readyz', { body: 'lost' })).status).toBe(503);
  expect([await countOf(503), await countOf(200)]).toEqual(['1', '1']);
});
