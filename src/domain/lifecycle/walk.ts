/** Reads the entries of the age index that are old enough for a rule, a page at a time. */
import { ageDay, agesAt, dayMs } from '../../metadata/objects/ages.ts';
import { prefixRange } from '../../metadata/objects/objects.ts';
import type { AgeKind, AgeRow } from '../../metadata/records/ages.ts';
import { nextSound, soundPage } from '../../metadata/sound-rows.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { bornBefore, type Lifecycle, type LifecycleRule } from '../configurations/lifecycle-rules.ts';
import { readRuleFilter } from '../configurations/rule-filter.ts';
import type { Position } from './progress.ts';

/** Partitions that one page examines: most days of an old bucket are empty. */
const partitionsMax = 256;
/** Days that are still written to: a commit may come a while after the time that it states. */
const openDays = 2;

export interface DueEntries {
  readonly bucket: Pick<BucketRow, 'id' | 'ageSlots'>;
  readonly windows: Readonly<Record<AgeKind, readonly Window[]>>;
  readonly first: Readonly<Record<AgeKind, number>>;
}

export const openWindows = (lifecycle: Lifecycle, now: number): DueEntries['windows'] => ({
  upload: findWindows(lifecycle, 'upload', now),
  noncurrent: findWindows(lifecycle, 'noncurrent', now),
  current: findWindows(lifecycle, 'current', now),
  marker: findWindows(lifecycle, 'marker', now),
  restored: findWindows(lifecycle, 'restored', now),
});

const firstPosition = ({ first }: Pick<DueEntries, 'first'>, kind: AgeKind): Position => ({
  kind,
  day: first[kind],
  slot: 0,
});

export const startPosition = (due: Pick<DueEntries, 'first'>): Position => firstPosition(due, passKinds[0]);

const slotCount = ({ bucket }: DueEntries, kind: AgeKind): number =>
  kind === 'upload' ? 1 : (bucket.ageSlots ?? 1);

/** The partition behind a position; undefined at the end of the pass. */
function nextPartition(due: DueEntries, { kind, day, slot }: Position): Position | undefined {
  if (slot + 1 < slotCount(due, kind)) return { kind, day, slot: slot + 1 };
  return onDay(due, { kind, day: day + 1, slot: 0 });
}

/** The position, or the next kind's where no window reaches its day. */
function onDay(due: DueEntries, position: Position): Position | undefined {
  const isReached = due.windows[position.kind].some(({ lastDay }) => position.day <= lastDay);
  if (isReached) return position;
  const next = passKinds[passKinds.indexOf(position.kind) + 1];
  return next === undefined ? undefined : onDay(due, firstPosition(due, next));
}

interface DuePage {
  readonly rows: readonly AgeRow[];
  /** Where the next page begins; undefined when this was the last one. */
  readonly next: Position | undefined;
}

/** A page may be empty although more follow, because one call examines a bounded number of partitions. */
export async function readDuePage(
  metadata: Pick<MetadataStore, 'scan'>,
  due: DueEntries,
  { from, max }: { readonly from: Position; readonly max: number },
): Promise<DuePage> {
  const rows: AgeRow[] = [];
  let at = onDay(due, from);
  for (let looked = 0; at !== undefined && looked < partitionsMax; looked += 1) {
    const here: Position = at;
    const prefix = prefixesOn(due.windows[here.kind], here.day).find(
      (each) => here.prefix === undefined || each >= here.prefix,
    );
    if (prefix === undefined) {
      at = nextPartition(due, here);
      continue;
    }
    const isResumed = prefix === here.prefix && here.after !== undefined;
    const { from: start, ...range } = prefixRange('key', prefix);
    const { kind, day, slot } = here;
    const cursor = metadata.scan(agesAt({ bucketId: due.bucket.id, kind, day, slot }), {
      ...range,
      ...(isResumed ? { after: here.after } : start === undefined ? {} : { from: start }),
    });
    const { rows: found } = await soundPage(cursor, max - rows.length);
    for (const { row } of found) rows.push(row);
    const last = found.at(-1)?.row;
    if (last !== undefined && rows.length === max)
      return { rows, next: { kind, day, slot, prefix, after: { key: last.key, version: last.version } } };
    // The smallest text behind every key of the prefix that a prefix can be.
    at = { kind, day, slot, prefix: `${prefix}\u{10ffff}` };
  }
  return { rows, next: at };
}

/** The position behind a row of a page, for a pass that goes on there. */
export function positionBehind({ windows }: Pick<DueEntries, 'windows'>, row: AgeRow): Position {
  const { kind, day, slot, key, version } = row;
  const prefix = prefixesOn(windows[kind], day).find((each) => key.startsWith(each));
  return { kind, day, slot, ...(prefix === undefined ? {} : { prefix }), after: { key, version } };
}

/** The first days of each kind that have entries, beginning at `first`; examines a bounded number of days. */
export async function findFirstDays(
  metadata: Pick<MetadataStore, 'scan'>,
  { bucket, first, now }: Omit<DueEntries, 'windows'> & { readonly now: number },
): Promise<{ readonly first: DueEntries['first']; readonly isDone: boolean }> {
  const found: Record<AgeKind, number> = { ...first };
  let looked = 0;
  for (const kind of passKinds) {
    const slots = kind === 'upload' ? 1 : (bucket.ageSlots ?? 1);
    for (; found[kind] < ageDay(now) - openDays; found[kind] += 1) {
      const day = found[kind];
      let isEmpty = true;
      for (let slot = 0; isEmpty && slot < slots; slot += 1) {
        if (looked >= partitionsMax) return { first: found, isDone: false };
        looked += 1;
        const page = await nextSound(metadata.scan(agesAt({ bucketId: bucket.id, kind, day, slot })), 1);
        isEmpty = page.length === 0;
      }
      if (!isEmpty) break;
    }
  }
  return { first: found, isDone: true };
}

// The part of the age index that the rules of a bucket can act on: by kind of entry, prefixes and the last day that is old enough.
// Pure functions.

/** Entries under a prefix, up to and including a day. */
export interface Window {
  /** The id of the rule that acts on them; '' for the ends of restored copies. */
  readonly rule: string;
  readonly prefix: string;
  readonly lastDay: number;
}

/** The kinds in the order of a pass: permanent deletions come first, so that nothing is moved that is about to be deleted. */
const passKinds = [
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
function findLastDay(
  { isNow, Days, Date: date }: Moment,
  lifecycle: Lifecycle,
  now: number,
): number | undefined {
  if (isNow) return ageDay(now);
  // Entries of the day of `bornBefore` are too young, unless it is a midnight of a shorter day (SVC_LIFECYCLE_DAY).
  if (Days !== undefined) return Math.ceil(bornBefore(now, Days, lifecycle) / dayMs) - 1;
  return date !== undefined && Date.parse(date) <= now ? ageDay(now) : undefined;
}

function findWindows(lifecycle: Lifecycle, kind: AgeKind, now: number): readonly Window[] {
  // The end of a restored copy depends on no rule.
  if (kind === 'restored') return [{ rule: '', prefix: '', lastDay: ageDay(now) }];
  return lifecycle.Rule.filter(({ Status }) => Status === 'Enabled').flatMap((rule) =>
    moments[kind](rule).flatMap((moment) => {
      const lastDay = findLastDay(moment, lifecycle, now);
      return lastDay === undefined
        ? []
        : [{ rule: rule.ID ?? '', prefix: readRuleFilter(rule).prefix, lastDay }];
    }),
  );
}

/** The prefixes that are of interest on a day, sorted; none begins with another one. */
function prefixesOn(windows: readonly Window[], day: number): readonly string[] {
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
    const born = Math.min(first[kind], ageDay(now)) * dayMs;
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
