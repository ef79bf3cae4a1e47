/** The targets of events, a test of one, and their dead letters: delivered again or discarded. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { readRates } from '../../domain/deliveries/events/rates.ts';
import {
  countBacklogs,
  discardLetters,
  type LetterFilter,
  redriveLetters,
} from '../../domain/deliveries/events/redrive.ts';
import { sendTestEvent } from '../../domain/deliveries/events/served-targets.ts';
import { readSubject } from '../../domain/events/envelope.ts';
import { testEvent } from '../../domain/events/events.ts';
import { listFailing } from '../../domain/lanes/target-states.ts';
import { readDeadLetters } from '../../metadata/background/queues.ts';
import type { DeadLetter, QueueRow } from '../../metadata/records/queues.ts';
import { pageDefault } from '../../protocol/operations/admin/row.ts';
import type { AdminBody } from '../../protocol/operations/admin.ts';
import { type AdminHandler, failingJson, jsonReply, readTime } from './call.ts';

export const GetNotifyTargets: AdminHandler<'GetNotifyTargets'> = async (ctx) => {
  const { SVC_NOTIFY_TARGETS: targets } = ctx.config;
  const now = await ctx.metadata.now();
  const rates = await readRates(ctx.metadata);
  const failing = await listFailing(ctx.metadata, 'notify');
  const configured = targets.map(({ id, type, envelope = 's3', accounts }) => ({
    ...{ id, type, envelope },
    ...(accounts === undefined ? {} : { accounts }),
  }));
  const known = new Set(targets.map(({ id }) => id));
  // Those that the settings had when their events were queued.
  const removed = [...failing.keys()].filter((id) => !known.has(id)).map((id) => ({ id, type: 'removed' }));
  const all = [...configured, ...removed];
  const backlogs = await countBacklogs(
    ctx,
    all.map(({ id }) => id),
  );
  const shown = all.map((target) => {
    const { queued = 0, oldest, deadLetters = 0 } = backlogs.get(target.id) ?? {};
    const oldestSeconds = oldest === undefined ? 0 : Math.max(0, Math.floor((now - oldest) / 1000));
    const state = failingJson(failing.get(target.id));
    const perSecond = rates.get(target.id) ?? 0;
    return { ...target, ...state, queued, oldestSeconds, perSecond, deadLetters };
  });
  return jsonReply({
    targets: shown.filter(({ id, queued, deadLetters }) => known.has(id) || queued + deadLetters > 0),
  });
};

/** Beside the queue: events that wait are neither delayed nor delivered by it, and the state of the target is not changed. */
export const TestNotifyTarget: AdminHandler<'TestNotifyTarget'> = async (
  ctx,
  { params, requestId, record, signal },
) => {
  const target = params.get('target') ?? '';
  record?.about(`notify:${target}`);
  if (!ctx.config.SVC_NOTIFY_TARGETS.some(({ id }) => id === target))
    throw fail('NotFound', `The settings have no target ${target}.`);
  const message = testEvent(ctx, { requestId });
  const began = ctx.clock.elapsed();
  const failure = await sendTestEvent(ctx, target, { requestId, subject: 'test', message, signal });
  const milliseconds = Math.round(ctx.clock.elapsed() - began);
  return jsonReply({
    delivered: failure === undefined,
    ...(failure === undefined ? {} : { failure }),
    milliseconds,
    message,
  });
};

/** @throws InvalidRequest for a filter that names nothing, so that an empty body does not mean every letter */
function readFilter({ since, until, ...filter }: AdminBody<'RedriveNotifications'>): LetterFilter {
  if ([since, until, ...Object.values(filter)].every((value) => value === undefined))
    throw fail('InvalidRequest', 'Name the letters by target, bucket, id, since or until.');
  return { ...filter, since: readTime('since', since), until: readTime('until', until) };
}

/** @throws NotFound for a target that neither the settings nor the queues have, so that a mistyped name is not taken for one without letters */
async function assertTarget(ctx: Pick<Context, 'config' | 'metadata'>, target: string): Promise<void> {
  if (ctx.config.SVC_NOTIFY_TARGETS.some(({ id }) => id === target)) return;
  if ((await listFailing(ctx.metadata, 'notify')).has(target)) return;
  throw fail('NotFound', `There is no target ${target}.`);
}

export const RedriveNotifications: AdminHandler<'RedriveNotifications'> = async (
  ctx,
  { body, record, entries },
) => {
  const filter = readFilter(body);
  record?.about(`notify:${filter.target ?? '*'}`);
  const { letters, isTruncated } = await redriveLetters(ctx, {
    ...filter,
    denialOf: (letter) => entries.denialOf('letters', letter),
  });
  if (letters === 0 && filter.target !== undefined) await assertTarget(ctx, filter.target);
  return jsonReply({ redriven: letters, isTruncated });
};

export const DiscardNotifications: AdminHandler<'DiscardNotifications'> = async (
  ctx,
  { body, record, entries },
) => {
  const filter = readFilter(body);
  record?.about(`notify:${filter.target ?? '*'}`);
  const { letters, isTruncated } = await discardLetters(ctx, {
    ...filter,
    denialOf: (letter) => entries.denialOf('letters', letter),
  });
  if (letters === 0 && filter.target !== undefined) await assertTarget(ctx, filter.target);
  return jsonReply({ discarded: letters, isTruncated });
};

export const ListDeadLetters: AdminHandler<'ListDeadLetters'> = async (ctx, { query }) => {
  const { limit = pageDefault, after } = query;
  const { rows, next } = await readDeadLetters(ctx.metadata, { before: readPlace(after), max: limit });
  return jsonReply({
    rows: rows.map(letterJson),
    ...(next === undefined ? {} : { next: `${next.due}:${next.id}` }),
  });
};

function letterJson({ due, id, requestId, attempts, task }: QueueRow) {
  // The cast: each queue has one type of task.
  const { sink, message, error, since } = task as DeadLetter;
  const times = { time: new Date(due).toISOString(), since: new Date(since).toISOString() };
  const { bucket } = readSubject(message);
  return {
    ...times,
    requestId,
    ...(bucket === '' ? {} : { bucket }),
    target: sink,
    id,
    attempts,
    error,
    message,
  };
}

function readPlace(after: string | undefined): { readonly due: number; readonly id: string } | undefined {
  if (after === undefined) return undefined;
  const [, due, id = ''] = /^(\d{1,15}):(.*)$/s.exec(after) ?? [];
  if (due === undefined)
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return { due: Number(due), id };
}
