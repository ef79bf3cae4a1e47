/** A key is a register: many clients at several gateways, with faults, and a history that could have happened one step at a time. */
import { describe, expect, test } from 'vitest';
import { whyNotLinearizable } from '../support/linearizable.ts';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import type { TestServer } from '../support/server.ts';
import { RegisterClients } from './register-clients.ts';
import { missing, type SharedStore, type StoreKind, sharedStore } from './shared-store.ts';

/** More for a longer run: `LINEARIZABLE_ROUNDS=50 LINEARIZABLE_SEED=7`. */
const rounds = Number(process.env['LINEARIZABLE_ROUNDS'] ?? 2);
const seed = Number(process.env['LINEARIZABLE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const gateways = 3;
const clientsEach = 3;
const stretchMs = 1500;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Gateways that take each other's place: a client asks for its own whenever it has something to say. */
class Fleet implements AsyncDisposable {
  readonly #store: SharedStore;
  readonly #members: { server: TestServer; client: LoadClient }[] = [];

  constructor(store: SharedStore) {
    this.#store = store;
  }

  async grow(): Promise<void> {
    this.#members.push(await this.#member());
  }

  async #member(): Promise<{ server: TestServer; client: LoadClient }> {
    const server = await this.#store.gateway();
    return { server, client: loadClient(server.url, server.credentials.root) };
  }

  client(at: number): LoadClient {
    return (this.#members[at] as { client: LoadClient }).client;
  }

  /** `kill -9`, and another one in its place, while the others go on. */
  async replace(at: number): Promise<void> {
    const former = this.#members[at] as { server: TestServer; client: LoadClient };
    await former.server.kill9();
    former.client.close();
    this.#members[at] = await this.#member();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { server, client } of this.#members) {
      client.close();
      await server.stop();
    }
  }
}

/** Fewer answers could be put into some order whatever was done. */
const saysEnough = ({ answered, won, refused }: RegisterClients['tally']): boolean =>
  answered > 100 && Math.min(won, refused) > 5;

async function hurt(store: SharedStore, fleet: Fleet, random: () => number): Promise<void> {
  await sleep(stretchMs);
  if (store.engine !== undefined) {
    store.engine.pause();
    await sleep(stretchMs);
    store.engine.resume();
    await sleep(stretchMs);
  }
  await fleet.replace(Math.floor(random() * gateways));
  await sleep(stretchMs);
}

for (const kind of Object.keys(missing) as StoreKind[]) {
  describe.skipIf(missing[kind] !== undefined)(`on ${kind} ${missing[kind] ?? ''}`, () => {
    test(
      'what clients of several gateways see of a key could have happened one step at a time, pauses and kills or not',
      async () => {
        await using store = await sharedStore(kind);
        await using fleet = new Fleet(store);
        for (let each = 0; each < gateways; each += 1) await fleet.grow();
        await fleet.client(0).expect({ method: 'PUT', path: pathOf('registers') });
        const clients = new RegisterClients((key) => pathOf('registers', key));
        const stop = new AbortController();
        const working = Array.from({ length: gateways * clientsEach }, (_, each) =>
          clients.work(() => fleet.client(each % gateways), {
            name: `client ${each}`,
            seed: seed + each,
            signal: stop.signal,
          }),
        );
        const random = seeded(seed);
        const hurting = (async () => {
          for (let round = 0; round < rounds; round += 1) await hurt(store, fleet, random);
          for (let waits = 0; waits < 100 && !saysEnough(clients.tally); waits += 1) await sleep(stretchMs);
        })();
        // A client that is treated as nobody may be ends the test at once.
        await Promise.race([hurting, Promise.all(working)]);
        stop.abort();
        await Promise.all([hurting, ...working]);
        for (const [key, history] of clients.histories)
          expect(whyNotLinearizable(history), `${key}, seed ${seed}`).toBeUndefined();
        expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
      },
      300_000 + rounds * 60_000,
    );
  });
}
