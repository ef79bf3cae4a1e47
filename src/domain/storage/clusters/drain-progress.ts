/** The progress of a drain, and whether the cluster can be removed from the settings. */
import type { Context } from '../../../context.ts';
import { rebalanceRows } from '../../../metadata/background/rebalance.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import type { Remaining } from '../../../metadata/records/rebalance.ts';
import { gcBacklog } from './gc-backlog.ts';
import { storedChunks } from './stored-chunks.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes'>;

/** What the rebalance worker counted on a cluster since its drain began. */
export interface Seen extends Remaining {
  readonly slots: number;
  readonly slotsSeen: number;
  /** Slots whose last pass began while other gateways could still begin uploads on the cluster. */
  readonly slotsSeenEarly: number;
  /** Store time of the oldest pass among those that were counted. */
  readonly seenAt: number | undefined;
}

export interface DrainProgress {
  readonly seen: Seen;
  /** Undefined when the settings do not list the cluster, so that it cannot be read. */
  readonly chunks: number | undefined;
  readonly gcQueue: number;
  readonly reasons: readonly string[];
}

/** How long other processes may place writes by a cached view, with a margin. */
const settledMs = 60_000;
/**
 * The same for a pass. It is shorter than `settledMs`, so that the pass does not delay the end of the drain. An open upload
 * without parts has no chunks: only a pass finds it.
 */
const passSettledMs = 45_000;

/** The earliest store time (ms) at which a pass may begin without missing an upload of another gateway. */
export const settledPassFrom = ({ since }: Pick<ClusterRow, 'since'>): number => since + passSettledMs;

export async function seenOn({ metadata }: Pick<Ctx, 'metadata'>, { id, since }: ClusterRow): Promise<Seen> {
  const rows = await rebalanceRows(metadata);
  const passes = rows
    .map(({ ended }) => ended)
    .filter((pass) => pass !== undefined && pass.startedAt >= since && pass.clusters.includes(id));
  const sum = { manifests: 0, bytes: 0, stuck: 0, failed: 0, uploads: 0 };
  for (const pass of passes)
    for (const name of Object.keys(sum) as (keyof Remaining)[]) sum[name] += pass?.found[id]?.[name] ?? 0;
  const slotsSeenEarly = passes.filter((pass) => (pass?.startedAt ?? 0) < settledPassFrom({ since })).length;
  const seenAt = passes.length === 0 ? undefined : Math.min(...passes.map((pass) => pass?.startedAt ?? 0));
  return { ...sum, slots: rows.length, slotsSeen: passes.length, slotsSeenEarly, seenAt };
}

export async function drainProgress(ctx: Ctx, row: ClusterRow): Promise<DrainProgress> {
  const seen = await seenOn(ctx, row);
  const { extents, elsewhere } = await gcBacklog(ctx);
  const isListed = ctx.bytes.clusters.includes(row.id);
  const chunks = isListed ? await storedChunks(ctx.bytes, row.id) : undefined;
  const gcQueue = extents.get(row.id) ?? 0;
  const ageMs = (await ctx.metadata.now()) - row.since;
  const reasons = reasonsAgainst(row, { seen, chunks, isListed, gcQueue, elsewhere, ageMs });
  return { seen, chunks, gcQueue, reasons };
}

interface Facts {
  readonly seen: Seen;
  readonly chunks: number | undefined;
  readonly isListed: boolean;
  readonly gcQueue: number;
  readonly elsewhere: number;
  readonly ageMs: number;
}

/** Why the cluster cannot be removed yet, one sentence for each reason; an empty list means that it can. */
function reasonsAgainst({ state }: ClusterRow, facts: Facts): readonly string[] {
  const { seen, chunks = 0, isListed, gcQueue, elsewhere, ageMs } = facts;
  // A cluster that was listed by mistake and never activated may be removed again.
  if (state !== 'evacuating' && (isListed || state !== 'pending'))
    return [`The cluster is ${state}: only one that is evacuating can be left out.`];
  const waits: readonly (readonly [boolean, string])[] = [
    [
      ageMs < settledMs,
      'The drain began less than a minute ago: writes that were placed before may be under way.',
    ],
    [
      seen.slotsSeen < seen.slots,
      `The rebalance worker has walked through ${seen.slotsSeen} of ${seen.slots} slots of buckets since the drain began.`,
    ],
    [
      ageMs >= settledMs && seen.slotsSeenEarly > 0,
      `The last walk of the rebalance worker passed ${seen.slotsSeenEarly} slots while other gateways could still begin uploads on it.`,
    ],
    [seen.manifests > 0, `${seen.manifests} object versions were still on it at the worker's last walk.`],
    [seen.stuck > 0, `${seen.stuck} of them have no other cluster that they may go to.`],
    [seen.failed > 0, `${seen.failed} of them could not be moved; the log says why.`],
    [seen.uploads > 0, `${seen.uploads} open uploads are bound to it: complete or abort them.`],
    [gcQueue > 0, `${gcQueue} extents on it wait to be deleted.`],
    [chunks > 0 && gcQueue === 0, `${chunks} chunks are stored on it.`],
    [
      elsewhere > 0 && (!isListed || (gcQueue === 0 && chunks > 0)),
      `${elsewhere} tasks of the deletion queue may have chunks on it.`,
    ],
  ];
  return waits.filter(([is]) => is).map(([, reason]) => reason);
}
