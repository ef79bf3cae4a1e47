/** An upstream behind TLS: trusted by the system's authorities, by a CA file, or where `insecure` is set. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { alice, openGateway } from '../support/gateway.ts';
import { one, two } from '../support/server-tls.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';

let directory: string;
let upstream: UpstreamServer;
const path = (name: string): string => join(directory, name);
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-upstream-tls-'));
  await Promise.all(
    Object.entries({ 'one.pem': one.cert, 'one.key': one.key, 'two.pem': two.cert }).map(([name, pem]) =>
      writeFile(path(name), pem),
    ),
  );
  const tls = { SVC_TLS_CERT_FILE: path('one.pem'), SVC_TLS_KEY_FILE: path('one.key') };
  upstream = await startUpstream({}, tls);
});
afterAll(async () => {
  await upstream?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** The status of a PUT through a gateway whose upstream has these settings. */
async function answerWith(more: object): Promise<number> {
  const bucket = await upstream.bucket();
  await using world = await openGateway({
    settings: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify([{ id: 'tls', bucket, ...more }]),
      SVC_UPSTREAM_ENDPOINT: upstream.url,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
    },
  });
  await world.client.put('/bucket');
  return (await world.client.put('/bucket/key', { body: 'hello' })).status;
}

test('a certificate of an untrusted authority is refused', async () => {
  expect(await answerWith({})).toBe(503);
  expect(await answerWith({ caFile: path('two.pem') })).toBe(503);
});

test('a CA file makes it trusted, and a setting disables the verification', async () => {
  expect(await answerWith({ caFile: path('one.pem') })).toBe(200);
  expect(await answerWith({ insecure: true })).toBe(200);
});

test('a file that is not there refuses the start', async () => {
  await expect(answerWith({ caFile: path('none.pem') })).rejects.toThrow(
    /caFile .*none.pem of SVC_UPSTREAMS cannot be read: ENOENT/,
  );
});
