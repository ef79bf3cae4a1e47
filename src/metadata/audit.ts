/** The audit log: a row for every request that changes or would have changed something. */

import { shardOf } from '../base/shard.ts';
import type { At, MetadataStore, SideChange } from '../ports/metadata-store.ts';
import { newestFirst } from './objects/newest-first.ts';
import { type AuditRow, audit } from './records/audit.ts';

const hourMs = 60 * 60 * 1000;
/** An hour's rows are spread over this many partitions, so that concurrent writers do not queue for one. */
const auditSlots = 8;

const hourOf = (time: number): number => Math.floor(time / hourMs);
const auditAt = (hour: number, slot: number): At<typeof audit> => ({ table: audit, in: { hour, slot } });

/** The row of a request. Its place is its time and id: written again, it is the same row. */
export function audited(
  entry: Omit<AuditRow, 'hour' | 'slot'>,
  { retentionMs }: { readonly retentionMs: number },
): SideChange {
  const hour = hourOf(entry.time);
  const slot = shardOf(entry.id, auditSlots);
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

export interface AuditQuery {
  /** The first and the last millisecond that counts. */
  readonly start: number;
  readonly end: number;
  /** The position where the previous page ended. */
  readonly before?: AuditPlace | undefined;
  readonly max: number;
  matches(row: AuditRow): boolean;
}

export interface AuditPage {
  readonly rows: readonly AuditRow[];
  /** Where the next page starts. A page may have few rows or none, because one request reads a bounded number of rows. */
  readonly next?: AuditPlace;
}

/** The rows that one page reads, at most. */
const looks = { hours: 240, rows: 10_000 } as const;

/** A page of the log, the newest first. */
export async function readAudit(
  metadata: Pick<MetadataStore, 'scan'>,
  { start, end, before = { time: end + 1, id: '' }, max, matches }: AuditQuery,
): Promise<AuditPage> {
  const rows: AuditRow[] = [];
  let looked = 0;
  const newest = hourOf(before.time);
  for (let hour = newest; hour >= hourOf(start); hour -= 1) {
    if (newest - hour >= looks.hours) return { rows, next: { time: (hour + 1) * hourMs, id: '' } };
    for await (const row of hourBackwards(metadata, hour, { start, before })) {
      if (matches(row)) rows.push(row);
      looked += 1;
      if (rows.length >= max || looked >= looks.rows) return { rows, next: { time: row.time, id: row.id } };
    }
  }
  return { rows };
}

/** The rows of an hour, the newest first: its slots merged. */
function hourBackwards(
  metadata: Pick<MetadataStore, 'scan'>,
  hour: number,
  { start, before }: { readonly start: number; readonly before: AuditPlace },
): AsyncGenerator<AuditRow> {
  const cursors = Array.from({ length: auditSlots }, (_, slot) =>
    metadata.scan(auditAt(hour, slot), { from: { time: start }, before, reverse: true }),
  );
  return newestFirst(cursors, isNewer);
}

const isNewer = (a: AuditPlace, b: AuditPlace): boolean =>
  a.time > b.time || (a.time === b.time && a.id > b.id);
