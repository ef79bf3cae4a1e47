/** PD: its leader, the regions and stores, and the timestamps of all transactions. */
import { type Backoff, Unreachable } from './backoff.ts';
import { Channel, type Rpc, type Tls } from './channel.ts';
import { fromWide, messageCodec, toWide, type Wide, type WirePeer, type WireRegion } from './messages.ts';
import { type Leader, Timestamps } from './timestamps.ts';

interface Header {
  readonly cluster_id?: Wide;
  readonly error?: { readonly type?: number; readonly message?: string } | null;
}
interface Member {
  readonly client_urls: readonly string[];
}
interface Members {
  readonly header: Header;
  readonly members?: readonly Member[];
  readonly leader?: Member | null;
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

interface SafePoint {
  readonly header?: Header;
  readonly new_safe_point?: Wide;
  readonly min_safe_point?: Wide;
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

const updateSafePoint = rpc<object, SafePoint>('UpdateGCSafePoint');
const updateServiceSafePoint = rpc<object, SafePoint>('UpdateServiceGCSafePoint');

/** The name under which PD knows the service that moves the safe point. */
const collector = { service_id: Buffer.from('gc_worker'), TTL: toWide(0x7fff_ffff_ffff_ffffn) };
const callMs = 3_000;

interface DriverOptions {
  /** `host:port` each; any of them names the leader and the other members. */
  readonly endpoints: readonly string[];
  readonly tls: Tls | undefined;
  /** How long a request for a timestamp is retried. */
  readonly budgetMs: number;
}

export class PlacementDriver {
  /** The configured endpoints, then those that they named. */
  readonly #endpoints: Set<string>;
  readonly #tls: Tls | undefined;
  readonly #timestamps: Timestamps;
  #leader: Promise<Leader> | undefined;
  #isClosed = false;

  constructor({ endpoints, tls, budgetMs }: DriverOptions) {
    this.#endpoints = new Set(endpoints);
    this.#tls = tls;
    this.#timestamps = new Timestamps({
      lead: () => this.#lead(),
      forget: () => this.#forget(this.#leader),
      budgetMs,
    });
  }

  /** Later than every timestamp that any client drew before. */
  timestamp(): Promise<bigint> {
    return this.#timestamps.next();
  }

  /** Its clock, in ms since the epoch. */
  now(): Promise<number> {
    return this.#timestamps.now();
  }

  /** The region of an encoded key, or the one that ends there or after it. */
  async region(
    encoded: Uint8Array,
    side: 'at' | 'before',
    backoff: Backoff,
  ): Promise<FoundRegion | undefined> {
    const found = await this.#ask(
      side === 'at' ? getRegion : getPrevRegion,
      { region_key: encoded },
      backoff,
    );
    return found.region ? found : undefined;
  }

  /** The address of a store; undefined where PD has none. */
  async storeAddress(id: Wide, backoff: Backoff): Promise<string | undefined> {
    const found = await this.#ask(getStore, { store_id: id }, backoff);
    return found.store?.address || undefined;
  }

  /** The timestamp before which stores drop versions that are not the latest. */
  async safePoint(backoff: Backoff): Promise<bigint> {
    return this.moveSafePoint(0n, backoff);
  }

  /** @returns the present safe point, which never moves back */
  async moveSafePoint(to: bigint, backoff: Backoff): Promise<bigint> {
    const answer = await this.#ask(updateSafePoint, { safe_point: toWide(to) }, backoff);
    return fromWide(answer.new_safe_point);
  }

  /** Requests to advance it. @returns the minimum safe point across all services */
  async claimSafePoint(to: bigint, backoff: Backoff): Promise<bigint> {
    const request = { ...collector, safe_point: toWide(to) };
    const least = fromWide((await this.#ask(updateServiceSafePoint, request, backoff)).min_safe_point);
    return least < to ? least : to;
  }

  /** Ends what is under way as well, because every retry needs PD. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timestamps.close();
    await this.#leader?.then(({ channel }) => channel.close()).catch(() => undefined);
  }

  async #ask<Q, A extends { readonly header?: Header }>(
    what: Rpc<Q, A>,
    request: object,
    backoff: Backoff,
  ): Promise<A> {
    for (;;) {
      const leader = this.#lead();
      try {
        const { channel, clusterId } = await leader;
        const header = { cluster_id: toWide(clusterId) };
        const answer = await channel.call(what, { header, ...request }, Math.min(callMs, backoff.leftMs));
        if (!answer.header?.error) return answer;
        await backoff.wait(`PD refused: ${answer.header.error.message ?? ''}`);
      } catch (cause) {
        if (cause instanceof Unreachable) throw cause;
        await backoff.wait('PD does not answer', cause);
      }
      this.#forget(leader);
    }
  }

  /** Unless another was found meanwhile. */
  #forget(former: Promise<Leader> | undefined): void {
    if (former === undefined || former !== this.#leader) return;
    this.#leader = undefined;
    void former.then(({ channel }) => channel.close()).catch(() => undefined);
  }

  #lead(): Promise<Leader> {
    if (this.#isClosed) return Promise.reject(new Unreachable('the connection to PD is closed'));
    this.#leader ??= this.#findLeader();
    return this.#leader;
  }

  async #findLeader(): Promise<Leader> {
    let last: unknown;
    for (const endpoint of this.#endpoints) {
      const channel = new Channel(endpoint, this.#tls);
      try {
        const answer = await channel.call(getMembers, { header: {} }, callMs);
        const clusterId = fromWide(answer.header.cluster_id);
        const leader = answer.leader?.client_urls[0];
        if (leader === undefined) throw new Error(`${endpoint} knows no leader of PD`);
        for (const { client_urls } of answer.members ?? [])
          for (const url of client_urls) this.#endpoints.add(stripScheme(url));
        if (stripScheme(leader) === endpoint) return { channel, clusterId };
        channel.close();
        return { channel: new Channel(stripScheme(leader), this.#tls), clusterId };
      } catch (cause) {
        channel.close();
        last = cause;
      }
    }
    throw new Error(`no endpoint of PD answers: ${[...this.#endpoints].join(', ')}`, { cause: last });
  }
}

const stripScheme = (url: string): string => url.replace(/^https?:\/\//, '').replace(/\/$/, '');
