/** `access-log`: writes the queued lines of access logs into the target buckets, one pass each time. */
import { mayServiceWrite } from '../auth/authorization/service-write.ts';
import type { Ctx } from '../domain/deliveries/access-log/deliver-logs.ts';
import { deliverLogs } from '../domain/deliveries/access-log/deliver-logs.ts';
import { beginLogs } from '../metadata/background/log-batches.ts';
import type { Term } from '../metadata/background/tasks.ts';
import type { Unit } from './supervision/worker.ts';

export type AccessLogContext = Omit<Ctx, 'mayWrite'>;

/** @param generation of the leader's lease */
export const deliverAccessLogs = (context: AccessLogContext, generation = 0): Unit => {
  const ctx: Ctx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
  let term: Term | undefined;
  return async (signal) => {
    term ??= await beginLogs(context.metadata, generation);
    await deliverLogs(ctx, { term, signal });
    return 'idle';
  };
};
