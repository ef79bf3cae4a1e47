/** An operator's change of a cluster. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { type ClusterPut, findCluster, putClusters } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import type { SideChange } from '../../../ports/metadata-store.ts';
import { type Recorder, recorded } from '../../events/recorder.ts';
import { moved, statesFor, type Trigger } from './transitions.ts';

type Ctx = Pick<Context, 'metadata' | 'clusterStates'>;

const attemptsMax = 8;

export interface ClusterChange {
  readonly trigger: Trigger;
  readonly weight?: number;
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present row. */
  readonly check?: ((present: ClusterRow) => void) | undefined;
}

export async function openCluster(ctx: Pick<Ctx, 'metadata'>, id: string): Promise<ClusterRow> {
  const found = await findCluster(ctx.metadata, id);
  if (found === undefined) throw noSuchCluster(id);
  return found.row;
}

const noSuchCluster = (id: string) =>
  fail('NoSuchCluster', { message: `There is no cluster ${id}.`, elements: { Cluster: id } });

/**
 * After it returns, every process of this node places writes by the new state; other gateways follow within 30 s, the lifetime of
 * their cached view. This also holds where the outcome of the commit is unknown, because the change may have applied.
 */
export async function changeCluster(ctx: Ctx, id: string, change: ClusterChange): Promise<ClusterRow> {
  const { trigger, weight, record } = change;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findCluster(ctx.metadata, id);
    if (found === undefined) throw noSuchCluster(id);
    change.check?.(found.row);
    const { emptiedAt, ...former } = found.row;
    const state = moved(former.state, trigger);
    if (state === undefined)
      throw fail(
        'InvalidClusterState',
        `Cluster ${id} is ${former.state}; ${trigger} applies to: ${statesFor(trigger).join(', ')}.`,
      );
    const stays = state === former.state;
    const row: ClusterRow = {
      ...former,
      state,
      ...(weight === undefined ? {} : { weight }),
      ...(stays ? {} : { since: await ctx.metadata.now() }),
      ...(stays && emptiedAt !== undefined ? { emptiedAt } : {}),
    };
    record?.change?.(clusterState(found.row), clusterState(row));
    const isApplied = await committed(ctx, { row, found }, await recorded(record));
    if (!isApplied) continue;
    record?.applied();
    return row;
  }
  throw fail('OperationAborted');
}

const clusterState = ({ state, weight }: ClusterRow) => ({ state, weight });

async function committed(ctx: Ctx, put: ClusterPut, then: readonly SideChange[]): Promise<boolean> {
  try {
    return (await putClusters(ctx.metadata, [put], then)).applied;
  } finally {
    await ctx.clusterStates.changed();
  }
}
