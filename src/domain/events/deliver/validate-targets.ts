/** Asks targets to take a test event before a configuration that names them is stored. */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import { type NewConfiguration, testEvent } from '../events.ts';

type Ctx = Pick<Context, 'clock' | 'telemetry' | 'sinks'>;

const deliveriesMax = 4;

/** @returns the targets that did not take it; the log has the reasons, which are for operators */
export async function refusingTargets(
  ctx: Ctx,
  targets: Iterable<string>,
  { bucket, requestId, signal }: NewConfiguration & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const body = JSON.stringify(testEvent(ctx, { bucket, requestId }));
  const refusing: string[] = [];
  await inParallel(deliveriesMax, [...targets], async (target) => {
    const sink = (await ctx.sinks?.open(target)) ?? 'this process has no sinks';
    const message = {
      id: `${requestId}/test/${target}`,
      subject: bucket.name,
      body,
      contentType: 'application/json',
    };
    const error = typeof sink === 'string' ? sink : (await sink.deliver([message], signal)).failure?.error;
    if (error === undefined) return;
    refusing.push(target);
    ctx.telemetry.log('WARN', 'a target did not take the test event; the configuration is not stored', {
      target,
      bucket: bucket.name,
      error,
      request_id: requestId,
    });
  });
  return refusing;
}
