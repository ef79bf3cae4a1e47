/** The rounds of `kill.test.ts` with metadata on real engines: gateways are killed under load, the engine is not. */
import { describe, expect, test } from 'vitest';
import { killRounds } from './kill-rounds.ts';
import { missing, sharedStore } from './shared-store.ts';

/** More for a longer run: `KILL_ROUNDS=50 KILL_SEED=7`. */
const rounds = Number(process.env['KILL_ROUNDS'] ?? 2);
const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

for (const kind of ['wide-column', 'ordered-kv'] as const) {
  describe.skipIf(missing[kind] !== undefined)(`on ${kind} ${missing[kind] ?? ''}`, () => {
    test(
      'what was acknowledged survives kill -9 of gateways, and what was not leaves nothing behind',
      async () => {
        await using store = await sharedStore(kind);
        const faults = await killRounds({
          rounds,
          seed,
          dataDir: store.dataDir,
          env: store.env,
          // Renewals take longer than on a local file.
          intentTtlMs: 6000,
        });
        expect(faults, `seed ${seed}`).toEqual([]);
      },
      // The time limits of the steps end before it, and say which step hung.
      900_000 + rounds * 60_000,
    );
  });
}
