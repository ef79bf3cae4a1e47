/**
 * Faults of TiKV under a load of every kind of write: after each one nothing acknowledged is lost, listings agree, and the gateway
 * recovers without a restart.
 */
import { describe, expect, it, test } from 'vitest';
import { noOwnTikv, startOwnTikv } from '../support/engines/tikv.ts';
import { noDouble, startDouble } from '../support/engines/tikv-double.ts';
import { doubleFaults, faultRounds, ownFaults } from './tikv-faults.ts';

const seed = Number(process.env['FAULT_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const roundMs = 120_000;

describe('a gateway loses nothing and recovers by itself', () => {
  if (noOwnTikv === undefined)
    test(
      'on PD and a store that die and pause',
      async () => {
        await using engine = await startOwnTikv();
        expect(await faultRounds({ engine, faults: ownFaults, seed }), `seed ${seed}`).toEqual([]);
      },
      ownFaults.length * roundMs,
    );
  else it.skip(`(${noOwnTikv})`, () => {});

  if (noDouble === undefined)
    test(
      'on stores and placement drivers that fail one by one',
      async () => {
        await using engine = await startDouble({ drivers: 2 });
        const locks = async (): Promise<number> => (await engine.locks()).length;
        const found = await faultRounds({ engine, faults: doubleFaults, locks, seed });
        expect(found, `seed ${seed}`).toEqual([]);
      },
      doubleFaults.length * roundMs,
    );
  else it.skip(`(${noDouble})`, () => {});
});
