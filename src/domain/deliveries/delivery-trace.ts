/** The trace of a delivery: it is linked to the requests that queued its rows, and follows their decision to be sampled. */
import type { Context } from '../../context.ts';
import type { HourlyRow } from '../../metadata/records/queues.ts';
import type { Attributes, Trace, TraceBeginning } from '../../ports/trace.ts';

interface Delivered {
  readonly rows: readonly HourlyRow[];
  /** The target or destination. */
  readonly about: string;
  readonly bucketName?: string;
  readonly key?: string;
  readonly kind: TraceBeginning['kind'];
  describe(): Attributes;
}

/** Undefined where nothing is traced. */
export const beginDelivery = (
  { tracer }: Pick<Context, 'tracer'>,
  worker: string,
  { rows, about, bucketName, key, kind, describe }: Delivered,
): Trace | undefined =>
  tracer?.begin({
    subject: {
      requestId: rows[0]?.requestId ?? '',
      operation: `worker:${worker}`,
      bucketName,
      key,
    },
    kind,
    describe: () => ({
      ...describe(),
      'sluice.worker': worker,
      'sluice.target': about,
      'sluice.request_ids': rows.map(({ requestId }) => requestId).join(' '),
    }),
    links: rows.flatMap(({ traceparent }) => (traceparent === undefined ? [] : [traceparent])),
  });

/** Runs a delivery as a trace, with a view of the context. */
export async function traceDelivery<C extends Pick<Context, 'tracer'>, T>(
  ctx: C,
  worker: string,
  delivered: Delivered,
  deliver: (view: C) => Promise<T>,
): Promise<T> {
  const trace = beginDelivery(ctx, worker, delivered);
  if (trace === undefined) return deliver(ctx);
  let code: string | undefined;
  try {
    return await deliver(trace.view(ctx));
  } catch (cause) {
    code = cause instanceof Error ? cause.constructor.name : 'Error';
    throw cause;
  } finally {
    trace.end({ code });
  }
}
