/** Delivers rows of the queue `notify` to their targets, those of an object in order, and removes the ones that are done. */
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { finishHourlyRows } from '../../metadata/background/hourly-consumer.ts';
import { deadLetter } from '../../metadata/background/queues.ts';
import { type HourlyRow, notifyTask } from '../../metadata/records/queues.ts';
import type { Delivery, EventSink, SinkFailure, SinkMessage } from '../../ports/event-sink.ts';
import type { Trace } from '../../ports/trace.ts';
import { beginDelivery } from '../deliveries/delivery-trace.ts';
import { describeDelivery, readSubject, wrapMessage } from '../events/envelope.ts';
import type { LaneQueue, Pass } from '../lanes/pass.ts';
import { nameObject, type Subject } from '../lanes/target-states.ts';
import { splitServed } from './served-targets.ts';

export type NotifyCtx = Pick<
  Context,
  'caches' | 'credentials' | 'metadata' | 'clock' | 'random' | 'hasher' | 'telemetry' | 'sinks' | 'tracer'
> & {
  readonly config: Pick<
    Config,
    'SVC_NOTIFY_TARGETS' | 'SVC_NOTIFY_RETRY_MAX' | 'SVC_NOTIFY_DLQ_RETENTION' | 'SVC_NOTIFY_INTERVAL'
  >;
};

/** A row has up to 24 KiB. */
const batchMax = 32;
/** How long messages that are on their way when the worker stops may still be acknowledged, so that the next leader does not repeat them. */
const lastAnswersMs = 1_000;

export const notifyQueue = (ctx: NotifyCtx): LaneQueue => ({
  queue: 'notify',
  batchMax,
  targets: ctx.config.SVC_NOTIFY_TARGETS.map(({ id }) => id),
  retryMaxMs: ctx.config.SVC_NOTIFY_RETRY_MAX,
  subjectOf: (row) => readRowSubject(ctx, row),
  // Two changes of an object in one millisecond are ordered by their sequencers; the ids of requests have no order.
  compare: (a, b) => compare(readSequencer(a), readSequencer(b)) || compare(a.id, b.id),
  deliver: (target, rows, pass) => deliverRows(ctx, { target, rows, pass }),
  giveUp: (rows, why) => giveUp(ctx, rows, why),
});

function readRowSubject({ credentials }: Pick<NotifyCtx, 'credentials'>, row: HourlyRow): Subject {
  const { sink, message, account } = notifyTask(row);
  const { bucket, key = '' } = readSubject(message);
  return {
    target: sink,
    tenant: bucket,
    // Rows of older builds name the bucket only.
    ...(credentials.soleAccount === undefined ? { account: account ?? `bucket ${bucket}` } : {}),
    object: nameObject(sink, bucket, key),
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const readSequencer = (row: HourlyRow): string => readSubject(notifyTask(row).message).sequencer ?? '';

interface Group {
  readonly target: string;
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
}

async function deliverRows(ctx: NotifyCtx, { target, rows, pass }: Group): Promise<void> {
  const { served, refused } = await splitServed(ctx, rows);
  for (const [row, error] of refused) {
    await giveUp(ctx, [row], { error, attempts: 0 });
    pass.finished([row]);
  }
  let left = served;
  let batch = batchMax;
  while (true) {
    left = left.filter((row) => pass.mayTry(row));
    const [first] = left;
    if (first === undefined) return;
    const sink = (await ctx.sinks?.open(target)) ?? 'this process has no sinks';
    // After the last wait before `send`, which learns only of a later end of the signal.
    pass.signal.throwIfAborted();
    if (typeof sink === 'string')
      return reportAway(ctx, { target, pass, failure: { kind: 'unavailable', error: sink } });
    const sent = left.slice(0, batch);
    const trace = beginDelivery(ctx, 'notify', {
      rows: sent,
      about: target,
      kind: 'producer',
      describe: () => describeDelivery(ctx.config.SVC_NOTIFY_TARGETS, target, sent.length),
    });
    const messages = sent.map(toMessage(ctx, target, trace?.traceparent));
    const { delivered, failure } = await traced(trace, send(ctx, { sink, messages, signal: pass.signal }));
    if (delivered > 0) {
      await finishHourlyRows(ctx.metadata, sent.slice(0, delivered));
      pass.delivered(sent.slice(0, delivered));
      ctx.telemetry.count('svc_notify_delivered_total', { target }, delivered);
    }
    left = left.slice(delivered);
    const [failed] = left;
    if (failure === undefined || failed === undefined) continue;
    if (failure.kind === 'unavailable') return reportAway(ctx, { target, pass, failure });
    if (failure.kind === 'lost' && sent.length - delivered > 1) {
      // Any of them may be the cause: from now on each goes alone.
      batch = 1;
      continue;
    }
    left = left.slice(1);
    if (failure.kind === 'refused') {
      ctx.telemetry.count('svc_notify_failures_total', { target, why: 'refused' });
      await giveUp(ctx, [failed], { error: failure.error, attempts: 1 });
      pass.finished([failed]);
    } else reportFailed(ctx, failed, { target, pass, failure });
  }
}

/** Ends within `lastAnswersMs` of the signal, which has not aborted yet. */
async function send(
  { clock }: Pick<NotifyCtx, 'clock'>,
  {
    sink,
    messages,
    signal,
  }: { readonly sink: EventSink; readonly messages: readonly SinkMessage[]; readonly signal: AbortSignal },
): Promise<Delivery> {
  const over = new AbortController();
  const answered = new AbortController();
  const stop = (): void =>
    void clock.sleep(lastAnswersMs, answered.signal).then(() => over.abort(signal.reason));
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await sink.deliver(messages, over.signal);
  } finally {
    signal.removeEventListener('abort', stop);
    answered.abort();
  }
}

async function traced(trace: Trace | undefined, delivering: Promise<Delivery>): Promise<Delivery> {
  let code: string | undefined;
  try {
    const delivery = await delivering;
    code = delivery.failure?.kind;
    return delivery;
  } finally {
    trace?.end({ code });
  }
}

type Failed = Pick<Group, 'target' | 'pass'> & { readonly failure: SinkFailure };

function reportAway(ctx: NotifyCtx, { target, pass, failure: { error } }: Failed): void {
  pass.unavailable(target, error);
  ctx.telemetry.count('svc_notify_failures_total', { target, why: 'unavailable' });
  const failures = pass.failuresOf(target);
  ctx.telemetry.log('WARN', 'a target takes no events; they stay queued', { target, error, failures });
}

function reportFailed(ctx: NotifyCtx, row: HourlyRow, { target, pass, failure: { error } }: Failed): void {
  pass.refused(row, error);
  ctx.telemetry.count('svc_notify_failures_total', { target, why: 'failed' });
  const { bucket, key } = readSubject(notifyTask(row).message);
  ctx.telemetry.log('WARN', 'a target does not take an event; it and later ones of its object are retried', {
    target,
    bucket,
    key,
    error,
  });
}

/** Rows become dead letters. The letter is written first: a kill between the two writes leaves both, and loses none. */
async function giveUp(
  { metadata, telemetry, config }: NotifyCtx,
  rows: readonly HourlyRow[],
  { error, attempts }: { readonly error: string; readonly attempts: number },
): Promise<void> {
  for (const row of rows) {
    const now = await metadata.now();
    const expiresAt = now + config.SVC_NOTIFY_DLQ_RETENTION;
    const tried = { ...row, attempts: row.attempts + attempts };
    await metadata.apply([deadLetter(tried, { error, now, expiresAt })]);
    await finishHourlyRows(metadata, [row]);
    telemetry.count('svc_notify_dead_letters_total', { target: notifyTask(row).sink });
  }
}

const toMessage =
  ({ config, hasher }: NotifyCtx, target: string, traceparent: string | undefined) =>
  (row: HourlyRow): SinkMessage => {
    const { message, storageClass } = notifyTask(row);
    const envelope = config.SVC_NOTIFY_TARGETS.find(({ id }) => id === target)?.envelope ?? 's3';
    const { bucket, key } = readSubject(message);
    return {
      id: row.id,
      subject: key === undefined ? bucket : `${bucket}/${key}`,
      traceparent,
      ...wrapMessage(message, { row, envelope, storageClass, hasher }),
    };
  };
