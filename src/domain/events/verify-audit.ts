/** Verifies the chain of the audit log and the rows that it covers, and reports the first gap. */
import type { Context } from '../../context.ts';
import {
  type AuditHead,
  type AuditSeal,
  auditHourMs,
  auditSealDelayMs,
  auditSlots,
  findAuditHead,
  findAuditSeal,
  findSealedExtent,
  pageAuditSeals,
} from '../../metadata/audit.ts';
import {
  chainLink,
  compareExtent,
  digestSlot,
  digestSlots,
  openWitness,
  type SlotDigest,
  witnessContext,
} from './seal-hours.ts';

type Ctx = Pick<Context, 'metadata' | 'hasher' | 'sealer' | 'config'>;

export interface AuditGap {
  /**
   * - `seal-missing`: an hour has no seal, the end of the chain is missing, or the whole chain, of which only its noted extent is left
   * - `seal-altered`: a seal does not match what it states, or the chain was continued with another seal than the noted one
   * - `chain-broken`: a seal names another seal before it
   * - `rows-removed`, `rows-added`, `rows-altered`: the rows of the hour are not those that were sealed
   */
  readonly kind:
    | 'seal-missing'
    | 'seal-altered'
    | 'chain-broken'
    | 'rows-removed'
    | 'rows-added'
    | 'rows-altered';
  readonly hour: number;
  readonly sealedRows?: number;
  readonly foundRows?: number;
}

export interface Verification {
  readonly head: AuditHead | undefined;
  /** Hours whose rows were compared, and their rows. */
  readonly hours: number;
  readonly rows: number;
  /** Hours whose rows have expired: only their seals were verified. */
  readonly expired: number;
  /** Hours that the chain says were removed before their retention ended: the setting was shorter for a time, or an attacker wrote so. */
  readonly removedEarly: number;
  /** Seals that no master key of this process opens: that key is not configured any more, or an attacker made the seal. */
  readonly unauthenticated: number;
  /**
   * Hours that were sealed long after their end, and the first of them: no process ran the worker then, or an attacker set the head of the
   * chain back and removed its noted extent, and the hours after it were sealed again over other rows.
   */
  readonly sealedLate: number;
  readonly firstLate?: number;
  readonly gap?: AuditGap;
  /** The hour with which the next part begins; absent at the end of the chain. */
  readonly next?: number;
}

/** A seal is late when its hour could have been sealed this long before. */
const lateMs = auditHourMs;

const isLate = ({ hour, sealedAt = 0 }: AuditSeal): boolean =>
  sealedAt > (hour + 1) * auditHourMs + auditSealDelayMs + lateMs;

/** What one part reads, at most. An hour is read whole. */
const partMax = { rows: 200_000, seals: 2_000 } as const;
const pageSeals = 100;

export interface Noted {
  readonly hour: number;
  readonly seal: string;
}

export interface VerificationAsked {
  /** The hour to begin with; absent: the first one. */
  readonly from?: number | undefined;
  /** A seal of which the operator has a copy elsewhere. A chain without it was replaced as a whole. */
  readonly noted?: Noted | undefined;
  /** Of `openTurns`. */
  readonly rest: () => Promise<void>;
}

export async function verifyAudit(ctx: Ctx, { from, noted, rest }: VerificationAsked): Promise<Verification> {
  // Before the head, because a leader may seal an hour in between.
  const extent = (await findSealedExtent(ctx.metadata))?.state;
  const verification = await verifyChain(ctx, { from, rest });
  if (verification.gap === undefined && extent !== undefined) {
    const gap = await compareExtent(ctx, extent, verification.head);
    if (gap !== undefined) return { ...verification, gap };
  }
  if (noted === undefined || verification.gap !== undefined) return verification;
  const { hour, seal } = noted;
  const found = (await findAuditSeal(ctx.metadata, hour))?.state.seal;
  if (found === seal) return verification;
  return { ...verification, gap: { kind: found === undefined ? 'seal-missing' : 'seal-altered', hour } };
}

async function verifyChain(
  ctx: Ctx,
  { from, rest }: Pick<VerificationAsked, 'from' | 'rest'>,
): Promise<Verification> {
  const head = (await findAuditHead(ctx.metadata))?.state;
  let counts: Counts = {
    hours: 0,
    rows: 0,
    expired: 0,
    removedEarly: 0,
    unauthenticated: 0,
    sealedLate: 0,
  };
  const first = await findFirst(ctx, head, from);
  if (first === undefined) return { head, ...counts };
  const start = Math.max(first, from ?? first);
  const now = await ctx.metadata.now();
  let previous = await sealBefore(ctx, { hour: start, first });
  let hour = start;
  for (let read = 0; ; ) {
    const page = await pageAuditSeals(ctx.metadata, { hour, limit: pageSeals });
    for (const seal of page) {
      await rest();
      const gap = findBreak(ctx, seal, { hour, previous });
      if (gap !== undefined) return { head, ...counts, gap };
      const witness = await openWitness(ctx, seal.witness, witnessContext(hour));
      if (witness !== undefined && witness !== seal.seal)
        return { head, ...counts, gap: { kind: 'seal-altered', hour } };
      counts = { ...counts, unauthenticated: counts.unauthenticated + (witness === undefined ? 1 : 0) };
      if (isLate(seal)) counts = { firstLate: hour, ...counts, sealedLate: counts.sealedLate + 1 };
      const compared = await compareRows(ctx, seal, { head, now, rest });
      if ('gap' in compared) return { head, ...counts, gap: compared.gap };
      counts = add(counts, compared);
      previous = seal.seal;
      hour += 1;
      read += 1;
      if (counts.rows >= partMax.rows || read >= partMax.seals) return { head, ...counts, next: hour };
    }
    if (page.length < pageSeals) return { head, ...counts, ...findEnd(head, { hour, previous }) };
  }
}

type Counts = Omit<Verification, 'head' | 'gap' | 'next'>;

async function findFirst({ metadata }: Ctx, head: AuditHead | undefined, from: number | undefined) {
  if (head !== undefined) return head.first;
  const [any] = await pageAuditSeals(metadata, { hour: from ?? 0, limit: 1 });
  return any?.hour;
}

async function sealBefore(
  { metadata }: Ctx,
  { hour, first }: { readonly hour: number; readonly first: number },
): Promise<string | undefined> {
  return hour === first ? '' : (await findAuditSeal(metadata, hour - 1))?.state.seal;
}

function findBreak(
  ctx: Ctx,
  seal: AuditSeal,
  { hour, previous }: { readonly hour: number; readonly previous: string | undefined },
): AuditGap | undefined {
  if (seal.hour !== hour || previous === undefined)
    return { kind: 'seal-missing', hour: previous === undefined ? hour - 1 : hour };
  if (seal.previous !== previous) return { kind: 'chain-broken', hour };
  const isWhole =
    chainLink(ctx, seal) === seal.seal &&
    (seal.slots === undefined || digestSlots(ctx, seal.slots) === seal.content);
  return isWhole ? undefined : { kind: 'seal-altered', hour };
}

type Compared = { readonly rows: number } | { readonly without: 'expired' | 'removedEarly' };

const add = (counts: Counts, compared: Compared): Counts =>
  'without' in compared
    ? { ...counts, [compared.without]: counts[compared.without] + 1 }
    : { ...counts, hours: counts.hours + 1, rows: counts.rows + compared.rows };

/** Rows that may expire now are not compared. */
async function compareRows(
  ctx: Ctx,
  seal: AuditSeal,
  {
    head,
    now,
    rest,
  }: { readonly head: AuditHead | undefined; readonly now: number; readonly rest: () => Promise<void> },
): Promise<Compared | { readonly gap: AuditGap }> {
  const { hour, slots, retentionMs } = seal;
  const sealedMs = Math.min(retentionMs, ctx.config.SVC_AUDIT_RETENTION);
  if (now >= hour * auditHourMs + sealedMs) return { without: 'expired' };
  if (hour < (head?.keptFrom ?? 0)) return { without: 'removedEarly' };
  if (slots === undefined) return { gap: { kind: 'seal-altered', hour } };
  const found: SlotDigest[] = [];
  for (let slot = 0; slot < auditSlots; slot += 1) found.push(await digestSlot(ctx, { hour, slot, rest }));
  const foundRows = found.reduce((sum, { rows }) => sum + rows, 0);
  if (found.every(({ digest }, slot) => digest === slots[slot])) return { rows: foundRows };
  // Damage since the seal: what the rows said is unknown, which is no proof that they were changed.
  for (const { damage } of found) if (damage !== undefined) throw damage;
  const kind = foundRows < seal.rows ? 'rows-removed' : foundRows > seal.rows ? 'rows-added' : 'rows-altered';
  return { gap: { kind, hour, sealedRows: seal.rows, foundRows } };
}

/** Whether the chain ends where its head says. */
function findEnd(
  head: AuditHead | undefined,
  { hour, previous }: { readonly hour: number; readonly previous: string | undefined },
): { readonly gap?: AuditGap } {
  if (head === undefined || head.hour >= hour) return { gap: { kind: 'seal-missing', hour } };
  return head.hour === hour - 1 && head.seal !== previous
    ? { gap: { kind: 'seal-altered', hour: head.hour } }
    : {};
}
