/** Helpers of the tests of the TiKV client: separate keys, and connections without automatic retries. */
import { randomBytes } from 'node:crypto';
import { vi } from 'vitest';
import { Backoff } from '../../src/backends/tikv/backoff.ts';
import type { Tls } from '../../src/backends/tikv/channel.ts';
import { TikvClient } from '../../src/backends/tikv/client.ts';
import type { CommandName } from '../../src/backends/tikv/messages.ts';
import { PlacementDriver } from '../../src/backends/tikv/placement-driver.ts';
import { Regions } from '../../src/backends/tikv/regions.ts';
import { Sender } from '../../src/backends/tikv/sender.ts';
import { Stores } from '../../src/backends/tikv/stores.ts';

const encoder = new TextEncoder();
export const bytes = (text: string): Uint8Array => encoder.encode(text);
export const text = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString();

/** Answers a command in the place of every store, which no double does; other commands are sent. `mockRestore` ends it. */
export function answering(command: CommandName, answer: object) {
  const send = Sender.prototype.many;
  return vi.spyOn(Sender.prototype, 'many').mockImplementation(function (this: Sender, name, sent) {
    return name === command
      ? Promise.resolve([{ keys: sent.keys, answer: answer as never }])
      : (send.call(this, name, sent as never) as never);
  });
}

/** Keys that no other test uses, ordered by name. */
export function freshKeys(): (name: string) => Uint8Array {
  const prefix = randomBytes(6).toString('hex');
  return (name) => bytes(`t/${prefix}/${name}`);
}

export interface Bare extends AsyncDisposable {
  readonly pd: PlacementDriver;
  readonly sender: Sender;
  readonly backoff: () => Backoff;
}

/** The parts under the client, for tests that play another client's transaction. */
export function bare(endpoints: readonly string[]): Bare {
  const pd = new PlacementDriver({ endpoints, tls: undefined, budgetMs: 10_000 });
  const stores = new Stores(pd, undefined);
  return {
    pd,
    sender: new Sender(new Regions(pd), stores),
    backoff: () => new Backoff(10_000),
    async [Symbol.asyncDispose]() {
      await stores.close();
      await pd.close();
    },
  };
}

export interface Opened extends AsyncDisposable {
  readonly client: TikvClient;
}

export function opened(
  endpoints: readonly string[],
  options: { timeoutMs?: number; tls?: Tls } = {},
): Opened {
  const client = new TikvClient({ endpoints, ...options });
  return { client, [Symbol.asyncDispose]: () => client.close() };
}

export const put = (client: TikvClient, key: Uint8Array, value: string): Promise<void> =>
  client.transact(async (transaction) => transaction.put(key, bytes(value)));

/** A number under a key, one more with each call, however many there are. */
export const count = (client: TikvClient, key: Uint8Array): Promise<void> =>
  client.transact(async (transaction) => {
    const [value] = await transaction.lock([key]);
    transaction.put(key, bytes(String(Number(text(value) ?? 0) + 1)));
  });

export const settled = async (isTrue: () => Promise<boolean>, ms = 20_000): Promise<void> => {
  for (const until = performance.now() + ms; !(await isTrue()); ) {
    if (performance.now() > until) throw new Error('it did not come to be');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
