/** The audit log and its seals. */
import { hashToShard } from '../base/shard.ts';
import type { At, Cursor, MetadataStore, Outcome, Revision, SideChange } from '../ports/metadata-store.ts';
import {
  beginTerm,
  everyTask,
  findSoundTask,
  findTask,
  pageTasks,
  putTasks,
  type Task,
  type TaskChange,
  type TaskKind,
  type Term,
} from './background/tasks.ts';
import { mergeRows, newestFirst } from './objects/objects.ts';
import { type AuditRow, audit } from './records/audit.ts';
import type { tasks } from './records/tasks.ts';

// The audit log: a row for every request that changes or would have changed something.

export const auditHourMs = 60 * 60 * 1000;
const hourMs = auditHourMs;
/** An hour's rows are spread over this many partitions, so that concurrent writers do not queue for one. */
export const auditSlots = 8;

export const auditHourOf = (time: number): number => Math.floor(time / hourMs);
const hourOf = auditHourOf;

/** A row is added to its hour until this long after the end of the hour. Sealing begins later, for slow commits and slow clocks. */
const lateMs = 5 * 60_000;
export const auditSealDelayMs = 3 * lateMs;

/** The time of a row that is written now: a request that outlasted its hour is recorded when it ends, because its hour may be sealed. */
export const timeOfRow = (arrived: number, now: number): number =>
  now < (hourOf(arrived) + 1) * hourMs + lateMs ? arrived : now;

const auditAt = (hour: number, slot: number): At<typeof audit> => ({ table: audit, in: { hour, slot } });

/**
 * The id of a page of the keys of a request, in an order as text. All rows of a request are in one slot, so that a look-up by the
 * request reads one slot of each hour.
 */
export const idOfKeyPage = (requestId: string, page: number): string =>
  `${requestId}/${String(page).padStart(4, '0')}`;

/** The request of a row, and the page of its keys where the row is one. */
export function requestOfRow({ id }: Pick<AuditRow, 'id'>): {
  readonly requestId: string;
  readonly page?: number;
} {
  const [requestId = '', page] = id.split('/');
  return page === undefined ? { requestId } : { requestId, page: Number(page) };
}

/** The row of a request. Its place is its time and id: written again, it is the same row. */
export function audited(
  entry: Omit<AuditRow, 'hour' | 'slot'>,
  { retentionMs }: { readonly retentionMs: number },
): SideChange {
  const hour = hourOf(entry.time);
  const slot = hashToShard(requestOfRow(entry).requestId, auditSlots);
  return {
    at: auditAt(hour, slot),
    put: { ...entry, hour, slot } satisfies AuditRow,
    expiresAt: entry.time + retentionMs,
  };
}

/** A position between two rows: rows before it are older. */
export interface AuditPlace {
  readonly time: number;
  readonly id: string;
}

interface AuditQuery {
  /** The first and the last millisecond that counts. */
  readonly start: number;
  readonly end: number;
  /** The position where the previous page ended. */
  readonly before?: AuditPlace | undefined;
  readonly max: number;
  /** Only the rows of this request: one partition of each hour is read. */
  readonly requestId?: string | undefined;
  matches(row: AuditRow): boolean;
  /** Called before each hour and each row: reads of an embedded store never leave the event loop by themselves. */
  rest(): Promise<void>;
}

interface AuditPage {
  readonly rows: readonly AuditRow[];
  /** Where the next page starts. A page may have few rows or none, because one request reads a bounded number of rows. */
  readonly next?: AuditPlace;
}

/** What one page reads, at most; and the keys of its rows, but for those of the last row. */
const looks = { hours: 240, rows: 10_000, keys: 10_000 } as const;

/** A page of the log, the newest first. */
export async function readAudit(
  metadata: Pick<MetadataStore, 'scan'>,
  { start, end, before = { time: end + 1, id: '' }, max, requestId, matches, rest }: AuditQuery,
): Promise<AuditPage> {
  const rows: AuditRow[] = [];
  let looked = 0;
  let keys = 0;
  const newest = hourOf(before.time);
  for (let hour = newest; hour >= hourOf(start); hour -= 1) {
    if (newest - hour >= looks.hours) return { rows, next: { time: (hour + 1) * hourMs, id: '' } };
    await rest();
    for await (const row of hourBackwards(metadata, hour, { start, before, requestId })) {
      await rest();
      const isIncluded =
        matches(row) && (requestId === undefined || requestOfRow(row).requestId === requestId);
      if (isIncluded) rows.push(row);
      looked += 1;
      keys += isIncluded ? (row.keys?.length ?? 0) : 0;
      if (rows.length >= max || looked >= looks.rows || keys >= looks.keys)
        return { rows, next: { time: row.time, id: row.id } };
    }
  }
  return { rows };
}

/** The pages that a look-up reads, at most: of up to 400 days and 400,000 rows. */
const findPagesMax = 40;

/**
 * The row of a request, if it is in the newest part of the log. Of each hour only the slot of the request is read.
 * @returns also where the look-up gave up, if it did
 */
export async function findAudit(
  metadata: Pick<MetadataStore, 'scan'>,
  span: Pick<AuditQuery, 'start' | 'end' | 'rest'> & { readonly requestId: string },
): Promise<{ readonly row?: AuditRow | undefined; readonly gaveUpAt?: number }> {
  let before: AuditPlace | undefined;
  for (let pages = 0; pages < findPagesMax; pages += 1) {
    const page: AuditPage = await readAudit(metadata, {
      ...span,
      before,
      max: 1,
      matches: ({ id }) => id === span.requestId,
    });
    before = page.next;
    if (page.rows.length > 0 || before === undefined) return { row: page.rows[0] };
  }
  return before === undefined ? {} : { gaveUpAt: before.time };
}

/** The rows of an hour, the newest first: its slots merged. */
function hourBackwards(
  metadata: Pick<MetadataStore, 'scan'>,
  hour: number,
  {
    start,
    before,
    requestId,
  }: { readonly start: number; readonly before: AuditPlace; readonly requestId: string | undefined },
): AsyncGenerator<AuditRow> {
  const slots = requestId === undefined ? everySlot : [hashToShard(requestId, auditSlots)];
  const cursors = slots.map((slot) =>
    metadata.scan(auditAt(hour, slot), { from: { time: start }, before, reverse: true }),
  );
  return newestFirst(cursors, isNewer);
}

const everySlot = Array.from({ length: auditSlots }, (_, slot) => slot);

const isNewer = (a: AuditPlace, b: AuditPlace): boolean =>
  a.time > b.time || (a.time === b.time && a.id > b.id);

/** Every row from `start` to `end`, the oldest first, some rows at a time. */
export async function* auditRowsBetween(
  metadata: Pick<MetadataStore, 'scan'>,
  { start, end, rest }: Pick<AuditQuery, 'start' | 'end' | 'rest'>,
): AsyncGenerator<AuditRow> {
  const range = { from: { time: start }, before: { time: end + 1 } };
  for (let hour = hourOf(start); hour <= hourOf(end); hour += 1) {
    await rest();
    const cursors = everySlot.map((slot) => metadata.scan(auditAt(hour, slot), range));
    for await (const row of mergeRows(cursors, (a, b) => isNewer(b, a))) {
      await rest();
      yield row;
    }
  }
}

// Followers read rows as they come. The time of a row is the arrival of its request, and it is written when the request ends, so rows come
// late. A follower carries what it has seen of the last minutes, and each page compares them again.

/** What a follower carries from page to page: it has seen the rows of these marks; of other rows none that is older than `from`. */
export interface FollowPlace {
  /** ms since the epoch */
  readonly from: number;
  readonly seen: ReadonlySet<string>;
}

interface FollowQuery extends Pick<AuditQuery, 'max' | 'rest' | 'matches'> {
  readonly now: number;
  /** Absent: the newest rows that are not older than `start`. */
  readonly place: FollowPlace | undefined;
  readonly start: number;
  /** A short text for a row. */
  markOf(row: AuditRow): string;
}

interface FollowPage {
  /** The oldest first; late ones among them. */
  readonly rows: readonly AuditRow[];
  readonly place: FollowPlace;
  readonly hasMore: boolean;
}

/** How long rows may come late, and how many rows are compared again for them, at most. The marks are part of an address. */
const follow = { lateMs: 15 * 60_000, rows: 2_000, marks: 500 } as const;

export async function followAudit(
  metadata: Pick<MetadataStore, 'scan'>,
  query: FollowQuery,
): Promise<FollowPage> {
  const { now, place, max, matches, rest, markOf } = query;
  if (place === undefined) return beginToFollow(metadata, query);
  const from = Math.max(place.from, now - follow.lateMs);
  const rows: AuditRow[] = [];
  const read: ReadRow[] = [];
  let keys = 0;
  let hasMore = false;
  for await (const row of auditRowsBetween(metadata, { start: from, end: now, rest })) {
    const mark = matches(row) ? markOf(row) : undefined;
    read.push({ time: row.time, mark });
    if (mark !== undefined && !place.seen.has(mark)) {
      rows.push(row);
      keys += row.keys?.length ?? 0;
    }
    hasMore = rows.length >= max || read.length >= looks.rows || keys >= looks.keys;
    if (hasMore) break;
  }
  return { rows, place: placeAfter(read, { from, hasMore }), hasMore };
}

async function beginToFollow(
  metadata: Pick<MetadataStore, 'scan'>,
  { now, start, max, matches, rest, markOf }: FollowQuery,
): Promise<FollowPage> {
  const page = await readAudit(metadata, { start, end: now, max, matches, rest });
  const rows = page.rows.toReversed();
  const read = rows.map((row) => ({ time: row.time, mark: markOf(row) }));
  // Rows that are older than a full page are not new.
  const from = Math.max(now - follow.lateMs, page.next === undefined ? start : page.next.time + 1);
  return { rows, place: placeAfter(read, { from, hasMore: false }), hasMore: false };
}

interface ReadRow {
  readonly time: number;
  /** Absent for a row that does not match. */
  readonly mark: string | undefined;
}

/** @param read in order; all rows since `from`, or as many as one page reads */
function placeAfter(
  read: readonly ReadRow[],
  { from, hasMore }: { readonly from: number; readonly hasMore: boolean },
): FollowPlace {
  let first = read.length;
  for (let marks = 0; first > 0 && read.length - first < follow.rows; first -= 1) {
    if (read[first - 1]?.mark !== undefined) marks += 1;
    if (marks > follow.marks) break;
  }
  const dropped = read[first - 1]?.time;
  const cut = dropped === undefined ? from : Math.max(from, dropped + 1);
  // The next page begins at the last row at the latest; rows of one millisecond may come twice then.
  const next = hasMore ? Math.min(cut, read.at(-1)?.time ?? cut) : cut;
  const seen = read.flatMap(({ time, mark }) => (time >= next && mark !== undefined ? [mark] : []));
  return { from: next, seen: new Set(seen.slice(-follow.marks)) };
}

/** The rows of a slot of an hour, in order. */
export const rowsOfSlot = (
  metadata: Pick<MetadataStore, 'scan'>,
  hour: number,
  slot: number,
): Cursor<typeof audit> => metadata.scan(auditAt(hour, slot));

export async function clearAuditHour(metadata: Pick<MetadataStore, 'clear'>, hour: number): Promise<void> {
  for (const slot of everySlot) await metadata.clear(auditAt(hour, slot), {});
}

/** Whether the row of a change that has applied may still be missing, because the process that made the change died. */
export const hasPendingAudit = async (metadata: Pick<MetadataStore, 'hasPendingPuts'>): Promise<boolean> =>
  (await metadata.hasPendingPuts?.(audit)) ?? false;

// The seals of the audit log: one for each hour, each over the rows of its hour and the seal before. They are kept like the states of
// tasks, in one partition, so that a commit of a leader states the head that it has read.

export interface AuditSeal {
  readonly hour: number;
  /** The rows of the hour when it was sealed. */
  readonly rows: number;
  /** The digest of the rows of each slot; absent once the rows have expired. */
  readonly slots?: readonly string[];
  /** The digest of `slots`. */
  readonly content: string;
  /** The seal of the hour before; '' for the first one. */
  readonly previous: string;
  readonly seal: string;
  /** The seal, sealed under the master key: a writer to the database who does not have the key cannot make it. Base64. */
  readonly witness: string;
  /** Store time (ms); absent in seals of versions that did not keep it. */
  readonly sealedAt?: number;
  /** The retention when the hour was sealed: some of its rows may expire this long after its start. */
  readonly retentionMs: number;
}

/** The end of the chain. */
export interface AuditHead {
  /** The first and the last sealed hour. */
  readonly first: number;
  readonly hour: number;
  readonly seal: string;
  /** The first hour whose rows are kept. */
  readonly keptFrom: number;
}

/**
 * How far the hours were sealed, in a partition of its own: where the chain was removed, or set back and continued, this row still says so.
 * An attacker who knows of the row can remove it too; only a seal that is noted elsewhere proves that nothing is missing.
 */
export interface SealedExtent {
  /** The first hour that was ever sealed, and the last one with its seal. */
  readonly first: number;
  readonly hour: number;
  readonly seal: string;
  /** `first`, `hour` and `seal`, sealed under the master key. Base64. */
  readonly witness: string;
  /** An hour whose seal was another one before the chain was continued. */
  readonly replaced?: number;
}

/** Two types of state in one partition, so that one commit changes both. */
const kind = 'audit-seal';
const seals: TaskKind<AuditSeal> = { kind };
const heads: TaskKind<AuditHead> = { kind };
const both: TaskKind<AuditSeal | AuditHead> = { kind };

const extents: TaskKind<SealedExtent> = { kind: 'audit-sealed' };

const headName = 'head';
const prefix = 'hour-';
const sealName = (hour: number): string => `${prefix}${String(hour).padStart(10, '0')}`;

export const beginSealing = (
  metadata: Pick<MetadataStore, 'get' | 'commit'>,
  generation: number,
): Promise<Term> => beginTerm(metadata, heads, generation);

export const findAuditHead = (metadata: Pick<MetadataStore, 'get'>): Promise<Task<AuditHead> | undefined> =>
  findTask(metadata, heads, headName);

/**
 * As `findAuditHead`. A damaged head is written again from the seals, which say all of it: a seal without digests of its
 * rows is of an hour whose rows were removed.
 */
export const findSoundAuditHead = (
  metadata: Pick<MetadataStore, 'get' | 'scan' | 'replaceDamaged'>,
): Promise<Task<AuditHead> | undefined> =>
  findSoundTask(metadata, heads, headName, async () => {
    let head: AuditHead | undefined;
    for await (const { name, state } of everyTask(metadata, seals, { after: prefix })) {
      if (!name.startsWith(prefix)) break;
      const { hour, seal, slots } = state;
      const isRemoved = slots === undefined && (head === undefined || head.keptFrom === hour);
      const { first, keptFrom } = head ?? { first: hour, keptFrom: hour };
      head = { first, hour, seal, keptFrom: isRemoved ? hour + 1 : keptFrom };
    }
    return head;
  });

export const findAuditSeal = (
  metadata: Pick<MetadataStore, 'get'>,
  hour: number,
): Promise<Task<AuditSeal> | undefined> => findTask(metadata, seals, sealName(hour));

/** Up to `limit` seals from the one of `hour` on. */
export async function pageAuditSeals(
  metadata: Pick<MetadataStore, 'scan'>,
  { hour, limit }: { readonly hour: number; readonly limit: number },
): Promise<readonly AuditSeal[]> {
  const page = await pageTasks(metadata, seals, { prefix, after: sealName(hour - 1), limit });
  return page.map(({ state }) => state);
}

/** Writes the head, and a seal; refused when one of them has changed, or a later leader has begun. */
export const putAuditSeal = (
  metadata: Pick<MetadataStore, 'commit'>,
  {
    head,
    seal,
    term,
  }: {
    readonly head: { readonly state: AuditHead; readonly expect: 'absent' | Revision };
    readonly seal?: { readonly state: AuditSeal; readonly expect: 'absent' | Revision } | undefined;
    readonly term: Term;
  },
): Promise<Outcome<typeof tasks>> => {
  const changes: readonly TaskChange<AuditSeal | AuditHead>[] = [
    { put: { name: headName, state: head.state }, expect: head.expect },
    ...(seal ? [{ put: { name: sealName(seal.state.hour), state: seal.state }, expect: seal.expect }] : []),
  ];
  return putTasks(metadata, both, { changes, term });
};

export const findSealedExtent = (
  metadata: Pick<MetadataStore, 'get'>,
): Promise<Task<SealedExtent> | undefined> => findTask(metadata, extents, '');

/** Not applied where another leader has changed it. */
export const putSealedExtent = (
  metadata: Pick<MetadataStore, 'commit'>,
  state: SealedExtent,
  expect: 'absent' | Revision,
): Promise<Outcome<typeof tasks>> =>
  putTasks(metadata, extents, { changes: [{ put: { name: '', state }, expect }] });
