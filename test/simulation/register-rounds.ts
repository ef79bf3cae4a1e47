/** Rounds of faults under clients that use keys as registers, and the check of their history. */
import { setTimeout as sleep } from 'node:timers/promises';
import { whyNotLinearizable } from '../support/linearizable.ts';
import { pathOf } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import { Fleet } from './fleet.ts';
import { RegisterClients } from './register-clients.ts';
import type { SharedStore } from './shared-store.ts';

const clientCount = 9;
/** After the rounds the clients continue until they have enough answers. */
const furtherMs = 1_500;
const furtherMax = 100;

/** With fewer answers, almost every history would have a valid order. */
export const saysEnough = ({ answered, won, refused, replaced }: RegisterClients['tally']): boolean =>
  answered > 100 && Math.min(won, refused) > 5 && replaced > 2;

/** The contradictions in the answers; a correct gateway gives none. */
export const contradictions = ({ histories }: RegisterClients): string[] =>
  [...histories].flatMap(([key, history]) => {
    const why = whyNotLinearizable(history);
    return why === undefined ? [] : [`${key}: ${why}`];
  });

export interface RegisterRounds {
  readonly store: Pick<SharedStore, 'gateway'>;
  readonly gateways: number;
  readonly settings?: Readonly<Record<string, string>>;
  readonly rounds: number;
  readonly seed: number;
  hurt(fleet: Fleet, random: () => number): Promise<void>;
}

export async function registerRounds(given: RegisterRounds): Promise<RegisterClients> {
  const { store, gateways, settings, rounds, seed } = given;
  await using fleet = new Fleet(store, settings);
  for (let each = 0; each < gateways; each += 1) await fleet.grow();
  await fleet.client(0).expect({ method: 'PUT', path: pathOf('registers') });
  const clients = new RegisterClients('registers');
  const stop = new AbortController();
  const working = Array.from({ length: clientCount }, (_, each) =>
    clients.work(() => fleet.client(each % gateways), {
      name: `client ${each}`,
      seed: seed + each,
      signal: stop.signal,
    }),
  );
  const random = seeded(seed);
  const hurting = (async () => {
    for (let round = 0; round < rounds; round += 1) await given.hurt(fleet, random);
    for (let waits = 0; waits < furtherMax && !saysEnough(clients.tally); waits += 1) await sleep(furtherMs);
  })();
  // A client that gets an invalid answer ends the test immediately.
  await Promise.race([hurting, Promise.all(working)]);
  stop.abort();
  await Promise.all([hurting, ...working]);
  console.log(
    `${rounds} rounds, ${clients.histories.size} keys, seed ${seed}: ${JSON.stringify({ ...clients.tally, ...fleet.faults })}`,
  );
  return clients;
}
