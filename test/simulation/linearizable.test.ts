/**
 * A key is a linearizable register: many clients write it in every way through several gateways, with faults, and one order explains their
 * history (docs/gaps.md, 7.1).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { clientInProcess } from '../support/client-in-process.ts';
import { noDouble, startDouble } from '../support/engines/tikv-double.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';
import { jittering } from '../support/jitter.ts';
import { RegisterClients } from './register-clients.ts';
import { hurtStore, pick } from './register-faults.ts';
import { contradictions, registerRounds, saysEnough } from './register-rounds.ts';
import { missing, type StoreKind, sharedStore, sharedTikv } from './shared-store.ts';

/** More for a longer run: `LINEARIZABLE_ROUNDS=50 LINEARIZABLE_SEED=7`. */
const rounds = Number(process.env['LINEARIZABLE_ROUNDS'] ?? 2);
const seed = Number(process.env['LINEARIZABLE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
/** The number of gateways: two on a data directory, each of two processes; three on an engine. */
const gatewaysOn = (kind: StoreKind): number => (kind === 'embedded' ? 2 : 3);
const stretchMs = 1500;

/** The settings of every gateway; on one data directory each has several processes. */
const settingsOf = (kind: StoreKind): Readonly<Record<string, string>> =>
  kind === 'embedded' ? { SVC_PROCESSES: '2' } : {};

describe('on memory, in one process', () => {
  /** Runs clients for a number of requests each, over ports that answer after a random number of turns of the event loop. */
  async function work(
    race: 'winner' | 'retry',
    { isDistant }: { readonly isDistant: boolean },
  ): Promise<RegisterClients> {
    const distant = (context: Context): Context => ({
      ...context,
      metadata: faulty(context.metadata, { isDistant }),
    });
    const jitter = jittering(seed);
    await using world = await openGateway({
      settings: { SVC_PUT_RACE: race, SVC_LOG_LEVEL: 'WARN' },
      wrap: (context) => distant(jitter(context)),
    });
    await world.client.put('/registers');
    const clients = new RegisterClients('registers');
    const stop = new AbortController();
    const client = clientInProcess(world);
    const working = Array.from({ length: 8 }, (_, each) =>
      clients.work(() => client, { name: `client ${each}`, seed: seed + each, signal: stop.signal }),
    );
    const waiting = (async () => {
      for (let waits = 0; waits < 600 && clients.tally.answered < 400 * rounds; waits += 1) await sleep(50);
      stop.abort();
    })();
    await Promise.all([...working, waiting]).finally(() => stop.abort());
    return clients;
  }

  for (const isDistant of [false, true])
    test(`what clients of contended keys see could have happened one step at a time, heads read ahead: ${isDistant}`, async () => {
      const clients = await work('winner', { isDistant });
      expect(contradictions(clients), `seed ${seed}`).toEqual([]);
      expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
    });

  test('with SVC_PUT_RACE=retry every acknowledged write is answered with its own ETag', async () => {
    const clients = await work('retry', { isDistant: false });
    expect(contradictions(clients), `seed ${seed}`).toEqual([]);
    expect(clients.tally.replaced, `seed ${seed}`).toBe(0);
    expect(clients.tally.won).toBeGreaterThan(5);
  });
});

for (const kind of Object.keys(missing) as StoreKind[]) {
  describe.skipIf(missing[kind] !== undefined)(`on ${kind} ${missing[kind] ?? ''}`, () => {
    test(
      'what clients of several gateways see of a key could have happened one step at a time, pauses and kills or not',
      async () => {
        await using store = await sharedStore(kind);
        const gateways = gatewaysOn(kind);
        const clients = await registerRounds({
          store,
          gateways,
          settings: settingsOf(kind),
          rounds,
          seed,
          hurt: hurtStore(store),
        });
        expect(contradictions(clients), `seed ${seed}`).toEqual([]);
        expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
      },
      300_000 + rounds * 60_000,
    );
  });
}

describe('on ordered-kv, a double that injects faults', () => {
  if (noDouble !== undefined) it.skip(`(${noDouble})`, () => {});
  else
    test(
      'what clients see of a key could have happened one step at a time while gateways die between prewrite and commit',
      async () => {
        await using double = await startDouble();
        await using store = sharedTikv(double);
        const clients = await registerRounds({
          store,
          gateways: 3,
          rounds,
          seed,
          async hurt(fleet, random) {
            await double.fault({ kind: 'two-phase' });
            await sleep(stretchMs);
            const dying = pick(fleet, random);
            // From now on no prewritten transaction commits, so the other gateways must resolve every lock of this gateway.
            await double.fault({ command: 'Commit', kind: 'drop' });
            await sleep(200);
            await fleet.replace(dying, () => double.heal());
            await double.chaos(20);
            await sleep(stretchMs);
            await double.chaos(0);
          },
        });
        expect(contradictions(clients), `seed ${seed}`).toEqual([]);
        expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
      },
      300_000 + rounds * 60_000,
    );
});
