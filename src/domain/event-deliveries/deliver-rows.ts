/** Delivers rows of the queue `notify` to their targets, those of an object in order, and removes the ones that are done. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { inParallel } from '../../base/concurrency.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { finishHourlyRows } from '../../metadata/background/hourly-consumer.ts';
import { AbandonedTasks, deadLetter } from '../../metadata/background/queues.ts';
import { type HourlyRow, notifyTask } from '../../metadata/records/queues.ts';
import type { Delivery, EventSink, SinkFailure, SinkMessage } from '../../ports/event-sink.ts';
import type { Trace } from '../../ports/trace.ts';
import { beginDelivery } from '../deliveries/delivery-trace.ts';
import { describeDelivery, readSubject, wrapMessage } from '../events/envelope.ts';
import { labelTarget } from '../events/events.ts';
import type { LaneQueue, Pass } from '../lanes/pass.ts';
import { nameObject, nameSender, type Subject, senderAt } from '../lanes/target-states.ts';
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
/** Messages of the first delivery of an owner to a target, of which it is not known how long it needs for them. */
const firstBatch = 4;
/** How long one delivery is to take: what else of the owner waits then has its turn behind others. */
const deliveryMs = 500;
const ownersMax = 10_000;
/**
 * How long messages that are on their way when the worker stops may still be acknowledged, so that the next leader does
 * not repeat them.
 */
const lastAnswersMs = 1_000;

/** How many messages a delivery has, by how long the sink worked on the last one of the same owner to the target. */
class BatchSizes {
  readonly #sizes = new BoundedCache<number>({ name: 'delivery-sizes', entriesMax: ownersMax });

  get(owner: string): number {
    return this.#sizes.get(owner) ?? firstBatch;
  }

  record(owner: string, { ms, messages }: { readonly ms: number; readonly messages: number }): void {
    const inTime = Math.floor((messages * deliveryMs) / Math.max(ms, 1));
    // Few messages in a short time are no reason for smaller deliveries: a sink may need most of the time for the call itself.
    const size = ms <= deliveryMs ? Math.max(this.get(owner), messages + 1, inTime) : inTime;
    this.#sizes.set(owner, Math.max(1, Math.min(batchMax, size)));
  }
}

export function notifyQueue(ctx: NotifyCtx): LaneQueue {
  const sizes = new BatchSizes();
  return {
    queue: 'notify',
    worker: 'notify',
    batchMax,
    retryMaxMs: ctx.config.SVC_NOTIFY_RETRY_MAX,
    subjectOf: (row) => readRowSubject(ctx, row),
    // Two changes of an object in one millisecond are ordered by their sequencers; the ids of requests have no order.
    compare: (a, b) => compare(readSequencer(a), readSequencer(b)) || compare(a.id, b.id),
    deliver: (target, rows, pass) => deliverRows(ctx, { target, rows, pass, sizes }),
    giveUp: (rows, why) => giveUp(ctx, rows, why),
    reportStuck(row, cause) {
      const { sink: target, message } = notifyTask(row);
      const { bucket, key } = readSubject(message);
      const about = { target, bucket, key, cause };
      ctx.telemetry.log('ERROR', 'an event cannot become a dead letter; it is tried again', about);
    },
    labelOf: labelTarget,
    showRefused: (byLabel) =>
      ctx.telemetry.replace(
        'svc_notify_refused_objects',
        [...byLabel].map(([target, objects]) => [{ target }, objects]),
      ),
  };
}

function readRowSubject({ credentials }: Pick<NotifyCtx, 'credentials'>, row: HourlyRow): Subject {
  const { sink, message, account: owner } = notifyTask(row);
  const { bucket, key = '' } = readSubject(message);
  // Rows of older builds name the bucket only.
  const account = credentials.soleAccount === undefined ? (owner ?? `bucket ${bucket}`) : undefined;
  return {
    target: sink,
    tenant: bucket,
    owner: account ?? '',
    account,
    object: nameObject(sink, bucket, key),
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const readSequencer = (row: HourlyRow): string => readSubject(notifyTask(row).message).sequencer ?? '';

interface Group {
  readonly target: string;
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
  readonly sizes: BatchSizes;
}

async function deliverRows(ctx: NotifyCtx, { rows, ...group }: Group): Promise<void> {
  const { pass } = group;
  const { served, refused } = await splitServed(ctx, rows);
  for (const [row, error] of refused) {
    await pass.giveUp(row, () => giveUp(ctx, [row], { error, attempts: 0 }));
  }
  // Beside each other, because the target may be slow for one of them.
  const bySender = [...Map.groupBy(served, (row) => senderAt(pass.queue.subjectOf(row))).values()];
  await inParallel(batchMax, bySender, (ofSender) => deliverOfSender(ctx, { rows: ofSender, ...group }));
}

/** Delivers rows of one sender. */
async function deliverOfSender(ctx: NotifyCtx, { target, rows, pass, sizes }: Group): Promise<void> {
  let left = rows;
  let messagesMax = batchMax;
  while (true) {
    left = left.filter((row) => pass.mayTry(row));
    const [first] = left;
    if (first === undefined) return;
    const sink = (await ctx.sinks?.open(target)) ?? 'this process has no sinks';
    // After the last wait before `send`, which learns only of a later end of the signal.
    pass.signal.throwIfAborted();
    if (typeof sink === 'string')
      return reportAway(ctx, { target, pass, failure: { kind: 'unavailable', error: sink } });
    const subject = pass.queue.subjectOf(first);
    const sent = left.slice(0, Math.min(messagesMax, sizes.get(nameSender(subject))));
    const trace = beginDelivery(ctx, 'notify', {
      rows: sent,
      about: target,
      kind: 'producer',
      describe: () => describeDelivery(ctx.config.SVC_NOTIFY_TARGETS, target, sent.length),
    });
    const messages = sent.map(toMessage(ctx, subject, trace?.traceparent));
    const beganAt = ctx.clock.elapsed();
    const delivery = await traced(trace, send(ctx, { sink, messages, signal: pass.signal }));
    const { delivered, failure, waitedMs = 0 } = delivery;
    const ms = ctx.clock.elapsed() - beganAt;
    pass.spent(subject, ms);
    // Without the wait: where others use the sink too, smaller deliveries would only be more of them, and all would wait longer.
    sizes.record(nameSender(subject), { ms: ms - waitedMs, messages: delivered });
    if (delivered > 0) {
      await finishHourlyRows(ctx.metadata, sent.slice(0, delivered));
      pass.delivered(sent.slice(0, delivered));
      ctx.telemetry.count('svc_notify_delivered_total', { target: labelTarget(target) }, delivered);
    }
    left = left.slice(delivered);
    const [failed] = left;
    if (failure === undefined || failed === undefined) continue;
    if (failure.kind === 'unavailable') return reportAway(ctx, { target, pass, failure });
    if (failure.kind === 'lost' && sent.length - delivered > 1) {
      // Any of them may be the cause: from now on each goes alone.
      messagesMax = 1;
      continue;
    }
    left = left.slice(1);
    if (failure.kind === 'refused') {
      pass.answered(target);
      ctx.telemetry.count('svc_notify_failures_total', { target: labelTarget(target), why: 'refused' });
      await pass.giveUp(failed, () => giveUp(ctx, [failed], { error: failure.error, attempts: 1 }));
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
  ctx.telemetry.count('svc_notify_failures_total', { target: labelTarget(target), why: 'unavailable' });
  const failures = pass.failuresOf(target);
  ctx.telemetry.log('WARN', 'a target takes no events; they stay queued', { target, error, failures });
}

function reportFailed(
  ctx: NotifyCtx,
  row: HourlyRow,
  { target, pass, failure: { kind, error } }: Failed,
): void {
  pass.refused(row, error, kind === 'lost' ? 'unanswered' : 'refused');
  ctx.telemetry.count('svc_notify_failures_total', { target: labelTarget(target), why: 'failed' });
  const { message, account } = notifyTask(row);
  const { bucket, key } = readSubject(message);
  const said = 'a target does not take an event; it and later ones of its object are retried';
  ctx.telemetry.log('WARN', said, { target, bucket, key, error }, `${target} ${bucket}`, account);
}

/** Rows become dead letters. The letter is written first: a kill between the two writes leaves both, and loses none. */
async function giveUp(
  { caches, metadata, telemetry, config }: NotifyCtx,
  rows: readonly HourlyRow[],
  { error, attempts }: { readonly error: string; readonly attempts: number },
): Promise<void> {
  for (const row of rows) {
    const now = await metadata.now();
    const expiresAt = now + config.SVC_NOTIFY_DLQ_RETENTION;
    const tried = { ...row, attempts: row.attempts + attempts };
    const { sink, message } = notifyTask(row);
    const { bucket } = readSubject(message);
    await caches.of(AbandonedTasks).giveUp(`${row.due} ${row.id} ${sink}`, now, {
      store: (at) => metadata.apply(deadLetter(tried, { error, now: at, expiresAt, bucket })),
      finish: () => finishHourlyRows(metadata, [row]),
    });
    telemetry.count('svc_notify_dead_letters_total', { target: labelTarget(sink) });
  }
}

const toMessage =
  ({ config, hasher }: NotifyCtx, of: Subject, traceparent: string | undefined) =>
  (row: HourlyRow): SinkMessage => {
    const { message, storageClass } = notifyTask(row);
    const envelope = config.SVC_NOTIFY_TARGETS.find(({ id }) => id === of.target)?.envelope ?? 's3';
    const { bucket, key } = readSubject(message);
    return {
      id: row.id,
      subject: key === undefined ? bucket : `${bucket}/${key}`,
      owner: senderAt(of),
      traceparent,
      ...wrapMessage(message, { row, envelope, storageClass, hasher }),
    };
  };
