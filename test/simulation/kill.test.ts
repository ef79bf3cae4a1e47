/** kill -9 during every kind of write: acknowledged writes survive, and others leave nothing behind. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { killRounds } from './kill-rounds.ts';

/** More for a longer run: `KILL_ROUNDS=200 KILL_SEED=7 npx vitest run test/simulation/kill.test.ts`. */
const rounds = Number(process.env['KILL_ROUNDS'] ?? 8);
const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test(
  'what was acknowledged survives kill -9, in part or as a whole, and what was not leaves nothing behind',
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'sluice-kill-'));
    const faults = await killRounds({ rounds, seed, dataDir });
    expect(faults, `seed ${seed}, data in ${dataDir}`).toEqual([]);
    rmSync(dataDir, { recursive: true, force: true });
  },
  300_000 + rounds * 20_000,
);
