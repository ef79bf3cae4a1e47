/** Chooses the cluster of a new write. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { chooseCluster, type Wish } from './policy.ts';

type Ctx = Pick<Context, 'config' | 'clusterStates'>;

export interface Placing {
  readonly bucket: Pick<BucketRow, 'placement' | 'placementMode'>;
  readonly storageClass: string;
}

/** @throws DrainRefused */
export async function placeWrite(ctx: Ctx, placing: Placing, seed: string): Promise<string> {
  const view = await ctx.clusterStates.view();
  const wish = readWish(ctx, placing);
  if (wish === noWish && view.only !== undefined) return view.only;
  const cluster = chooseCluster(view, wish, seed);
  if (cluster === undefined) throw fail('DrainRefused');
  return cluster;
}

const noWish: Wish = {};

/** The placement rules of the settings for the storage class, and of the bucket. */
export function readWish({ config }: Pick<Ctx, 'config'>, { bucket, storageClass }: Placing): Wish {
  const { SVC_STORAGE_CLASSES: classes } = config;
  const pin = classes.length === 0 ? undefined : findPin(classes, storageClass);
  const { placement, placementMode } = bucket;
  return pin === undefined && placement === undefined ? noWish : { pin, placement, placementMode };
}

/** A class that is pinned to several clusters has an item for each. */
function findPin(classes: Ctx['config']['SVC_STORAGE_CLASSES'], storageClass: string): Wish['pin'] {
  const pins = classes.flatMap((each) =>
    each.storageClass === storageClass && each.cluster !== undefined ? [each.cluster] : [],
  );
  return pins.length <= 1 ? pins[0] : pins;
}
