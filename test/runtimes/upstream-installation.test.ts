/** A bucket of an upstream belongs to one installation: gateways of another one refuse to start. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { InstallationMode } from '../../src/metadata/installation.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { openBytes } from '../../src/runtime/compose/compose-bytes.ts';
import { checkInstallation, compareLater } from '../../src/runtime/installation.ts';
import { StartRefusal } from '../../src/runtime/start-refusal.ts';
import { startUpstreamServer } from '../support/engines/upstream.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';

test('a gateway refuses the upstream bucket of another installation, and --init alone takes it over', async () => {
  await using upstream = await startUpstreamServer();
  const root = await mkdtemp(join(tmpdir(), 'sluice-upstream-installation-'));
  const env = {
    ...upstream.environment,
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: upstream.bucket,
    SVC_FSYNC: 'never',
    SVC_WORKERS: '',
  };
  const serve = async (name: string, args: string[] = []): Promise<string> => {
    const server = await startServer({ dataDir: join(root, name), env, args });
    const client = loadClient(server.url, server.credentials.root, 1);
    try {
      await client.send({ method: 'PUT', path: pathOf('bucket') });
      await client.expect({ method: 'PUT', path: pathOf('bucket', 'key'), body: Buffer.from('content') });
      return (await client.expect({ path: pathOf('bucket', 'key') })).text;
    } finally {
      client.close();
      await server.stop();
    }
  };
  const refused = (name: string): Promise<string> =>
    serve(name).catch((error: Error) => {
      expect(error.message).toContain('ended with 2');
      return error.message;
    });
  try {
    expect(await serve('first')).toBe('content');
    expect(await serve('first')).toBe('content');
    const foreign = /bucket \S+ at \S*installation\.json belong to installation [0-9a-f]{32}/;
    expect(await refused('second')).toMatch(foreign);
    expect(await refused('second')).toMatch(foreign);
    expect(await serve('first')).toBe('content');
    expect(await serve('second', ['--init'])).toBe('content');
    expect(await refused('first')).toMatch(foreign);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

test('a gateway whose upstream is unavailable starts', async () => {
  const root = await mkdtemp(join(tmpdir(), 'sluice-upstream-away-'));
  const env = {
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: 'bucket',
    // Port 9 (discard), where no server listens.
    SVC_UPSTREAM_ENDPOINT: 'http://127.0.0.1:9',
    SVC_UPSTREAM_ACCESS_KEY: 'access',
    SVC_UPSTREAM_SECRET_KEY: 'secret-secret',
    SVC_WORKERS: '',
  };
  const server = await startServer({ dataDir: join(root, 'data'), env });
  const client = loadClient(server.url, server.credentials.root, 1);
  try {
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    expect((await client.send({ path: '/readyz' })).status).toBe(503);
  } finally {
    client.close();
    await server.stop();
    await rm(root, { recursive: true, force: true });
  }
});

test('a store that was away is compared until it answers, and ends the process if it belongs to another installation', async () => {
  const clock = { ...systemClock, sleep: async () => {} };
  const answers = [['away'], ['away'], []];
  const compare = async (): Promise<readonly string[]> => answers.shift() ?? [];
  const options = { clock, telemetry: silentTelemetry, away: ['away'] };
  let ended = 0;
  const end = (): void => {
    ended += 1;
  };
  const stop = compareLater({ ...options, compare, end });
  await vi.waitFor(() => expect(answers).toEqual([]), { timeout: 60_000 });
  await stop();
  expect(ended).toBe(0);
  const foreign = async (): Promise<never> => {
    throw new StartRefusal('another installation', 2);
  };
  const stopForeign = compareLater({ ...options, compare: foreign, end });
  await vi.waitFor(() => expect(ended).toBe(1), { timeout: 60_000 });
  await stopForeign();
});

test.each<InstallationMode>(['start', 'init'])(
  'of eight installations that begin in the same upstream bucket (%s) the one that it names is let in, and alone after a restart',
  async (mode) => {
    await using upstream = await startUpstreamServer();
    const config = configWith({
      ...upstream.environment,
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: upstream.bucket,
    });
    const random = systemRandom();
    const telemetry = silentTelemetry;
    const stored = await openBytes({ config, clock: systemClock, random, telemetry }, nodeHasher());
    const [place] = stored.marks ?? [];
    const marked = async (): Promise<string> => JSON.parse((await place?.read())?.text ?? '{}').id;
    if (mode === 'init') await place?.write(JSON.stringify({ id: '0'.repeat(32), format: 1 }), undefined);
    const kept = Array.from({ length: 8 }, () => memoryStore({ clock: systemClock, random }));
    for (const asked of [mode, 'start'] as const) {
      const check = (metadata: MetadataStore) =>
        checkInstallation(metadata, { config, random, mode: asked, keys: [], stored });
      const settled = await Promise.allSettled(kept.map(check));
      const accepted = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value.id] : []));
      // A gateway that first reads the mark after the winner's write takes the bucket over from it.
      expect(accepted).toContain(await marked());
      if (asked === 'start') expect(accepted).toHaveLength(1);
      for (const each of settled)
        if (each.status === 'rejected')
          expect(String(each.reason)).toMatch(/belong to installation|names installation/);
    }
    await stored.close();
  },
);

test('a mark in an upstream bucket is replaced only if it has not changed since it was read', async () => {
  await using upstream = await startUpstreamServer();
  const settings = { SVC_DATA_BACKEND: 'upstream-store', SVC_UPSTREAMS: upstream.bucket };
  const config = configWith({ ...upstream.environment, ...settings });
  const parts = { config, clock: systemClock, random: systemRandom(), telemetry: silentTelemetry };
  const stored = await openBytes(parts, nodeHasher());
  const [place] = stored.marks ?? [];
  await place?.write('first', undefined);
  await place?.write('late', undefined);
  const first = await place?.read();
  expect(first?.text).toBe('first');
  await Promise.all(['second', 'third'].map((text) => place?.write(text, first)));
  const second = await place?.read();
  expect(['second', 'third']).toContain(second?.text);
  await place?.write('fourth', first);
  expect(await place?.read()).toEqual(second);
  await stored.close();
});
