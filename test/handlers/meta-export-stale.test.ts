/** An export of metadata into a directory that has an older one. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { acquireLease } from '../../src/metadata/background/leases.ts';
import { exportMetadata } from '../../src/runtime/backup/cli-meta.ts';
import { openGateway } from '../support/gateway.ts';

test('an export is not continued, nor taken for a new one, once a gateway has run', async () => {
  const to = await mkdtemp(join(tmpdir(), 'sluice-export-'));
  onTestFinished(() => rm(to, { recursive: true, force: true }));
  await using world = await openGateway({ backend: 'embedded+file' });
  const { metadata } = world.context;
  const { signal } = new AbortController();
  const run = () => exportMetadata(metadata, { to, signal });
  await world.client.put('/bucket');
  const first = await run();
  expect(await run()).toEqual(first);
  const lease = await acquireLease(metadata, { name: 'gc-leader', holder: 'h', ttlMs: 1 });
  expect(lease?.generation).toBe(1);
  await world.client.put('/bucket/later', { body: 'later' });
  await expect(run()).rejects.toThrow('a gateway has run since the export');
});
