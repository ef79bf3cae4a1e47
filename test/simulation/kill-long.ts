/** By hand: `npx node test/simulation/kill-long.ts [rounds] [seed]` kills gateways until a check fails, and keeps the data. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killRounds } from './kill-rounds.ts';

const rounds = Number(process.argv[2] ?? 100);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);
const dataDir = mkdtempSync(join(tmpdir(), 'sluice-kill-'));

console.log(`seed ${seed}, data in ${dataDir}`);
const faults = await killRounds({ rounds, seed, dataDir, say: console.log });
for (const fault of faults) console.log(fault);
if (faults.length > 0) process.exit(1);
rmSync(dataDir, { recursive: true, force: true });
