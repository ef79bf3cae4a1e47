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
  matches(row: AuditRow): boolean;
}

export async function* exportAudit(
  ctx: Pick<Context, 'metadata' | 'config' | 'hasher' | 'clock'>,
  { start, end, format, matches }: AuditExport,
): AsyncGenerator<Uint8Array> {
  const { around, between, toText } = format;
  const encoder = new TextEncoder();
  let text = around[0];
  let isFirst = true;
  for await (const row of auditRowsBetween(ctx.metadata, { start, end, rest: openTurns(ctx.clock) })) {
    if (!matches(row)) continue;
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
