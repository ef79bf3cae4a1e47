/** Verifies the chain of the audit log and the rows that it covers, and reports the gaps. */
import type { Context } from '../../context.ts';
import {
  type AuditHead,
  type AuditSeal,
  auditHourMs,
  auditSealDelayMs,
  auditSlots,
  findAuditHead,
  findSealedExtent,
  pageAuditSeals,
} from '../../metadata/audit.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import {
  chainLink,
  compareExtent,
  digestSlot,
  digestSlots,
  isFuture,
  openWitness,
  readSeal,
  type SlotDigest,
  witnessContext,
} from './seal-hours.ts';

type Ctx = Pick<Context, 'metadata' | 'hasher' | 'sealer' | 'config'>;

export interface AuditGap {
  /**
   * - `seal-missing`: an hour has no seal, the end of the chain is missing, or the whole chain, of which only its noted extent is left
   * - `seal-damaged`: the seal of an hour cannot be read, which is no proof that it was changed
   * - `seal-altered`: a seal does not match what it states, or the chain was continued with another seal than the noted one
   * - `chain-broken`: a seal names another seal before it
   * - `sealed-early`: the hour is not over, so a clock was ahead when it was sealed; only the first such hour is named
   * - `rows-removed`, `rows-added`, `rows-altered`: the rows of the hour are not those that were sealed
   * - `rows-damaged`: rows of the hour cannot be read, which is no proof that they were changed
   */
  readonly kind:
    | 'seal-missing'
    | 'seal-damaged'
    | 'seal-altered'
    | 'chain-broken'
    | 'sealed-early'
    | 'rows-removed'
    | 'rows-added'
    | 'rows-altered'
    | 'rows-damaged';
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
  /** In the order of their hours, then those by the noted extent and by the operator's seal. */
  readonly gaps: readonly AuditGap[];
  /** Gaps beside `gaps`, which has the first ones. */
  readonly furtherGaps: number;
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
/** Gaps of the chain that an answer names. */
const gapsMax = 100;

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
  const gaps = [...verification.gaps];
  const add = (gap: AuditGap | undefined): void => {
    if (gap !== undefined && !gaps.some(({ kind, hour }) => kind === gap.kind && hour === gap.hour))
      gaps.push(gap);
  };
  if (extent !== undefined) add(await compareExtent(ctx, extent, verification.head));
  if (noted !== undefined) {
    const { hour, seal } = noted;
    const found = await readSeal(ctx, hour);
    if (found === undefined || found instanceof MetadataDamaged) add(missingSeal(found, hour));
    else if (found.state.seal !== seal) add({ kind: 'seal-altered', hour });
  }
  return { ...verification, gaps };
}

const missingSeal = (found: unknown, hour: number): AuditGap => ({
  kind: found instanceof MetadataDamaged ? 'seal-damaged' : 'seal-missing',
  hour,
});

/** The gap of an hour whose seal a walk of the chain has not met. */
const nameMissing = async (ctx: Pick<Ctx, 'metadata'>, hour: number): Promise<AuditGap> =>
  missingSeal(await readSeal(ctx, hour), hour);

/** The walk goes on behind a gap, so that the hours after it are verified too. */
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
  const gaps: AuditGap[] = [];
  const ended = (next?: number): Verification => ({
    ...{ head, ...counts, gaps: gaps.slice(0, gapsMax), furtherGaps: Math.max(0, gaps.length - gapsMax) },
    ...(next === undefined ? {} : { next }),
  });
  const first = await findFirst(ctx, head, from);
  if (first === undefined) return ended();
  const start = Math.max(first, from ?? first);
  const now = await ctx.metadata.now();
  let previous: Previous = (await sealBefore(ctx, { hour: start, first })) ?? missing;
  let hour = start;
  let isEarly = false;
  for (let read = 0, rows = 0; ; ) {
    const page = await pageAuditSeals(ctx.metadata, { hour, limit: pageSeals });
    for (const seal of page) {
      await rest();
      if (previous === missing) gaps.push(await nameMissing(ctx, hour - 1));
      if (seal.hour !== hour) gaps.push(await nameMissing(ctx, hour));
      if (previous === missing || seal.hour !== hour) previous = unknown;
      hour = seal.hour;
      const { gap, isAuthentic } = await verifySeal(ctx, seal, previous);
      if (!isAuthentic) counts = { ...counts, unauthenticated: counts.unauthenticated + 1 };
      if (isLate(seal)) counts = { firstLate: hour, ...counts, sealedLate: counts.sealedLate + 1 };
      if (gap !== undefined) gaps.push(gap);
      // Hours that are not over are not compared: their rows are still added, and none of them has expired.
      if (isFuture(hour, now)) {
        if (!isEarly) gaps.push({ kind: 'sealed-early', hour });
        isEarly = true;
      } else if (gap === undefined) {
        const compared = await compareRows(ctx, seal, { head, now, rest });
        if ('gap' in compared) gaps.push(compared.gap);
        else counts = add(counts, compared);
        rows += readRows(compared);
      }
      previous = gap?.kind === 'seal-altered' ? unknown : seal.seal;
      hour += 1;
      read += 1;
      if (rows >= partMax.rows || read >= partMax.seals) return ended(hour);
    }
    if (page.length < pageSeals) {
      const gap = await findEnd(ctx, head, { hour, previous });
      if (gap !== undefined) gaps.push(gap);
      return ended();
    }
  }
}

/** Nothing is known of the seal before, so what the next one says of it is not compared. */
const unknown = Symbol('unknown');
/** The hour before has no seal. */
const missing = Symbol('missing');
type Previous = string | typeof missing | typeof unknown;

type Counts = Omit<Verification, 'head' | 'gaps' | 'furtherGaps' | 'next'>;

async function findFirst({ metadata }: Ctx, head: AuditHead | undefined, from: number | undefined) {
  if (head !== undefined) return head.first;
  const [any] = await pageAuditSeals(metadata, { hour: from ?? 0, limit: 1 });
  return any?.hour;
}

async function sealBefore(
  { metadata }: Ctx,
  { hour, first }: { readonly hour: number; readonly first: number },
): Promise<string | undefined> {
  if (hour === first) return '';
  const found = await readSeal({ metadata }, hour - 1);
  return found instanceof MetadataDamaged ? undefined : found?.state.seal;
}

/** Whether the seal is what it states, and continues the chain. */
async function verifySeal(
  ctx: Ctx,
  seal: AuditSeal,
  previous: Previous,
): Promise<{ readonly gap?: AuditGap; readonly isAuthentic: boolean }> {
  const { hour } = seal;
  const isWhole =
    chainLink(ctx, seal) === seal.seal &&
    (seal.slots === undefined || digestSlots(ctx, seal.slots) === seal.content);
  const witness = await openWitness(ctx, seal.witness, witnessContext(hour));
  const isAuthentic = witness !== undefined;
  if (previous !== unknown && seal.previous !== previous)
    return { gap: { kind: 'chain-broken', hour }, isAuthentic };
  if (!isWhole || (isAuthentic && witness !== seal.seal))
    return { gap: { kind: 'seal-altered', hour }, isAuthentic };
  return { isAuthentic };
}

type Compared = { readonly rows: number } | { readonly without: 'expired' | 'removedEarly' };

const add = (counts: Counts, compared: Compared): Counts =>
  'without' in compared
    ? { ...counts, [compared.without]: counts[compared.without] + 1 }
    : { ...counts, hours: counts.hours + 1, rows: counts.rows + compared.rows };

const readRows = (compared: Compared | { readonly gap: AuditGap }): number =>
  'gap' in compared ? (compared.gap.foundRows ?? 0) : 'rows' in compared ? compared.rows : 0;

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
  const changed = found.filter(({ digest }, slot) => digest !== slots[slot]);
  if (changed.length === 0) return { rows: foundRows };
  const isUnread = changed.every(({ damage }) => damage !== undefined);
  const kind = isUnread ? 'rows-damaged' : nameChange(foundRows, seal.rows);
  return { gap: { kind, hour, sealedRows: seal.rows, foundRows } };
}

function nameChange(foundRows: number, sealedRows: number): AuditGap['kind'] {
  if (foundRows === sealedRows) return 'rows-altered';
  return foundRows < sealedRows ? 'rows-removed' : 'rows-added';
}

/** What contradicts that the chain ends where its head says. */
async function findEnd(
  ctx: Pick<Ctx, 'metadata'>,
  head: AuditHead | undefined,
  { hour, previous }: { readonly hour: number; readonly previous: Previous },
): Promise<AuditGap | undefined> {
  if (head === undefined || head.hour >= hour) return nameMissing(ctx, hour);
  return head.hour === hour - 1 && previous !== unknown && head.seal !== previous
    ? { kind: 'seal-altered', hour: head.hour }
    : undefined;
}
