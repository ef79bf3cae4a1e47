/** Replication peers: other S3 services that an operator has named. Their keys are sealed and never shown again. */

import type { Caches } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import { dueRowsInShares, listDueHours } from '../../metadata/background/hourly-consumer.ts';
import {
  commitReplicationPeer,
  findReplicationPeer,
  scanReplicationPeers,
} from '../../metadata/background/replication.ts';
import { everyBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import type { PeerAccount, ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import type { PeerAccess } from '../../ports/peer-requests.ts';
import type { State } from '../common/recorder.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketReplication } from '../configurations/families.ts';
import {
  nameDestination,
  readDestination,
  replicationTask,
  rowDestination,
} from '../configurations/replication-destination.ts';

type Ctx = Pick<Context, 'caches' | 'clock' | 'metadata' | 'random' | 'sealer'>;

/** One page of a scan; a peer has at most 68 KiB and its accounts. */
const peersMax = 100;

const mutexKey = 'replication peers';
const sealedFor = (id: string): string => `replication peer ${id}`;
const noSuchPeer = (id: string) => fail('NotFound', `There is no replication peer ${id}.`);

export const listPeers = async ({
  metadata,
}: Pick<Ctx, 'metadata'>): Promise<readonly ReplicationPeerRow[]> =>
  (await scanReplicationPeers(metadata, peersMax)).map(({ row }) => row);

/** @throws NotFound */
export async function openPeer({ metadata }: Pick<Ctx, 'metadata'>, id: string): Promise<ReplicationPeerRow> {
  const found = await findReplicationPeer(metadata, id);
  if (found === undefined) throw noSuchPeer(id);
  return found.row;
}

interface PeerPut {
  readonly access: PeerAccess;
  readonly bandwidth: number | undefined;
  readonly accounts: readonly PeerAccount[] | undefined;
  readonly record: Recorder | undefined;
  /** Refuses the change by the present row. */
  readonly check: (present: ReplicationPeerRow | undefined) => void;
}

/** Adds the peer, or replaces all of it. @throws LimitExceeded */
export async function putPeer(
  ctx: Ctx,
  id: string,
  { access, bandwidth, accounts, record, check }: PeerPut,
): Promise<ReplicationPeerRow> {
  const { metadata, sealer } = ctx;
  const { accessKey, secretKey, key, ...visible } = access;
  const plain = new TextEncoder().encode(JSON.stringify({ accessKey, secretKey, key }));
  const sealedKeys = btoa(String.fromCharCode(...(await sealer.seal(plain, sealedFor(id)))));
  return retryInTurn(ctx, mutexKey, async () => {
    const found = await findReplicationPeer(metadata, id);
    check?.(found?.row);
    if (found === undefined && (await listPeers(ctx)).length >= peersMax)
      throw fail('LimitExceeded', `There are ${peersMax} replication peers already.`);
    const row: ReplicationPeerRow = {
      ...visible,
      ...(bandwidth === undefined ? {} : { bandwidth }),
      ...(accounts === undefined ? {} : { accounts }),
      ...{ slot: 0, id, sealedKeys, changedAt: await metadata.now() },
    };
    record?.change?.(found && peerState(found.row), peerState(row));
    const change = { put: row, expect: found?.revision ?? ('absent' as const) };
    const outcome = await commitReplicationPeer(metadata, change, await recorded(record));
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: row };
  });
}

/** Never the keys, sealed or not. */
const peerState = ({ sealedKeys: _, slot: __, ...row }: ReplicationPeerRow): State => row;

/** @throws NotFound; DeleteConflict while a rule names the peer or versions wait for it */
export const deletePeer = (
  ctx: Ctx,
  id: string,
  { record, check }: Pick<PeerPut, 'record' | 'check'>,
): Promise<void> =>
  retryInTurn(ctx, mutexKey, async () => {
    const found = await findReplicationPeer(ctx.metadata, id);
    if (found === undefined) throw noSuchPeer(id);
    check?.(found.row);
    await assertUnused(ctx, id);
    record?.change?.(peerState(found.row), undefined);
    const change = { remove: { id }, expect: found.revision };
    const outcome = await commitReplicationPeer(ctx.metadata, change, await recorded(record));
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: undefined };
  });

/** Versions that wait for a peer that is gone fail one by one, and the operator could not add it again with the same keys. */
async function assertUnused(ctx: Pick<Ctx, 'caches' | 'clock' | 'metadata'>, id: string): Promise<void> {
  for await (const name of everyBucket(ctx.metadata)) {
    const row = (await findBucket(ctx.metadata, name))?.row;
    if (row === undefined || !(bucketReplication.name in row.documents)) continue;
    const rules = (await readDocument(ctx, row, bucketReplication))?.Rule ?? [];
    if (rules.some(({ Destination }) => readDestination(Destination.Bucket)?.peer === id))
      throw fail(
        'DeleteConflict',
        `The replication rule of bucket ${name} names the peer ${id}: remove the rule first.`,
      );
  }
  for (const [destination, { waiting }] of await countWaiting(ctx))
    if (waiting > 0 && destination.startsWith(`${id}/`))
      throw fail(
        'DeleteConflict',
        `At least ${waiting} versions wait for ${destination}: wait until they are sent, or given up.`,
      );
}

/** The peer with its keys; undefined where the master key does not open them. */
export async function openAccess(
  { sealer }: Pick<Ctx, 'sealer'>,
  { id, endpoint, region, sealedKeys, ca, cert, proxy }: ReplicationPeerRow,
): Promise<PeerAccess | undefined> {
  const sealed = Uint8Array.from(atob(sealedKeys), (char) => char.charCodeAt(0));
  const plain = await sealer.open(sealed, sealedFor(id));
  if (plain === undefined) return undefined;
  const { accessKey, secretKey, key } = JSON.parse(decodeUtf8(plain));
  return {
    ...{ endpoint, region, accessKey, secretKey },
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(proxy === undefined ? {} : { proxy }),
  };
}

// How much waits for replication, by destination. The count is bounded: each slot of the queue gets an equal share of
// what is left to read, so every destination is found, and its oldest version. A process counts for at most a twentieth
// of its time.

type WaitingCtx = Pick<Context, 'metadata' | 'clock'> & { readonly caches: Caches };

/** Rows that a count reads. */
const countedMax = 20_000;
/** A count is used again for this many times the time that it took. */
const reusedFor = 20;

interface Backlog {
  waiting: number;
  /** The contents that are to be sent. */
  bytes: number;
  /** Store time (ms). */
  oldest: number;
}

interface Waiting extends Backlog {
  /** More versions wait than were counted. */
  isCut: boolean;
  /** The same of each bucket, by its id. */
  readonly ofBuckets: Map<string, Backlog>;
}

function addTo(backlog: Backlog, { due, bytes }: { readonly due: number; readonly bytes: number }): void {
  backlog.waiting += 1;
  backlog.bytes += bytes;
  backlog.oldest = Math.min(backlog.oldest, due);
}

type Counts = ReadonlyMap<string, Readonly<Waiting>>;

class LastCount {
  last: { readonly counts: Promise<Counts>; until: number } | undefined;
}

/** The versions that wait, by destination. */
export function countWaiting(ctx: WaitingCtx): Promise<Counts> {
  const known = ctx.caches.of(LastCount);
  const startedAt = ctx.clock.elapsed();
  if (known.last !== undefined && known.last.until > startedAt) return known.last.counts;
  const last = { counts: count(ctx), until: Number.POSITIVE_INFINITY };
  known.last = last;
  last.counts.then(
    () => {
      const now = ctx.clock.elapsed();
      last.until = now + (now - startedAt) * reusedFor;
    },
    () => {
      known.last = undefined;
    },
  );
  return last.counts;
}

async function count(ctx: WaitingCtx): Promise<Counts> {
  const now = await ctx.metadata.now();
  const counts = new Map<string, Waiting>();
  const places = await listDueHours(ctx, 'replication', now);
  for await (const { row, isCut } of dueRowsInShares(ctx, places, { now, max: countedMax })) {
    const name = nameDestination(rowDestination(row));
    const { bucketId, bytes = 0 } = replicationTask(row);
    const none = { waiting: 0, bytes: 0, oldest: row.due };
    const waiting = counts.get(name) ?? { ...none, isCut: false, ofBuckets: new Map() };
    counts.set(name, waiting);
    const ofBucket = waiting.ofBuckets.get(bucketId) ?? none;
    waiting.ofBuckets.set(bucketId, ofBucket);
    for (const each of [waiting, ofBucket]) addTo(each, { due: row.due, bytes });
    waiting.isCut ||= isCut;
  }
  return counts;
}
