/** The snapshot of the clusters' states that a process places its writes by. */
import type { Context } from '../../../context.ts';
import { everyCluster } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import type { ClusterStates, ClusterView } from '../../../ports/storage/cluster-states.ts';
import { defaultPolicy, isOpen } from '../placement/policy.ts';
import { reconcileClusters } from './reconcile.ts';
import { defaultWeight } from './transitions.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'clock' | 'telemetry' | 'siblings'>;

/** How long a process places writes by a cached view. */
const ttlMs = 30_000;
const topic = 'clusters';

/** The first view of a process reconciles the rows of clusters, and retries until the metadata store answers. */
export function openClusterStates(ctx: Ctx): ClusterStates {
  let held: { readonly view: ClusterView; readonly readAt: number } | undefined;
  let reading: Promise<ClusterView> | undefined;
  let isReconciled = false;

  async function read(): Promise<ClusterView> {
    if (isReconciled) {
      const found = await everyCluster(ctx.metadata);
      return buildView(
        ctx.bytes.clusters,
        found.map(({ row }) => row),
      );
    }
    const rows = await reconcileClusters(ctx);
    isReconciled = true;
    return buildView(ctx.bytes.clusters, rows);
  }

  function readAnew(): Promise<ClusterView> {
    const readAt = ctx.clock.elapsed();
    const mine: Promise<ClusterView> = read().then((view) => {
      // If the view was invalidated during the read, waiting callers still get it, and later callers read again.
      if (reading === mine) held = { view, readAt };
      return view;
    });
    const over = (): void => {
      if (reading === mine) reading = undefined;
    };
    mine.then(over, over);
    reading = mine;
    return mine;
  }

  const forget = (): void => {
    held = undefined;
    reading = undefined;
  };
  ctx.siblings.heed(topic, forget);
  return {
    async view() {
      if (held !== undefined && ctx.clock.elapsed() - held.readAt < ttlMs) return held.view;
      return reading ?? readAnew();
    },
    async changed() {
      forget();
      if (await ctx.siblings.announce({ topic, about: '' }, ttlMs)) return;
      ctx.telemetry.log('WARN', 'a process of this node did not acknowledge a change of a cluster', {
        waitedMs: ttlMs,
      });
    },
  };
}

/** A cluster without a row counts as live. */
export function buildView(
  listed: readonly string[],
  rows: readonly Pick<ClusterRow, 'id' | 'state' | 'weight'>[],
): ClusterView {
  const known = new Map(rows.map((row) => [row.id, row]));
  const clusters = listed.map(
    (id) => [id, known.get(id) ?? { state: 'live' as const, weight: defaultWeight }] as const,
  );
  const weights = defaultPolicy(clusters);
  const [only, second] = weights.keys();
  return {
    states: new Map(clusters.map(([id, { state }]) => [id, state])),
    weights,
    closed: new Set(clusters.filter(([, { state }]) => !isOpen(state)).map(([id]) => id)),
    only: second === undefined ? only : undefined,
    leftOut: rows.filter(({ id, state }) => state !== 'removed' && !listed.includes(id)).map(({ id }) => id),
  };
}
