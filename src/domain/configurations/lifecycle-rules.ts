/** The lifecycle configuration of a bucket, both versions of its rules; a document's shape is its XML's. */
import { isArchive, isColder } from '../../ports/storage-classes.ts';
import type { ConfigurationOf } from '../../protocol/schemas/families.ts';
import { type FilteredVersion, keyMeetsFilter, meetsFilter, readRuleFilter } from './rule-filter.ts';

export type LifecycleRule = ConfigurationOf<'lifecycle'>['Rule'][number];

export interface Lifecycle extends ConfigurationOf<'lifecycle'> {
  /** Which small objects change their class: a header of the Put request. Absent means the first. */
  readonly minimumSize?: 'all_storage_classes_128K' | 'varies_by_storage_class';
  /** The length of a day in ms; never stored. Absent: 24 hours. */
  readonly dayMs?: number;
}

// Evaluates a lifecycle configuration for a version, an upload or a delete marker: which rules apply, what they do and when.
// Pure functions: the caller passes the facts and the time.

/** The fields of a version that rules read; times in ms since the epoch. */
interface Version extends FilteredVersion {
  readonly modified: number;
}

const isEnabled = ({ Status }: LifecycleRule): boolean => Status === 'Enabled';

const applies = (rule: LifecycleRule, version: FilteredVersion): boolean =>
  isEnabled(rule) && meetsFilter(readRuleFilter(rule), version);

/** Whether a rule applies to an upload or a delete marker. */
const appliesToKey = (rule: LifecycleRule, key: string): boolean =>
  isEnabled(rule) && keyMeetsFilter(readRuleFilter(rule), key);

const dayMsDefault = 86_400_000;
/** Rounds up to the next midnight (UTC), as the public service does. */
const daysAfter = (from: number, days: number, { dayMs = dayMsDefault }: Pick<Lifecycle, 'dayMs'>): number =>
  Math.ceil((from + days * dayMs) / dayMs) * dayMs;

/** An object that is this old, or older, at `now` has lived for a number of days, rounded as `daysAfter` does. */
export const bornBefore = (
  now: number,
  days: number,
  { dayMs = dayMsDefault }: Pick<Lifecycle, 'dayMs'>,
): number => (Math.floor(now / dayMs) - days) * dayMs;

/** When an action is due (ms since the epoch), and the id of its rule. */
export interface Due {
  readonly at: number;
  readonly rule: string;
}

const earliest = (found: readonly Due[]): Due | undefined =>
  found.reduce<Due | undefined>(
    (first, due) => (first === undefined || due.at < first.at ? due : first),
    undefined,
  );

const computeMoment = (
  { Days, Date: date }: { readonly Days?: number; readonly Date?: string },
  from: number,
  day: Pick<Lifecycle, 'dayMs'>,
) => (Days !== undefined ? daysAfter(from, Days, day) : date !== undefined ? Date.parse(date) : undefined);

const due = (rule: LifecycleRule, at: number | undefined): readonly Due[] =>
  at === undefined ? [] : [{ at, rule: rule.ID ?? '' }];

/** When the latest version of a key expires. */
export const findExpiration = (lifecycle: Lifecycle, version: Version): Due | undefined =>
  earliest(
    lifecycle.Rule.flatMap((rule) =>
      rule.Expiration !== undefined && applies(rule, version)
        ? due(rule, computeMoment(rule.Expiration, version.modified, lifecycle))
        : [],
    ),
  );

/** When an upload that is still open is aborted. */
export const findAbort = (
  lifecycle: Lifecycle,
  { key, initiated }: { readonly key: string; readonly initiated: number },
): Due | undefined =>
  earliest(
    lifecycle.Rule.flatMap((rule) => {
      const days = rule.AbortIncompleteMultipartUpload?.DaysAfterInitiation;
      return days !== undefined && appliesToKey(rule, key)
        ? due(rule, daysAfter(initiated, days, lifecycle))
        : [];
    }),
  );

/** When a delete marker without older versions is removed: immediately under ExpiredObjectDeleteMarker, else like a version. */
export const findMarkerRemoval = (
  lifecycle: Lifecycle,
  { key, modified }: { readonly key: string; readonly modified: number },
): Due | undefined =>
  earliest(
    lifecycle.Rule.flatMap((rule) => {
      if (rule.Expiration === undefined || !appliesToKey(rule, key)) return [];
      const isOwnRule = rule.Expiration.ExpiredObjectDeleteMarker === true;
      return due(rule, isOwnRule ? modified : computeMoment(rule.Expiration, modified, lifecycle));
    }),
  );

/** In bytes. Moving a smaller object costs more than it saves. A rule with a condition on the size overrides this. */
const smallBytes = 128 * 1024;

function isTooSmall(
  rule: LifecycleRule,
  size: number,
  move: { readonly to: string; readonly by: Lifecycle },
): boolean {
  if (size >= smallBytes || readRuleFilter(rule).besideKey.includes('Object Size')) return false;
  return move.by.minimumSize !== 'varies_by_storage_class' || !isArchive(move.to);
}

interface Expiration {
  readonly do: 'expire';
  readonly rule: string;
}
interface Transition {
  readonly do: 'transition';
  readonly rule: string;
  readonly storageClass: string;
}
type Action = Expiration | Transition;

interface Move extends Due {
  readonly to: string;
}

/** The coldest storage class among the due moves; undefined when it is not colder than the present one. */
function coldest(moves: readonly Move[], from: string, now: number): Transition | undefined {
  let best: Move | undefined;
  for (const move of moves) {
    if (move.at <= now && isColder(move.to, best?.to ?? from)) best = move;
  }
  return best && { do: 'transition', rule: best.rule, storageClass: best.to };
}

export interface StoredVersion extends Version {
  readonly storageClass: string;
}

interface CurrentVersion extends StoredVersion {
  /** Its expiration adds a delete marker, and the version stays behind it. */
  readonly isRetained?: boolean;
}

/**
 * The action that is due now for the latest version of a key. Permanent deletion comes before transition, and transition before a delete
 * marker, which a later pass adds (public API).
 * @returns with a transition, what is due `otherwise`, when the version cannot be moved
 */
export function actionOnCurrent(
  lifecycle: Lifecycle,
  version: CurrentVersion,
  now: number,
): Expiration | (Transition & { readonly otherwise?: Expiration }) | undefined {
  const due = findExpiration(lifecycle, version);
  const expiration: Expiration | undefined =
    due === undefined || due.at > now ? undefined : { do: 'expire', rule: due.rule };
  if (expiration !== undefined && !version.isRetained) return expiration;
  const transition = transitionOfCurrent(lifecycle, version, now);
  if (transition === undefined || expiration === undefined) return transition ?? expiration;
  return { ...transition, otherwise: expiration };
}

function transitionOfCurrent(
  lifecycle: Lifecycle,
  version: StoredVersion,
  now: number,
): Transition | undefined {
  const moves = lifecycle.Rule.flatMap((rule) =>
    rule.Transition.length > 0 && applies(rule, version)
      ? rule.Transition.filter(
          ({ StorageClass: to }) => !isTooSmall(rule, version.size, { to, by: lifecycle }),
        ).flatMap((move) =>
          due(rule, computeMoment(move, version.modified, lifecycle)).map((each) => ({
            ...each,
            to: move.StorageClass,
          })),
        )
      : [],
  );
  return coldest(moves, version.storageClass, now);
}

/** A version that is not the latest of its key. */
export interface NoncurrentVersion extends StoredVersion {
  /** When the next version was written, which made this one noncurrent. */
  readonly since: number;
  /** How many noncurrent versions of the key are newer. */
  readonly newer: number;
}

interface NoncurrentRule {
  readonly NoncurrentDays?: number;
  readonly NewerNoncurrentVersions?: number;
}

/** When a rule's action is due; undefined while the version is among the newest ones that the rule keeps. */
const noncurrentMoment = (
  { NoncurrentDays, NewerNoncurrentVersions = 0 }: NoncurrentRule,
  { since, newer }: NoncurrentVersion,
  day: Pick<Lifecycle, 'dayMs'>,
): number | undefined =>
  NoncurrentDays === undefined || newer < NewerNoncurrentVersions
    ? undefined
    : daysAfter(since, NoncurrentDays, day);

/** The action that is due now for a noncurrent version. */
export function actionOnNoncurrent(
  lifecycle: Lifecycle,
  version: NoncurrentVersion,
  now: number,
): Action | undefined {
  const rules = lifecycle.Rule.filter((rule) => applies(rule, version));
  for (const rule of rules) {
    const { NoncurrentVersionExpiration: expiration } = rule;
    const at = expiration && noncurrentMoment(expiration, version, lifecycle);
    if (at !== undefined && at <= now) return { do: 'expire', rule: rule.ID ?? '' };
  }
  const moves = rules.flatMap((rule) =>
    rule.NoncurrentVersionTransition.filter(
      ({ StorageClass: to }) => !isTooSmall(rule, version.size, { to, by: lifecycle }),
    ).flatMap((move) =>
      due(rule, noncurrentMoment(move, version, lifecycle)).map((each) => ({
        ...each,
        to: move.StorageClass,
      })),
    ),
  );
  return coldest(moves, version.storageClass, now);
}
