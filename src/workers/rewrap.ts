/** `rewrap`: wraps stored keys again when an operator asks for it, a page at a time. */
import type { Context } from '../context.ts';
import { findRewrapping, rewrapStep, saveRewrapping } from '../domain/storage/rewrap.ts';
import { inSteps } from './worker.ts';

type RewrapContext = Pick<
  Context,
  'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'keys' | 'telemetry'
>;

export const rewrapKeys = inSteps<RewrapContext, undefined>({
  begin: () => undefined,
  async step(context) {
    const task = await findRewrapping(context);
    // A process without the provider leaves the task to one that has it.
    if (task === undefined || task.state.finishedAt !== undefined || context.keys?.rewrap === undefined)
      return { is: 'idle', nothingBefore: Number.POSITIVE_INFINITY };
    const next = await rewrapStep(context, task.state);
    await saveRewrapping(context, task, next);
    const hasLeft = (next.left?.length ?? 0) > (task.state.left?.length ?? 0);
    return { is: hasLeft ? 'idle' : 'busy', done: looked(next) - looked(task.state) };
  },
});

const looked = ({
  counts: { signingKeys, objects, uploads, current, failed },
}: {
  readonly counts: Readonly<Record<'signingKeys' | 'objects' | 'uploads' | 'current' | 'failed', number>>;
}): number => signingKeys + objects + uploads + current + failed;
