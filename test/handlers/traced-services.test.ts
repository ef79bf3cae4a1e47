/** What other services get with the requests of a trace: `traceparent` names the span of the call. */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { startFaultyUpstream } from '../support/faulty-upstream.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { link, openSite, run, settled, until } from '../support/replication-sites.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';

let upstream: UpstreamServer;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream[Symbol.asyncDispose]());

test('requests to an upstream carry the span of the write, read or upload that sends them', async () => {
  const { causes, wrap } = exportingTracer();
  await using proxy = await startFaultyUpstream(upstream.url);
  const world = await openGateway({
    wrap,
    settings: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify([{ id: 'default', bucket: await upstream.bucket() }]),
      SVC_UPSTREAM_ENDPOINT: proxy.url,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
    },
  });
  onTestFinished(() => world.close());
  await world.client.put('/bucket');
  proxy.seen();
  const sent = (method: string) =>
    proxy
      .seen()
      .filter((asked) => asked.method === method)
      .map(({ headers }) => String(headers['traceparent']));

  // What clients add to their trace stays with us: it may name anything.
  const more = { tracestate: 'vendor=secret', baggage: 'user=alice' };
  await world.client.put('/bucket/key', { body: 'hello', headers: more });
  const passedOn = proxy.seen();
  expect(passedOn.flatMap(({ headers }) => Object.keys(headers).filter((name) => name in more))).toEqual([]);
  const puts = passedOn
    .filter(({ method }) => method === 'PUT')
    .map(({ headers }) => String(headers['traceparent']));
  expect(puts).toHaveLength(1);
  expect(causes('data.write')).toEqual(puts);

  expect((await world.client.get('/bucket/key')).text).toBe('hello');
  const gets = sent('GET');
  expect(gets.length).toBeGreaterThan(0);
  expect(causes('data.read')).toEqual(expect.arrayContaining(gets));

  await world.client.post('/bucket/large?uploads');
  expect(causes('data.beginUpload')).toEqual(sent('POST'));
});

test('requests to a replication peer carry the span of the delivery', async () => {
  const { causes, wrap } = exportingTracer();
  const [near, far] = [await openSite({ wrap }), await openSite()];
  const sent: string[] = [];
  far.instead = (method, target, headers) => {
    if (method === 'PUT' && /[?&]replica=/.test(target)) sent.push(headers.get('traceparent') ?? '');
    return undefined;
  };
  await link(near, far);
  run(near);
  await near.world.client.put('/bucket/key', { body: 'hello' });
  await settled(near, '/bucket/key', 'COMPLETED');
  expect(sent).toHaveLength(1);
  await vi.waitFor(() => expect(causes('peer.PUT')).toEqual(expect.arrayContaining(sent)), until);
});
