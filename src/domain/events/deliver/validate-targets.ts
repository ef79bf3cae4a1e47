/** Asks targets to take a test event: before a configuration that names them is stored, and for an operator. */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import type { SinkFailure } from '../../../ports/event-sink.ts';
import { type NewConfiguration, testEvent } from '../events.ts';

type Ctx = Pick<Context, 'clock' | 'telemetry' | 'sinks'>;

const deliveriesMax = 4;

export interface TestMessage {
  readonly requestId: string;
  /** What messages are ordered by: the bucket, or the test itself where it is about none. */
  readonly subject: string;
  readonly message: object;
  readonly signal: AbortSignal;
}

/** Delivers a test event at once, beside the queue. @returns why the target did not take it; undefined where it did */
export async function sendTestEvent(
  { sinks }: Pick<Context, 'sinks'>,
  target: string,
  { requestId, subject, message, signal }: TestMessage,
): Promise<SinkFailure | undefined> {
  const sink = (await sinks?.open(target)) ?? 'this process has no sinks';
  if (typeof sink === 'string') return { kind: 'unavailable', error: sink };
  const sent = {
    id: `${requestId}/test/${target}`,
    subject,
    body: JSON.stringify(message),
    contentType: 'application/json',
  };
  return (await sink.deliver([sent], signal)).failure;
}

/** @returns the targets that did not take it; the log has the reasons, which are for operators */
export async function refusingTargets(
  ctx: Ctx,
  targets: Iterable<string>,
  { bucket, requestId, signal }: NewConfiguration & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const message = testEvent(ctx, { bucket: bucket.name, requestId });
  const refusing: string[] = [];
  await inParallel(deliveriesMax, [...targets], async (target) => {
    const asked = { requestId, subject: bucket.name, message, signal };
    const failure = await sendTestEvent(ctx, target, asked);
    if (failure === undefined) return;
    refusing.push(target);
    ctx.telemetry.log('WARN', 'a target did not take the test event; the configuration is not stored', {
      target,
      bucket: bucket.name,
      error: failure.error,
      request_id: requestId,
    });
  });
  return refusing;
}
