/** `access-log`: writes the queued lines of access logs into the target buckets, one pass each time. */
import { mayServiceWrite } from '../auth/authorization/replication-role.ts';
import { type Ctx, deliverLogs } from '../domain/deliveries/access-log-delivery.ts';
import { beginLogs } from '../metadata/background/log-batches.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

export type AccessLogContext = Omit<Ctx, 'mayWrite'>;

/** @param generation of the leader's lease */
export const deliverAccessLogs = (
  context: AccessLogContext,
  generation = 0,
  services = unsupervised,
): Unit => {
  const ctx: Ctx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
  let term: Term | undefined;
  return async (signal) => {
    term ??= await beginLogs(context.metadata, generation);
    const pause = async (): Promise<void> => {
      await services.yieldToClients(signal);
      // Reads of an embedded store never wait, so without this pause no request of this process would be served.
      await context.clock.sleep(0, signal);
    };
    await deliverLogs(ctx, { term, signal, pause });
    return 'idle';
  };
};
