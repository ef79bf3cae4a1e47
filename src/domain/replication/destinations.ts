/** What the replicator remembers about its destinations, so that small versions cost few reads. */
import { SharedSemaphore } from '../../base/mutex.ts';
import type { Context } from '../../context.ts';
import { findReplicationPeer } from '../../metadata/background/replication.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import type { ReplicationTask } from '../../metadata/records/queues.ts';
import type { ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Revision, Stored } from '../../ports/metadata-store.ts';
import type { PeerAccess, PeerRequests } from '../../ports/peer-requests.ts';
import { type Destination, nameDestination } from '../configurations/replication-destination.ts';
import { type Bandwidth, openBandwidth } from './bandwidth.ts';
import { DescriptionFailed, DestinationAway } from './failures.ts';
import { openAccess } from './peers.ts';
import { askSite, type PeerSite } from './send-replica.ts';
import { askLock } from './send-to-service.ts';
import { LateVersions } from './store-status.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'cipher' | 'clock' | 'sealer'> & {
  readonly peers: PeerRequests;
};

/** How long the description of a site is used: its operator may change versioning, or the service itself. */
const siteMs = 60_000;
/** How long the row of a bucket is used. A status that is committed under an outdated row is refused, and tried again. */
const bucketMs = 1_000;
/** Entries of each kind; beyond these all are read again. */
const knownMax = 1_024;
/** Large contents that are sent at a time, beside one to each peer. Each has some chunks in memory. */
const largeTurnsMax = 4;
/**
 * Other versions that are sent to one peer at a time. Each has a connection, and up to 64 KiB of content in memory. One
 * account gets 64 of these turns, as many as its lane uses.
 */
const smallTurnsMax = 85;

interface Sender {
  readonly peer: string;
  /** The account of the source bucket. */
  readonly account: string;
}

interface LargeWaiter {
  readonly peer: string;
  readonly begin: (end: () => void) => void;
}

/**
 * Turns for large contents. A version that waits here holds no turn of its peer, so that small versions do not wait for it. Each peer has a
 * turn of its own, so that a peer that takes its contents slowly delays no other. Accounts take turns in rotation, and
 * the last turn is for an account that holds none.
 */
class LargeTurns {
  readonly #own = new Set<string>();
  readonly #running = new Map<string, number>();
  #shared = largeTurnsMax;
  /** By account, the next one first. */
  readonly #waiting = new Map<string, LargeWaiter[]>();

  async run<T>({ peer, account }: Sender, work: () => Promise<T>): Promise<T> {
    const end =
      this.#take({ peer, account }) ??
      (await new Promise<() => void>((begin) => {
        const waiting = this.#waiting.get(account) ?? [];
        waiting.push({ peer, begin });
        this.#waiting.set(account, waiting);
      }));
    try {
      return await work();
    } finally {
      end();
    }
  }

  /** @returns what ends the turn; undefined where none is free */
  #take({ peer, account }: Sender): (() => void) | undefined {
    const isOwn = !this.#own.has(peer);
    const running = this.#running.get(account) ?? 0;
    if (!isOwn && (this.#shared === 0 || (this.#shared === 1 && running > 0))) return undefined;
    if (isOwn) this.#own.add(peer);
    else this.#shared -= 1;
    this.#running.set(account, running + 1);
    return () => {
      if (isOwn) this.#own.delete(peer);
      else this.#shared += 1;
      const left = (this.#running.get(account) ?? 0) - 1;
      if (left > 0) this.#running.set(account, left);
      else this.#running.delete(account);
      while (this.#beginNext());
    };
  }

  #beginNext(): boolean {
    for (const [account, waiting] of this.#waiting)
      for (const [index, { peer, begin }] of waiting.entries()) {
        const end = this.#take({ peer, account });
        if (end === undefined) continue;
        waiting.splice(index, 1);
        this.#waiting.delete(account);
        if (waiting.length > 0) this.#waiting.set(account, waiting);
        begin(end);
        return true;
      }
    return false;
  }
}

/** Values that are used for a while. */
class Recent<V> {
  readonly #known = new Map<string, { readonly value: V; readonly until: number }>();

  get(name: string, now: number): { readonly value: V } | undefined {
    const found = this.#known.get(name);
    return found === undefined || found.until <= now ? undefined : found;
  }

  forget(name: string): void {
    this.#known.delete(name);
  }

  set(name: string, value: V, until: number): void {
    if (this.#known.size >= knownMax) this.#known.clear();
    this.#known.set(name, { value, until });
  }
}

export const noVersioning = (): DestinationAway =>
  new DestinationAway('no-versioning', 'the bucket at the peer has no versioning: enable it there');

type BandwidthOf = (account: string) => Bandwidth;

interface OpenDestination {
  readonly peer: ReplicationPeerRow;
  readonly access: PeerAccess;
  /** What keeps the bandwidth for an account; undefined where the peer has none. */
  readonly bandwidthOf: BandwidthOf | undefined;
}

export class Destinations {
  readonly #large = new LargeTurns();
  /** By peer. */
  readonly #small = new Map<string, SharedSemaphore>();
  readonly late = new LateVersions();
  readonly #sites = new Recent<PeerSite | undefined>();
  readonly #locks = new Recent<boolean>();
  readonly #buckets = new Recent<BucketRow>();
  readonly #opened = new Map<string, { readonly revision: Revision; readonly access: PeerAccess }>();
  readonly #bandwidths = new Map<string, { readonly bandwidth: number; readonly bandwidthOf: BandwidthOf }>();

  /** Sends a version in a turn of its account at this peer. Nothing of the version is read before. */
  runSmall<T>({ peer, account }: Sender, work: () => Promise<T>): Promise<T> {
    let turns = this.#small.get(peer);
    if (turns === undefined) {
      // Rows of rules from before may name peers that do not exist.
      if (this.#small.size >= knownMax) this.#small.clear();
      turns = new SharedSemaphore(smallTurnsMax);
      this.#small.set(peer, turns);
    }
    return turns.run(account, work);
  }

  /** Sends a large content in a turn of its peer, or in one that all peers share. */
  runLarge<T>(sender: Sender, work: () => Promise<T>): Promise<T> {
    return this.#large.run(sender, work);
  }

  /** The bucket of a task; undefined where it was deleted, and perhaps made again. */
  async findSource(
    { metadata, clock }: Pick<Ctx, 'metadata' | 'clock'>,
    { bucket, bucketId }: Pick<ReplicationTask, 'bucket' | 'bucketId'>,
  ): Promise<BucketRow | undefined> {
    const now = clock.elapsed();
    const known = this.#buckets.get(bucket, now);
    // Another id may be that of the bucket before this one.
    if (known?.value.id === bucketId) return known.value;
    const found = (await findBucket(metadata, bucket))?.row;
    if (found?.id !== bucketId) return undefined;
    this.#buckets.set(bucket, found, now + bucketMs);
    return found;
  }

  /** @throws DestinationAway */
  async open(ctx: Ctx, { peer }: Destination): Promise<OpenDestination> {
    // Read each time: versions go to no former endpoint once a change of the peer was answered.
    const found = await findReplicationPeer(ctx.metadata, peer);
    if (found === undefined)
      throw new DestinationAway(
        'no-peer',
        `there is no replication peer ${peer}: PUT /admin/v1/replication/peers/${peer}`,
      );
    const access = await this.#openAccess(ctx, found);
    if (access === undefined)
      throw new DestinationAway(
        'sealed-keys',
        `the master key does not open the keys of peer ${peer}: PUT the peer again`,
      );
    return { peer: found.row, access, bandwidthOf: this.#findBandwidth(ctx.clock, found.row) };
  }

  /** Whether the peer has another endpoint by now than the one that was opened. @throws DestinationAway where it is gone */
  async hasMoved(ctx: Ctx, destination: Destination, { endpoint }: PeerAccess): Promise<boolean> {
    return (await this.open(ctx, destination)).access.endpoint !== endpoint;
  }

  /** What the peer says about its bucket; undefined where it is no gateway of this kind. */
  async describe(
    ctx: Ctx,
    { destination, access }: { readonly destination: Destination; readonly access: PeerAccess },
    signal: AbortSignal,
  ): Promise<PeerSite | undefined> {
    const name = `${nameDestination(destination)} ${access.endpoint}`;
    const now = ctx.clock.elapsed();
    const known = this.#sites.get(name, now);
    if (known !== undefined) return known.value;
    const site = await askSite(ctx, access, destination.bucket, signal).catch((cause: unknown) => {
      throw new DescriptionFailed(cause);
    });
    // One that cannot take versions is asked again, because its operator may just be enabling versioning.
    if (site === undefined || site.versioning === 'Enabled') this.#sites.set(name, site, now + siteMs);
    return site;
  }

  /** Asks again what the peer says about its bucket. @throws DescriptionFailed, DestinationAway */
  async probe(
    ctx: Ctx,
    at: { readonly destination: Destination; readonly access: PeerAccess },
    signal: AbortSignal,
  ): Promise<void> {
    this.#sites.forget(`${nameDestination(at.destination)} ${at.access.endpoint}`);
    const site = await this.describe(ctx, at, signal);
    if (site !== undefined && site.versioning !== 'Enabled') throw noVersioning();
  }

  /** Whether the bucket of another S3 service has Object Lock. */
  async hasLock(
    ctx: Ctx,
    { destination, access }: { readonly destination: Destination; readonly access: PeerAccess },
    signal: AbortSignal,
  ): Promise<boolean> {
    const name = `${nameDestination(destination)} ${access.endpoint}`;
    const now = ctx.clock.elapsed();
    const known = this.#locks.get(name, now);
    if (known !== undefined) return known.value;
    const hasLock = await askLock(ctx, { access, to: destination.bucket, signal });
    this.#locks.set(name, hasLock, now + siteMs);
    return hasLock;
  }

  /** Keys are unsealed once for each change of the peer. Undefined where the master key does not open them. */
  async #openAccess(
    ctx: Ctx,
    { row, revision }: Stored<ReplicationPeerRow>,
  ): Promise<PeerAccess | undefined> {
    const known = this.#opened.get(row.id);
    if (known?.revision === revision) return known.access;
    const access = await openAccess(ctx, row);
    if (access !== undefined) this.#opened.set(row.id, { revision, access });
    return access;
  }

  /** One rate for everything that is sent to a peer, which the accounts share. */
  #findBandwidth(clock: Context['clock'], { id, bandwidth }: ReplicationPeerRow): BandwidthOf | undefined {
    if (bandwidth === undefined) return undefined;
    const known = this.#bandwidths.get(id);
    if (known?.bandwidth === bandwidth) return known.bandwidthOf;
    const bandwidthOf = openBandwidth(clock, bandwidth);
    this.#bandwidths.set(id, { bandwidth, bandwidthOf });
    return bandwidthOf;
  }
}
