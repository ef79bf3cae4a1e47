/**
 * Seals the hours of the audit log and removes those that have expired, an hour at a time.
 *
 * Writers add rows to an hour until five minutes after its end and read no seals, so sealing costs them nothing. The
 * leader seals an hour fifteen minutes after its end.
 */
import type { Context } from '../../../context.ts';
import {
  auditHourMs,
  auditHourOf,
  auditSealDelayMs,
  clearAuditHour,
  hasPendingAudit,
} from '../../../metadata/audit/audit.ts';
import {
  type AuditHead,
  type AuditSeal,
  beginSealing,
  findAuditHead,
  findAuditSeal,
  putAuditSeal,
} from '../../../metadata/audit/seals.ts';
import { LeaseLost } from '../../../metadata/background/leases.ts';
import type { Term } from '../../../metadata/background/tasks.ts';
import type { Revision } from '../../../ports/metadata-store.ts';
import { contentOf, digestHour, linkOf, sealWitness, witnessContext } from './digest-hour.ts';
import { noteSealed } from './sealed-extent.ts';

type Ctx = Pick<Context, 'metadata' | 'hasher' | 'sealer' | 'config' | 'telemetry'>;

export interface HeldSeals {
  readonly term: Term;
  readonly head: AuditHead | undefined;
  readonly revision: 'absent' | Revision;
}

/** @throws LeaseLost when a later leader has begun */
export async function holdSeals({ metadata }: Pick<Ctx, 'metadata'>, generation: number): Promise<HeldSeals> {
  const term = await beginSealing(metadata, generation);
  const found = await findAuditHead(metadata);
  // The leader before may have died between the commit that gave an hour up and the removal of its rows.
  if (found !== undefined && found.state.keptFrom > found.state.first)
    await clearAuditHour(metadata, found.state.keptFrom - 1);
  return { term, head: found?.state, revision: found?.revision ?? 'absent' };
}

export interface SealStep {
  readonly held: HeldSeals;
  /** The rows that were sealed or removed; undefined when nothing was due. */
  readonly rows?: number;
}

/** Seals the next hour, or removes the oldest one. @param rest called before each page of rows */
export async function stepSeals(ctx: Ctx, held: HeldSeals, rest: () => Promise<void>): Promise<SealStep> {
  const now = await ctx.metadata.now();
  const lastClosed = auditHourOf(now - auditSealDelayMs) - 1;
  const next = held.head === undefined ? lastClosed : held.head.hour + 1;
  if (next <= lastClosed && !(await isWaiting(ctx, next, now)))
    return sealHour(ctx, held, { hour: next, rest });
  const { head } = held;
  const isExpired =
    head !== undefined &&
    head.keptFrom <= head.hour &&
    (head.keptFrom + 1) * auditHourMs + ctx.config.SVC_AUDIT_RETENTION <= now;
  return isExpired ? removeHour(ctx, held, head) : { held };
}

/** Whether rows of the hour may follow from processes that died: their changes are settled within two `SVC_INTENT_TTL`. */
async function isWaiting({ metadata, config }: Ctx, hour: number, now: number): Promise<boolean> {
  const settled = (hour + 1) * auditHourMs + auditSealDelayMs + 2 * config.SVC_INTENT_TTL;
  return now < settled && (await hasPendingAudit(metadata));
}

async function sealHour(
  ctx: Ctx,
  held: HeldSeals,
  { hour, rest }: { readonly hour: number; readonly rest: () => Promise<void> },
): Promise<SealStep> {
  const { rows, slots } = await digestHour(ctx, hour, rest);
  const previous = held.head?.seal ?? '';
  const content = contentOf(ctx, slots);
  const retentionMs = ctx.config.SVC_AUDIT_RETENTION;
  const sealedAt = await ctx.metadata.now();
  const seal = linkOf(ctx, { previous, hour, rows, content, retentionMs, sealedAt });
  const state: AuditSeal = {
    hour,
    rows,
    slots,
    content,
    previous,
    seal,
    witness: await sealWitness(ctx, seal, witnessContext(hour)),
    retentionMs,
    sealedAt,
  };
  const head = { first: held.head?.first ?? hour, keptFrom: held.head?.keptFrom ?? hour, hour, seal };
  const next = await put(ctx, held, { head, seal: { state, expect: 'absent' } });
  await noteSealed(ctx, head);
  // A copy of this line elsewhere proves a replacement of the whole chain, because the new chain has other seals.
  ctx.telemetry.log('INFO', 'an hour of the audit log was sealed', { hour: toTime(hour), rows, seal });
  return { held: next, rows };
}

/** The commit comes first: once the rows are missing, the chain says that they have expired. */
async function removeHour(ctx: Ctx, held: HeldSeals, head: AuditHead): Promise<SealStep> {
  const { metadata, telemetry } = ctx;
  const found = await findAuditSeal(metadata, head.keptFrom);
  const after = { ...head, keptFrom: head.keptFrom + 1 };
  if (found === undefined) {
    // The seal was removed by other means, which the verification reports. The rows stay until they expire by themselves.
    telemetry.log('ERROR', 'a seal of the audit log is missing', { hour: toTime(head.keptFrom) });
    return { held };
  }
  const { slots: _, ...state } = found.state;
  const next = await put(ctx, held, { head: after, seal: { state, expect: found.revision } });
  await clearAuditHour(metadata, head.keptFrom);
  return { held: next, rows: found.state.rows };
}

async function put(
  { metadata }: Pick<Ctx, 'metadata'>,
  { term, revision }: HeldSeals,
  {
    head,
    seal,
  }: {
    readonly head: AuditHead;
    readonly seal: { readonly state: AuditSeal; readonly expect: 'absent' | Revision };
  },
): Promise<HeldSeals> {
  const outcome = await putAuditSeal(metadata, { head: { state: head, expect: revision }, seal, term });
  if (!outcome.applied) throw new LeaseLost('audit-seal', term.generation);
  return { term, head, revision: outcome.revision };
}

/** The start of an hour, such as `2026-01-31T12:00:00.000Z`. */
export const toTime = (hour: number): string => new Date(hour * auditHourMs).toISOString();
