/** The `upstream-store` backend against the contract of object bytes, with this gateway as its upstream. */
import { afterAll, beforeAll } from 'vitest';
import { openUpstreams, startUpstream, type UpstreamServer, upstreamAt } from '../support/upstream.ts';
import { objectBytesContract } from './object-bytes.ts';

let upstream: UpstreamServer;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream[Symbol.asyncDispose]());

objectBytesContract('upstream-store over this gateway', async () => {
  const [one, other] = [await upstream.bucket(), await upstream.bucket()];
  const bytes = openUpstreams(
    upstreamAt(upstream.url, one),
    upstreamAt(upstream.url, other, { id: 'other', prefix: '' }),
  );
  return { bytes, dispose: () => bytes.close() };
});
