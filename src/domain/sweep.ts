/** Finishes or undoes what dead processes left behind (design §5): runs in every gateway, and as often as it likes. */
import type { Context } from '../context.ts';
import type { Abandoned } from '../ports/metadata-store.ts';
import type { Extent } from '../ports/object-bytes.ts';
import { extentsPerTask, queueGarbage } from './garbage.ts';
import { isOwned, type Ownership, openOwnership } from './ownership.ts';

export type SweepContext = Pick<Context, 'metadata' | 'bytes'>;

const sweepId = 'sweep';

/**
 * Examines every abandoned intent once. Nothing can be committed under one any more, so the rows tell
 * which of its bytes are owned; the others are queued for deletion, and only then the intent is settled.
 * A sweep that dies before that is repeated, by any process: what it queues twice is deleted once.
 * When a read fails it throws, having deleted nothing that it did not know.
 */
export async function sweep(context: SweepContext, signal: AbortSignal): Promise<'busy' | 'idle'> {
  const abandoned = await context.metadata.abandoned();
  // Opened after the intents were taken, so that every bucket that they could have written to is in it.
  const ownership = abandoned.length === 0 ? undefined : await openOwnership(context);
  for (const intent of abandoned) {
    if (ownership === undefined || !(await examine(context, { intent, ownership, signal }))) return 'idle';
    await context.metadata.settle(intent);
  }
  return 'idle';
}

/** Queues what lacks an owner under one intent; false when the signal ended it before the end. */
async function examine(
  context: SweepContext,
  run: { readonly intent: Abandoned; readonly ownership: Ownership; readonly signal: AbortSignal },
): Promise<boolean> {
  const { bytes } = context;
  const { prefix, cluster } = run.intent;
  let orphans: Extent[] = [];
  for (const each of cluster === undefined ? bytes.clusters : [cluster]) {
    for await (const found of bytes.find(each, prefix)) {
      if (run.signal.aborted) return false;
      if (await isOwned(context, run.ownership, found)) continue;
      orphans.push(found.extent);
      if (orphans.length < extentsPerTask) continue;
      await queueOrphans(context, orphans);
      orphans = [];
    }
  }
  if (orphans.length > 0) await queueOrphans(context, orphans);
  return true;
}

/** Due at once: nobody ever saw these bytes, so nobody reads them. */
async function queueOrphans({ metadata }: SweepContext, orphans: readonly Extent[]): Promise<void> {
  const due = await metadata.now();
  await metadata.apply([queueGarbage(orphans, { id: sweepId, requestId: sweepId, due })]);
}
