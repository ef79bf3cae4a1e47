/** The shard of a commit about a text while its shard splits, and the condition that keeps a mover from interfering. */

import { shardOf } from '../../../base/shard.ts';
import type { Clock } from '../../../ports/clock.ts';
import { type AnyTable, type At, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { leaves, locateText, type MovingRow, type Shards } from './layouts.ts';
import type { Mover } from './mover.ts';

const lookMs = 20;
/** A batch takes some tenths of a second. If it takes longer, the mover's lease has expired, and a waiting writer resumes the batch. */
const patientLooks = 25;
const looksMax = 500;

export interface Placed {
  readonly shard: number;
  /** The note of progress as the commit must find it; `revision` undefined: none. */
  readonly guard?: { readonly revision: string | undefined };
}

export interface PlacingPorts<Row extends MovingRow> {
  readonly shards: Pick<Shards<Row>, 'note'>;
  readonly mover: Pick<Mover<Row>, 'finish'>;
  readonly clock: Clock;
}

/** Waits while the text is on its way. */
export async function placed<Row extends MovingRow>(
  { shards, mover, clock }: PlacingPorts<Row>,
  at: At<AnyTable>,
  text: string,
): Promise<Placed> {
  const { ways = 1, splittingTo = ways } = at;
  const shard = shardOf(text, ways);
  if (splittingTo === ways || !leaves(text, ways)) return { shard };
  for (let look = 1; look <= looksMax; look += 1) {
    const note = await shards.note({ at, shard }, 'progress');
    const stand = locateText(text, note?.value.to === splittingTo ? note.value : undefined);
    if (stand === 'new') return { shard: shard + ways };
    if (stand === 'old') return { shard, guard: { revision: note?.revision } };
    if (look % patientLooks === 0) await mover.finish(at, shard);
    else await clock.sleep(lookMs);
  }
  throw new StoreUnavailable(`a shard of ${at.table.name} that splits does not let go of a row`);
}
