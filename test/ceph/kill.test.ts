/** kill -9 of gateways over a real cluster, during puts, completions and gc: acknowledged objects survive. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { killRounds } from '../simulation/kill-rounds.ts';
import { noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';

const rounds = Number(process.env['KILL_ROUNDS'] ?? 3);
const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test.skipIf(noCeph !== undefined)(
  `on Ceph what was acknowledged survives kill -9, and what was not leaves nothing behind${noCeph === undefined ? '' : `: ${noCeph}`}`,
  async () => {
    await using ceph = await startCeph();
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-kill-'));
    const env = settingsOf(ceph);
    const faults = await killRounds({ rounds, seed, dataDir, env });
    expect(faults, `seed ${seed}, data in ${dataDir}`).toEqual([]);
    await rm(dataDir, { recursive: true, force: true });
  },
  300_000 + rounds * 20_000,
);
