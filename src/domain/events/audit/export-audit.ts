/** Streams the audit log, the oldest row first. A slow reader slows the reading of rows, and few rows are in memory. */
import type { Context } from '../../../context.ts';
import { auditRowsBetween } from '../../../metadata/audit/audit.ts';
import type { AuditRow } from '../../../metadata/records/audit.ts';
import { openTurns } from '../../storage/turns.ts';
import type { AuditFormat } from './audit-formats.ts';

/** The text that is sent together, in characters. */
const pieceSize = 32 * 1024;

export interface AuditExport {
  readonly start: number;
  readonly end: number;
  readonly format: AuditFormat;
  /** Ends an export that has found no row yet: a generator is ended from outside only where it yields. */
  readonly signal?: AbortSignal;
  matches(row: AuditRow): boolean;
  /** Whether policies let the caller see a row that matches. */
  isVisible(row: AuditRow): Promise<boolean>;
}

export async function* exportAudit(
  ctx: Pick<Context, 'metadata' | 'config' | 'hasher' | 'clock'>,
  { start, end, format, signal, matches, isVisible }: AuditExport,
): AsyncGenerator<Uint8Array> {
  const { around, between, toText } = format;
  const encoder = new TextEncoder();
  let text = around[0];
  let isFirst = true;
  const rest = openTurns(ctx.clock, signal);
  for await (const row of auditRowsBetween(ctx.metadata, { start, end, rest })) {
    if (!matches(row) || !(await isVisible(row))) continue;
    text += (isFirst ? '' : between) + toText(ctx, row);
    isFirst = false;
    if (text.length < pieceSize) continue;
    yield encoder.encode(text);
    text = '';
  }
  // No row makes no line.
  const last = isFirst && around[0] === '' ? '' : text + around[1];
  if (last !== '') yield encoder.encode(last);
}
