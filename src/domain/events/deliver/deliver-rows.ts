/** Delivers rows of the queue `notify` to their targets, in order, and removes the ones that are done. */
import type { Config } from '../../../config.ts';
import type { Context } from '../../../context.ts';
import { deadLetter } from '../../../metadata/background/dead-letters.ts';
import { finishHourlyRows } from '../../../metadata/background/hourly-consumer.ts';
import type { HourlyRow, NotifyTask } from '../../../metadata/records/queues.ts';
import type { Delivery, SinkFailure, SinkMessage } from '../../../ports/event-sink.ts';
import type { Trace } from '../../../ports/trace.ts';
import { beginDelivery } from '../../deliveries/delivery-trace.ts';
import type { LaneQueue, Pass } from '../../deliveries/lanes/lanes.ts';
import { wrapMessage } from './envelope.ts';
import { describeDelivery } from './messaging-attributes.ts';
import { readSubject } from './subject.ts';

export type Ctx = Pick<
  Context,
  'caches' | 'metadata' | 'clock' | 'random' | 'hasher' | 'telemetry' | 'sinks' | 'tracer'
> & {
  readonly config: Pick<
    Config,
    'SVC_NOTIFY_TARGETS' | 'SVC_NOTIFY_RETRY_MAX' | 'SVC_NOTIFY_DLQ_RETENTION' | 'SVC_NOTIFY_INTERVAL'
  >;
};

/** The cast: each queue has one type of task. */
const taskOf = (row: Pick<HourlyRow, 'task'>): NotifyTask => row.task as NotifyTask;

/** A row has up to 24 KiB. */
const batchMax = 32;

export const notifyQueue = (ctx: Ctx): LaneQueue => ({
  queue: 'notify',
  batchMax,
  targets: ctx.config.SVC_NOTIFY_TARGETS.map(({ id }) => id),
  targetOf: (row) => taskOf(row).sink,
  deliver: (rows, pass) => deliverRows(ctx, rows, pass),
});

/** Rows that were retried for long enough become dead letters, also where their target rests. */
async function deliverRows(ctx: Ctx, rows: readonly HourlyRow[], pass: Pass): Promise<number> {
  let done = 0;
  const byTarget = Map.groupBy(rows.toSorted(inOrder), (row) => taskOf(row).sink);
  for (const [target, group] of byTarget) done += await deliverGroup(ctx, { target, rows: group, pass });
  return done;
}

/** Two changes of an object in one millisecond are ordered by their sequencers; the ids of requests have no order. */
const inOrder = (a: HourlyRow, b: HourlyRow): number =>
  a.due - b.due || compare(sequencerOf(a), sequencerOf(b)) || compare(a.id, b.id);
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const sequencerOf = (row: HourlyRow): string => readSubject(taskOf(row).message).sequencer ?? '';

interface Group {
  readonly target: string;
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
}

async function deliverGroup(ctx: Ctx, { target, rows, pass }: Group): Promise<number> {
  const { states, signal } = pass;
  let left = rows;
  let done = 0;
  while (left.length > 0 && !states.isResting(target)) {
    const sink = (await ctx.sinks?.open(target)) ?? 'this process has no sinks';
    if (typeof sink === 'string') {
      fail(ctx, { target, pass, failure: { kind: 'unavailable', error: sink } });
      break;
    }
    const trace = beginDelivery(ctx, 'notify', {
      rows: left,
      about: target,
      kind: 'producer',
      describe: () => describeDelivery(ctx.config.SVC_NOTIFY_TARGETS, target, messages.length),
    });
    const messages = left.map(toMessage(ctx, target, trace?.traceparent));
    const { delivered, failure } = await traced(trace, sink.deliver(messages, signal));
    if (delivered > 0) {
      await finishHourlyRows(ctx.metadata, left.slice(0, delivered));
      states.succeeded(target);
      ctx.telemetry.eventsDelivered(target, delivered);
      done += delivered;
      left = left.slice(delivered);
    }
    if (failure === undefined) break;
    const [failed] = left;
    if (failed === undefined) break;
    if (failure.kind === 'refused') {
      ctx.telemetry.eventFailed(target, failure.kind);
      await giveUp(ctx, { rows: [failed], error: failure.error, attempts: 1 });
      done += 1;
      left = left.slice(1);
    } else fail(ctx, { target, pass, failure });
  }
  if (!states.isResting(target)) return done;
  if (!states.failsSteadily(target)) return done;
  const { error, failures } = states.get(target);
  const overdue = left.filter(({ due }) => due + ctx.config.SVC_NOTIFY_RETRY_MAX <= pass.now);
  await giveUp(ctx, { rows: overdue, error, attempts: failures });
  return done + overdue.length;
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

function fail(
  ctx: Ctx,
  { target, pass, failure }: Pick<Group, 'target' | 'pass'> & { readonly failure: SinkFailure },
): void {
  const { states } = pass;
  states.failed(target, failure.error);
  ctx.telemetry.eventFailed(target, failure.kind);
  ctx.telemetry.log('WARN', 'a target takes no events; they stay queued', {
    target,
    error: failure.error,
    failures: states.get(target).failures,
  });
}

/** Rows become dead letters. The letter is written first: a kill between the two writes leaves both, and loses none. */
async function giveUp(
  { metadata, telemetry, config }: Ctx,
  {
    rows,
    error,
    attempts,
  }: { readonly rows: readonly HourlyRow[]; readonly error: string; readonly attempts: number },
): Promise<void> {
  for (const row of rows) {
    const now = await metadata.now();
    const expiresAt = now + config.SVC_NOTIFY_DLQ_RETENTION;
    const tried = { ...row, attempts: row.attempts + attempts };
    await metadata.apply([deadLetter(tried, { error, now, expiresAt })]);
    await finishHourlyRows(metadata, [row]);
    telemetry.eventGivenUp(taskOf(row).sink);
  }
}

const toMessage =
  ({ config, hasher }: Ctx, target: string, traceparent: string | undefined) =>
  (row: HourlyRow): SinkMessage => {
    const { message, storageClass } = taskOf(row);
    const envelope = config.SVC_NOTIFY_TARGETS.find(({ id }) => id === target)?.envelope ?? 's3';
    const { bucket, key } = readSubject(message);
    return {
      id: row.id,
      subject: key === undefined ? bucket : `${bucket}/${key}`,
      traceparent,
      ...wrapMessage(message, { row, envelope, storageClass, hasher }),
    };
  };
