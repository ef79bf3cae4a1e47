/** The targets of events, and their dead letters: delivered again or discarded. */
import { listFailing } from '../../../domain/deliveries/lanes/stored-states.ts';
import { countBacklogs } from '../../../domain/events/deliver/backlog.ts';
import { readRates } from '../../../domain/events/deliver/rates.ts';
import { discardLetters, type LetterFilter, redriveLetters } from '../../../domain/events/deliver/redrive.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AdminBody } from '../../../protocol/operations/admin.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { failingJson } from '../failing-target.ts';
import { readTime } from '../times.ts';

export const GetNotifyTargets: AdminHandler<'GetNotifyTargets'> = async (ctx) => {
  const { SVC_NOTIFY_TARGETS: targets } = ctx.config;
  const now = await ctx.metadata.now();
  const rates = await readRates(ctx.metadata);
  const failing = await listFailing(ctx.metadata, 'notify');
  const configured = targets.map(({ id, type, envelope = 's3' }) => ({ id, type, envelope }));
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

/** @throws InvalidRequest for a filter that names nothing, so that an empty body does not mean every letter */
function readFilter({ since, until, ...filter }: AdminBody<'RedriveNotifications'>): LetterFilter {
  if ([since, until, ...Object.values(filter)].every((value) => value === undefined))
    throw fail('InvalidRequest', 'Name the letters by target, bucket, id, since or until.');
  return { ...filter, since: readTime('since', since), until: readTime('until', until) };
}

export const RedriveNotifications: AdminHandler<'RedriveNotifications'> = async (ctx, { body, record }) => {
  const filter = readFilter(body);
  record?.about(`notify:${filter.target ?? '*'}`);
  const { letters, isTruncated } = await redriveLetters(ctx, filter);
  return jsonReply({ redriven: letters, isTruncated });
};

export const DiscardNotifications: AdminHandler<'DiscardNotifications'> = async (ctx, { body, record }) => {
  const filter = readFilter(body);
  record?.about(`notify:${filter.target ?? '*'}`);
  const { letters, isTruncated } = await discardLetters(ctx, filter);
  return jsonReply({ discarded: letters, isTruncated });
};
