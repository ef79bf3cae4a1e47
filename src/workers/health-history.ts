/** `health-history`: probes storage, and writes down each change of its health. */
import type { Context } from '../context.ts';
import { beginHistory, recordHealth } from '../domain/storage/health-history.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

/** @param generation of the leader's lease: one process probes, because two may not reach the same nodes */
export const keepHealthHistory = (
  context: Pick<Context, 'metadata' | 'bytes' | 'config'>,
  generation = 0,
  services = unsupervised,
): Unit => {
  let term: Term | undefined;
  return async () => {
    term ??= await beginHistory(context, generation);
    if (await recordHealth(context, term)) services.report({ done: 1 });
    return 'idle';
  };
};
