/** Any history of requests gets the same answers on every backend: statuses, ids in their order, listings, usage. @storage */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Backend, backends, openGateway } from '../support/gateway.ts';
import { Pair } from '../support/parity.ts';
import { steps } from '../support/parity-steps.ts';
import { tickingClock } from '../support/recorded.ts';

/** The number of histories for each backend. `PARITY_RUNS=500 FC_SEED=7` makes a longer run. */
const runsOn: Partial<Record<Backend, number>> = { 'embedded+file': 50, 'ordered-kv': 25, 'wide-column': 10 };
const given = process.env['PARITY_RUNS'];
const runsFor = (backend: Backend): number => Number(given ?? runsOn[backend]);
const seed = process.env['FC_SEED'];

describe.each(backends.filter((backend) => runsOn[backend] !== undefined))('on %s', (backend) => {
  test(
    'any history is answered as in memory',
    async () => {
      await using reference = await openGateway({ clock: tickingClock() });
      await using tested = await openGateway({ backend, clock: tickingClock() });
      let histories = 0;
      await fc.assert(
        fc.asyncProperty(fc.commands(steps, { maxCommands: 40, size: 'max' }), async (commands) => {
          histories += 1;
          const bucket = `bucket-${histories}`;
          const pair = new Pair(reference, tested, bucket);
          await pair.ask('create', (side) => side.world.client.put(side.path()));
          await fc.asyncModelRun(() => ({ model: {}, real: pair }), commands);
          await pair.compare();
        }),
        {
          numRuns: runsFor(backend),
          ...(seed === undefined ? {} : { seed: Number(seed) }),
        },
      );
      for (const world of [reference, tested]) {
        await world.gc();
        const owned: string[] = [];
        for (let each = 1; each <= histories; each += 1) owned.push(...(await world.owned(`bucket-${each}`)));
        expect(await world.stored()).toEqual((await world.stored()).filter((id) => owned.includes(id)));
      }
    },
    300_000 + runsFor(backend) * 10_000,
  );
});
