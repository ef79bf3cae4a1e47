/** A connection to each store, made when it is first needed. */
import { type Backoff, Unreachable } from './backoff.ts';
import { Channel, type Stream, type Tls } from './channel.ts';
import {
  type Answered,
  type Asked,
  type CommandName,
  fromWide,
  messageCodec,
  type RegionContext,
  type Wide,
  type WirePeer,
} from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';

export class Stores {
  readonly #pd: PlacementDriver;
  readonly #tls: Tls | undefined;
  readonly #known = new Map<bigint, Promise<StoreConnection>>();
  readonly #doubted = new Set<bigint>();

  constructor(pd: PlacementDriver, tls: Tls | undefined) {
    this.#pd = pd;
    this.#tls = tls;
  }

  /** @throws Unreachable when PD does not tell in time where the store is */
  of(peer: WirePeer, backoff: Backoff): Promise<StoreConnection> {
    const id = fromWide(peer.store_id);
    let store = this.#known.get(id);
    if (store === undefined) {
      store = this.#connect(peer, backoff);
      this.#known.set(id, store);
      store.catch(() => this.#known.delete(id));
    }
    return store;
  }

  /** A store did not answer: if it has moved to another address, PD knows that. */
  async doubt(peer: WirePeer, backoff: Backoff): Promise<void> {
    const id = fromWide(peer.store_id);
    const known = this.#known.get(id);
    if (known === undefined || this.#doubted.has(id)) return;
    this.#doubted.add(id);
    try {
      const address = await this.#pd.storeAddress(peer.store_id, backoff);
      const former = await known;
      if (address === undefined || address === former.address || this.#known.get(id) !== known) return;
      this.#known.set(id, Promise.resolve(new StoreConnection(address, this.#tls)));
      former.close();
    } finally {
      this.#doubted.delete(id);
    }
  }

  async close(): Promise<void> {
    for (const store of this.#known.values())
      await store.then((connection) => connection.close()).catch(() => undefined);
  }

  async #connect(peer: WirePeer, backoff: Backoff): Promise<StoreConnection> {
    const address = await this.#pd.storeAddress(peer.store_id, backoff);
    if (address === undefined)
      throw new Unreachable(`PD knows no address of store ${fromWide(peer.store_id)}`);
    return new StoreConnection(address, this.#tls);
  }
}

// The connection to one TiKV store: all callers share a stream, and the commands of one event-loop turn share a message.

interface Batch {
  readonly responses: readonly Partial<Record<CommandName, unknown>>[];
  readonly request_ids: readonly Wide[];
}
const batchCommands = {
  path: '/tikvpb.Tikv/BatchCommands',
  ask: messageCodec<object>('BatchCommandsRequest'),
  answer: messageCodec<Batch>('BatchCommandsResponse'),
};
const batchMax = 128;

interface Waiter {
  readonly name: CommandName;
  resolve(answer: never): void;
  reject(error: unknown): void;
  readonly timer: NodeJS.Timeout;
}

class StoreConnection {
  readonly address: string;
  readonly #channel: Channel;
  readonly #waiting = new Map<number, Waiter>();
  #outbox: { readonly id: number; readonly request: object }[] = [];
  #stream: Stream<Batch> | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(address: string, tls: Tls | undefined) {
    this.address = address;
    this.#channel = new Channel(address, tls);
  }

  /** @throws Unreachable when no answer arrives in time, or the stream breaks */
  call<C extends CommandName>(
    name: C,
    request: Asked<C> & { readonly context: RegionContext },
    timeoutMs: number,
  ): Promise<Answered<C>> {
    if (this.#isClosed) return Promise.reject(new Unreachable(`the connection to ${this.address} is closed`));
    return new Promise<Answered<C>>((resolve, reject) => {
      // Ids stay small: a stream has far fewer concurrent commands than this.
      this.#lastId = (this.#lastId + 1) % 0x7fff_ffff;
      const id = this.#lastId;
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new Unreachable(`${this.address} did not answer ${name} within ${timeoutMs} ms`));
      }, timeoutMs);
      this.#waiting.set(id, { name, resolve: resolve as (answer: never) => void, reject, timer });
      this.#outbox.push({ id, request: { [name]: request } });
      if (this.#outbox.length === 1) setImmediate(() => this.#flush());
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#break(new Unreachable(`the connection to ${this.address} was closed`));
    this.#channel.close();
  }

  #flush(): void {
    while (this.#outbox.length > 0) {
      const batch = this.#outbox.splice(0, batchMax);
      this.#stream ??= this.#open();
      this.#stream.write({
        requests: batch.map(({ request }) => request),
        request_ids: batch.map(({ id }) => ({ low: id, high: 0 })),
      });
    }
  }

  #open(): Stream<Batch> {
    const stream = this.#channel.stream(batchCommands);
    stream.on('data', (batch: Batch) => {
      for (const [i, id] of batch.request_ids.entries()) this.#answer(id.low, batch.responses[i] ?? {});
    });
    const broken = (cause?: unknown): void => {
      if (this.#stream !== stream) return;
      this.#break(new Unreachable(`the stream to ${this.address} broke`, { cause }));
    };
    stream.on('error', broken).on('end', broken);
    return stream;
  }

  #answer(id: number, response: Partial<Record<CommandName, unknown>>): void {
    const waiter = this.#waiting.get(id);
    if (waiter === undefined) return;
    this.#waiting.delete(id);
    clearTimeout(waiter.timer);
    const answer = response[waiter.name];
    if (answer) waiter.resolve(answer as never);
    else waiter.reject(new Unreachable(`${this.address} cannot serve ${waiter.name}`));
  }

  /** The outcome of every pending command is unknown; the next command opens a new stream. */
  #break(error: Error): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#outbox = [];
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(error);
    }
    stream?.cancel();
  }
}
