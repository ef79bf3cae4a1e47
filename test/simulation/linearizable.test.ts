/**
 * A key is a register: many clients write it in every way at several gateways, with faults, and the history could have
 * happened one step at a time (docs/gaps.md, 7.1).
 */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { clientInProcess } from '../support/client-in-process.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';
import { jittering } from '../support/jitter.ts';
import { whyNotLinearizable } from '../support/linearizable.ts';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import type { TestServer } from '../support/server.ts';
import { RegisterClients } from './register-clients.ts';
import { missing, type SharedStore, type StoreKind, sharedStore } from './shared-store.ts';

/** More for a longer run: `LINEARIZABLE_ROUNDS=50 LINEARIZABLE_SEED=7`. */
const rounds = Number(process.env['LINEARIZABLE_ROUNDS'] ?? 2);
const seed = Number(process.env['LINEARIZABLE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
/** Two on a data directory, each of two processes; three where an engine holds the metadata. */
const gatewaysOn = (kind: StoreKind): number => (kind === 'embedded' ? 2 : 3);
const clientCount = 9;
const stretchMs = 1500;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What every gateway of a fleet is given: on one data directory each has several processes too. */
const settingsOf = (kind: StoreKind): Readonly<Record<string, string>> =>
  kind === 'embedded' ? { SVC_PROCESSES: '2' } : {};

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
    const server = await this.#store.gateway(settingsOf(this.#store.kind));
    return { server, client: loadClient(server.url, server.credentials.root) };
  }

  client(at: number): LoadClient {
    return (this.#members[at] as { client: LoadClient }).client;
  }

  /** Stops every process of a gateway in the middle of what it does, and lets it go on. */
  async pause(at: number, forMs: number): Promise<void> {
    const { server } = this.#members[at] as { server: TestServer };
    const group = -(server.process.pid as number);
    process.kill(group, 'SIGSTOP');
    await sleep(forMs);
    process.kill(group, 'SIGCONT');
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
const saysEnough = ({ answered, won, refused, replaced }: RegisterClients['tally']): boolean =>
  answered > 100 && Math.min(won, refused) > 5 && replaced > 2;

function expectLinearizable({ histories, tally }: RegisterClients): void {
  for (const [key, history] of histories)
    expect(whyNotLinearizable(history), `${key}, seed ${seed}`).toBeUndefined();
  console.log(`${histories.size} keys, seed ${seed}: ${JSON.stringify(tally)}`);
}

describe('on memory, in one process', () => {
  /** Clients until each has had its turns, over ports that answer after more or fewer turns of the event loop. */
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
      expectLinearizable(clients);
      expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
    }, 120_000);

  test('with SVC_PUT_RACE=retry every acknowledged write is answered with its own ETag', async () => {
    const clients = await work('retry', { isDistant: false });
    expectLinearizable(clients);
    expect(clients.tally.replaced, `seed ${seed}`).toBe(0);
    expect(clients.tally.won).toBeGreaterThan(5);
  }, 120_000);
});

async function hurt(store: SharedStore, fleet: Fleet, random: () => number): Promise<void> {
  const gateways = gatewaysOn(store.kind);
  await sleep(stretchMs);
  if (store.engine !== undefined) {
    store.engine.pause();
    await sleep(stretchMs);
    store.engine.resume();
    await sleep(stretchMs);
  }
  await fleet.pause(Math.floor(random() * gateways), stretchMs);
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
        const gateways = gatewaysOn(kind);
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
          for (let round = 0; round < rounds; round += 1) await hurt(store, fleet, random);
          for (let waits = 0; waits < 100 && !saysEnough(clients.tally); waits += 1) await sleep(stretchMs);
        })();
        // A client that is treated as nobody may be ends the test at once.
        await Promise.race([hurting, Promise.all(working)]);
        stop.abort();
        await Promise.all([hurting, ...working]);
        expectLinearizable(clients);
        expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
      },
      300_000 + rounds * 60_000,
    );
  });
}
