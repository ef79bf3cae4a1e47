/** PD: who its leader is, where regions and stores are, and the timestamps of everybody's transactions. */
import { Backoff } from './backoff.ts';
import { Channel, type Tls } from './channel.ts';
import { fromWide, messageCodec, toWide, type Wide, type WirePeer, type WireRegion } from './messages.ts';
import { Timestamps } from './timestamps.ts';

interface Header {
  readonly cluster_id?: Wide;
  readonly error?: { readonly type?: number; readonly message?: string } | null;
}
interface Members {
  readonly header: Header;
  readonly leader?: { readonly client_urls: readonly string[] } | null;
}
interface FoundRegion {
  readonly header?: Header;
  readonly region?: WireRegion | null;
  readonly leader?: WirePeer | null;
}
interface FoundStore {
  readonly header?: Header;
  readonly store?: { readonly address: string } | null;
}

const rpc = <Q, A>(name: string, message = name) => ({
  path: `/pdpb.PD/${name}`,
  ask: messageCodec<Q>(`${message}Request`),
  answer: messageCodec<A>(`${message}Response`),
});
const getMembers = rpc<object, Members>('GetMembers');
const getRegion = rpc<object, FoundRegion>('GetRegion');
const getPrevRegion = rpc<object, FoundRegion>('GetPrevRegion', 'GetRegion');
const getStore = rpc<object, FoundStore>('GetStore');

const callMs = 3_000;
const budgetMs = 20_000;

export interface Leader {
  readonly channel: Channel;
  readonly address: string;
  readonly clusterId: bigint;
}

export class PlacementDriver {
  readonly #endpoints: readonly string[];
  readonly #tls: Tls | undefined;
  readonly #timestamps: Timestamps;
  #leader: Promise<Leader> | undefined;

  /** @param endpoints `host:port` each; whichever answers tells who leads */
  constructor(endpoints: readonly string[], tls: Tls | undefined) {
    this.#endpoints = endpoints;
    this.#tls = tls;
    this.#timestamps = new Timestamps(
      () => this.#lead(),
      () => this.#forget(),
    );
  }

  /** Later than every timestamp that was drawn before, by anybody. */
  timestamp(): Promise<bigint> {
    return this.#timestamps.next();
  }

  /** The region that an encoded key lies in, or the one that ends there or behind it. */
  async region(encoded: Uint8Array, side: 'at' | 'before'): Promise<FoundRegion | undefined> {
    const found = await this.#call((leader) =>
      leader.channel.call(
        side === 'at' ? getRegion : getPrevRegion,
        { header: { cluster_id: toWide(leader.clusterId) }, region_key: encoded },
        callMs,
      ),
    );
    return found.region && found.leader ? found : undefined;
  }

  /** The address of a store; undefined where PD knows none. */
  async storeAddress(id: Wide): Promise<string | undefined> {
    const found = await this.#call((leader) =>
      leader.channel.call(
        getStore,
        { header: { cluster_id: toWide(leader.clusterId) }, store_id: id },
        callMs,
      ),
    );
    return found.store?.address || undefined;
  }

  async close(): Promise<void> {
    this.#timestamps.close();
    await this.#leader?.then(({ channel }) => channel.close()).catch(() => undefined);
  }

  async #call<A extends { readonly header?: Header }>(ask: (leader: Leader) => Promise<A>): Promise<A> {
    const backoff = new Backoff(budgetMs);
    for (;;) {
      try {
        const answer = await ask(await this.#lead());
        if (!answer.header?.error) return answer;
        await backoff.wait(`PD refused: ${answer.header.error.message ?? ''}`);
      } catch (cause) {
        await backoff.wait('PD does not answer', cause);
      }
      this.#forget();
    }
  }

  #forget(): void {
    const former = this.#leader;
    this.#leader = undefined;
    void former?.then(({ channel }) => channel.close()).catch(() => undefined);
  }

  #lead(): Promise<Leader> {
    this.#leader ??= this.#findLeader();
    return this.#leader;
  }

  async #findLeader(): Promise<Leader> {
    let last: unknown;
    for (const endpoint of this.#endpoints) {
      const channel = new Channel(endpoint, this.#tls);
      try {
        const members = await channel.call(getMembers, { header: {} }, callMs);
        const clusterId = fromWide(members.header.cluster_id);
        const address = members.leader?.client_urls[0]?.replace(/^https?:\/\//, '').replace(/\/$/, '');
        if (address === undefined) throw new Error(`${endpoint} knows no leader of PD`);
        if (address === endpoint) return { channel, address, clusterId };
        channel.close();
        return { channel: new Channel(address, this.#tls), address, clusterId };
      } catch (cause) {
        channel.close();
        last = cause;
      }
    }
    this.#leader = undefined;
    throw new Error(`no endpoint of PD answers: ${this.#endpoints.join(', ')}`, { cause: last });
  }
}
