/** `rewrap`: wraps stored keys again when an operator asks for it, a page at a time. */
import type { Context } from '../context.ts';
import { findRewrapping, rewrapStep, saveRewrapping } from '../domain/storage/rewrap.ts';
import { type Unit, unsupervised } from './worker.ts';

export const rewrapKeys =
  (
    context: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'keys' | 'telemetry'>,
    _generation = 0,
    services = unsupervised,
  ): Unit =>
  async () => {
    const task = await findRewrapping(context);
    // A process without the provider leaves the task to one that has it.
    if (task === undefined || task.state.finishedAt !== undefined || context.keys?.rewrap === undefined) {
      services.idle?.nothingBefore(Number.POSITIVE_INFINITY);
      return 'idle';
    }
    const next = await rewrapStep(context, task.state);
    await saveRewrapping(context, task, next);
    services.report({ done: looked(next) - looked(task.state) });
    return 'busy';
  };

const looked = ({
  counts: { signingKeys, objects, uploads, current, failed },
}: {
  readonly counts: Readonly<Record<'signingKeys' | 'objects' | 'uploads' | 'current' | 'failed', number>>;
}): number => signingKeys + objects + uploads + current + failed;
