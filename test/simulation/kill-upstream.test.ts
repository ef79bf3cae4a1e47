/** kill -9 of gateways before an upstream, during puts, completions and gc: acknowledged objects survive. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startUpstreamServer } from '../support/engines/upstream.ts';
import { killRounds } from './kill-rounds.ts';

const rounds = Number(process.env['KILL_ROUNDS'] ?? 3);
const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test(
  'before an upstream acknowledged objects survive kill -9, and interrupted ones leave nothing there',
  async () => {
    await using upstream = await startUpstreamServer();
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-kill-'));
    const env = {
      ...upstream.environment,
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: upstream.bucket,
    };
    const faults = await killRounds({ rounds, seed, dataDir, env });
    expect(faults, `seed ${seed}, data in ${dataDir}`).toEqual([]);
    await rm(dataDir, { recursive: true, force: true });
  },
  300_000 + rounds * 20_000,
);
