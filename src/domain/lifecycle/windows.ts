/**
 * The part of the age index that the rules of a bucket can act on: by kind of entry, prefixes and the last day that is old enough.
 * Pure functions.
 */

import { dayMs, dayOf } from '../../metadata/objects/ages.ts';
import type { AgeKind } from '../../metadata/records/ages.ts';
import {
  bornBefore,
  type Lifecycle,
  type LifecycleRule,
  readRuleFilter,
} from '../configurations/lifecycle.ts';

/** Entries under a prefix, up to and including a day. */
export interface Window {
  /** The id of the rule that acts on them; '' for the ends of restored copies. */
  readonly rule: string;
  readonly prefix: string;
  readonly lastDay: number;
}

/** The kinds in the order of a pass: permanent deletions come first, so that nothing is moved that is about to be deleted. */
export const passKinds = [
  'upload',
  'noncurrent',
  'current',
  'marker',
  'restored',
] as const satisfies readonly AgeKind[];

interface Moment {
  /** An action that does not wait for an age. */
  readonly isNow?: true;
  readonly Days?: number;
  readonly Date?: string;
}

/** The days after which a rule acts on a kind of entry. */
const moments: Readonly<Record<AgeKind, (rule: LifecycleRule) => readonly Moment[]>> = {
  upload: ({ AbortIncompleteMultipartUpload: abort }) =>
    abort === undefined ? [] : [{ Days: abort.DaysAfterInitiation }],
  noncurrent: ({ NoncurrentVersionExpiration: expiration, NoncurrentVersionTransition: moves }) =>
    [...(expiration === undefined ? [] : [expiration]), ...moves].flatMap(({ NoncurrentDays }) =>
      NoncurrentDays === undefined ? [] : [{ Days: NoncurrentDays }],
    ),
  current: ({ Expiration, Transition }) => [...(Expiration === undefined ? [] : [Expiration]), ...Transition],
  marker: ({ Expiration }) =>
    Expiration === undefined ? [] : [Expiration.ExpiredObjectDeleteMarker ? { isNow: true } : Expiration],
  restored: () => [],
};

/** The last day of entries that an action of this moment can be due for; undefined while it is not due for any. */
function lastDayOf(
  { isNow, Days, Date: date }: Moment,
  lifecycle: Lifecycle,
  now: number,
): number | undefined {
  if (isNow) return dayOf(now);
  // Entries of the day of `bornBefore` are too young, unless it is a midnight of a shorter day (SVC_LIFECYCLE_DAY).
  if (Days !== undefined) return Math.ceil(bornBefore(now, Days, lifecycle) / dayMs) - 1;
  return date !== undefined && Date.parse(date) <= now ? dayOf(now) : undefined;
}

export function findWindows(lifecycle: Lifecycle, kind: AgeKind, now: number): readonly Window[] {
  // The end of a restored copy depends on no rule.
  if (kind === 'restored') return [{ rule: '', prefix: '', lastDay: dayOf(now) }];
  return lifecycle.Rule.filter(({ Status }) => Status === 'Enabled').flatMap((rule) =>
    moments[kind](rule).flatMap((moment) => {
      const lastDay = lastDayOf(moment, lifecycle, now);
      return lastDay === undefined
        ? []
        : [{ rule: rule.ID ?? '', prefix: readRuleFilter(rule).prefix, lastDay }];
    }),
  );
}

/** The prefixes that are of interest on a day, sorted; none begins with another one. */
export function prefixesOn(windows: readonly Window[], day: number): readonly string[] {
  const sorted = windows
    .filter(({ lastDay }) => day <= lastDay)
    .map(({ prefix }) => prefix)
    .sort();
  const retained: string[] = [];
  for (const prefix of sorted) {
    const last = retained.at(-1);
    if (last === undefined || !prefix.startsWith(last)) retained.push(prefix);
  }
  return retained;
}

/** When the worker reads a bucket again at the latest, also where nothing seems due. */
const restMsMax = 7 * dayMs;

/**
 * When the next action can become due (ms since the epoch), after a pass that left nothing undone.
 * @param first by kind, the first day that has entries
 */
export function nextPass(
  lifecycle: Lifecycle,
  { first, now }: { readonly first: Readonly<Record<AgeKind, number>>; readonly now: number },
): number {
  const day = lifecycle.dayMs ?? dayMs;
  const nextMidnight = (Math.floor(now / day) + 1) * day;
  let next = now + restMsMax;
  for (const kind of passKinds) {
    // An entry of the first day was created at its beginning at the earliest.
    const born = Math.min(first[kind], dayOf(now)) * dayMs;
    const rules = lifecycle.Rule.filter(({ Status }) => Status === 'Enabled').flatMap(moments[kind]);
    for (const { isNow, Days, Date: date } of rules) {
      const at = isNow ? nextMidnight : Days !== undefined ? born + Days * day : Date.parse(date ?? '');
      if (at > now) next = Math.min(next, at);
      else if (Days !== undefined) next = Math.min(next, nextMidnight);
    }
    if (kind === 'restored') next = Math.min(next, Math.max(nextMidnight, born));
  }
  return next;
}
