/**
 * Seals the hours of the audit log and removes those that have expired, an hour at a time.
 *
 * Writers add rows to an hour until five minutes after its end and read no seals, so sealing costs them nothing. The
 * leader seals an hour fifteen minutes after its end.
 */

import { toHex } from '../../base/text/hex.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import {
  type AuditHead,
  type AuditSeal,
  auditHourMs,
  auditHourOf,
  auditSealDelayMs,
  auditSlots,
  beginSealing,
  clearAuditHour,
  findAuditHead,
  findAuditSeal,
  findSealedExtent,
  findSoundAuditHead,
  hasPendingAudit,
  putAuditSeal,
  putSealedExtent,
  rowsOfSlot,
  type SealedExtent,
} from '../../metadata/audit.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import type { Term } from '../../metadata/background/tasks.ts';
import type { AuditRow } from '../../metadata/records/audit.ts';
import { nextSound } from '../../metadata/sound-rows.ts';
import { MetadataDamaged, type Revision } from '../../ports/metadata-store.ts';
import { ClockWatch, isAhead } from '../common/clock-skew.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';

// The digests of an hour of the audit log, and the seal that links them to the hour before.

type DigestHourCtx = Pick<Context, 'metadata' | 'hasher'>;

/** Rows that are read together. */
const pageRows = 500;
const encoder = new TextEncoder();

export interface SlotDigest {
  /** Those that can be read. */
  readonly rows: number;
  /** Of these rows, and of the number of damaged ones. */
  readonly digest: string;
  /** The first row that cannot be read. */
  readonly damage?: MetadataDamaged | undefined;
}

/** Every column that the row has, in the order of their names: a column that a later version adds changes no digest of older rows. */
const canonicalText = (row: AuditRow): string =>
  JSON.stringify(
    Object.entries(row)
      .filter(([, value]) => value !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

/**
 * Damaged rows are passed over: one must not keep all later hours from being sealed and removed. Only their number is digested, so that an
 * hour in which as many become readable, or more become damaged, has another digest.
 * @param rest called before each page, and may throw to end the walk
 */
export async function digestSlot(
  { metadata, hasher }: DigestHourCtx,
  { hour, slot, rest }: { readonly hour: number; readonly slot: number; readonly rest: () => Promise<void> },
): Promise<SlotDigest> {
  const hash = hasher.create('sha256');
  const cursor = rowsOfSlot(metadata, hour, slot);
  let rows = 0;
  let damagedRows = 0;
  let damage: MetadataDamaged | undefined;
  for (;;) {
    await rest();
    const page = await nextSound(cursor, pageRows, (each) => {
      damagedRows += 1;
      damage ??= each;
    });
    if (page.length === 0) break;
    rows += page.length;
    hash.update(encoder.encode(page.map(({ row }) => `${canonicalText(row)}\n`).join('')));
  }
  if (damagedRows > 0) hash.update(encoder.encode(`${damagedRows} damaged\n`));
  return { rows, digest: toHex(hash.digest()), damage };
}

async function digestHour(
  ctx: DigestHourCtx,
  hour: number,
  rest: () => Promise<void>,
): Promise<{
  readonly rows: number;
  readonly slots: readonly string[];
  readonly damage: MetadataDamaged | undefined;
}> {
  const slots: SlotDigest[] = [];
  for (let slot = 0; slot < auditSlots; slot += 1) slots.push(await digestSlot(ctx, { hour, slot, rest }));
  return {
    rows: slots.reduce((sum, { rows }) => sum + rows, 0),
    slots: slots.map(({ digest }) => digest),
    damage: slots.find(({ damage }) => damage !== undefined)?.damage,
  };
}

export const digestSlots = ({ hasher }: Pick<DigestHourCtx, 'hasher'>, slots: readonly string[]): string =>
  hasher.sha256Hex(slots.join('\n'));

/** The hash that links an hour to the one before. */
export const chainLink = (
  { hasher }: Pick<DigestHourCtx, 'hasher'>,
  {
    previous,
    hour,
    rows,
    content,
    retentionMs,
    sealedAt,
  }: Pick<AuditSeal, 'previous' | 'hour' | 'rows' | 'content' | 'retentionMs' | 'sealedAt'>,
): string => {
  const linked = [previous, hour, rows, content, retentionMs, ...(sealedAt === undefined ? [] : [sealedAt])];
  return hasher.sha256Hex(linked.join('\n'));
};

export const witnessContext = (hour: number): string => `audit seal ${hour}`;

/** A text sealed under the master key. Base64. */
const sealWitness = async (
  { sealer }: Pick<Context, 'sealer'>,
  text: string,
  context: string,
): Promise<string> => btoa(String.fromCharCode(...(await sealer.seal(encoder.encode(text), context))));

/** The text that was sealed; undefined when no known master key opens it. */
export async function openWitness(
  { sealer }: Pick<Context, 'sealer'>,
  witness: string,
  context: string,
): Promise<string | undefined> {
  try {
    const sealed = Uint8Array.from(atob(witness), (character) => character.charCodeAt(0));
    const opened = await sealer.open(sealed, context);
    return opened && decodeUtf8(opened);
  } catch {
    return undefined;
  }
}

// How far the hours of the audit log were sealed, noted beside the chain after each seal. Where the whole chain was
// removed with its head and rows, or its head was set back and the hours after it were sealed again, the verification
// finds what the note says missing or replaced (docs/adr/0028-audit-hours-are-sealed.md).

type SealedExtentCtx = Pick<Context, 'metadata' | 'sealer' | 'telemetry'>;

const extentContext = 'audit sealed extent';

const extentText = ({ first, hour, seal, replaced }: Omit<SealedExtent, 'witness'>): string =>
  JSON.stringify([first, hour, seal, replaced ?? null]);

/** Call it after the commit of a seal. The extent never shrinks: it says what was sealed, not what the chain says now. */
async function noteSealed(ctx: SealedExtentCtx, head: AuditHead): Promise<void> {
  const { metadata, telemetry } = ctx;
  try {
    const found = await findSealedExtent(metadata);
    const former = found?.state;
    if (former !== undefined && head.hour <= former.hour) {
      const fields = { hour: head.hour, sealedThrough: former.hour };
      telemetry.log(
        'ERROR',
        'an hour of the audit log is sealed again: its chain was removed or set back',
        fields,
      );
      return;
    }
    const replaced = former && (former.replaced ?? (await findReplaced(ctx, former)));
    const extent = {
      ...{ first: former?.first ?? head.first, hour: head.hour, seal: head.seal },
      ...(replaced === undefined ? {} : { replaced }),
    };
    const witness = await sealWitness(ctx, extentText(extent), extentContext);
    // Where another leader was first, its extent is the later one.
    await putSealedExtent(metadata, { ...extent, witness }, found?.revision ?? 'absent');
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    // The hours must be sealed all the same.
    telemetry.log('ERROR', 'the extent of the sealed audit log is damaged', { cause });
  }
}

/** The seal of an hour; undefined where there is none. A damaged one is no reason to stop, and proves nothing. */
export const readSeal = ({ metadata }: Pick<Context, 'metadata'>, hour: number) =>
  unlessDamaged(() => findAuditSeal(metadata, hour));

/** The last noted hour, if the chain has another seal for it, or none. */
async function findReplaced(
  { metadata }: Pick<SealedExtentCtx, 'metadata'>,
  { hour, seal }: SealedExtent,
): Promise<number | undefined> {
  const found = await readSeal({ metadata }, hour);
  return found instanceof MetadataDamaged || found?.state.seal === seal ? undefined : hour;
}

/** What contradicts the extent; undefined where nothing does. */
interface ExtentGap {
  readonly kind: 'seal-missing' | 'seal-altered';
  readonly hour: number;
}

/** @param extent was read before `head`, because a leader may seal an hour in between */
export async function compareExtent(
  ctx: Pick<SealedExtentCtx, 'metadata' | 'sealer'>,
  extent: SealedExtent,
  head: AuditHead | undefined,
): Promise<ExtentGap | undefined> {
  const { first, hour, replaced } = extent;
  const witnessed = await openWitness(ctx, extent.witness, extentContext);
  if (witnessed !== undefined && witnessed !== extentText(extent)) return { kind: 'seal-altered', hour };
  if (head === undefined || head.first > first) return { kind: 'seal-missing', hour: first };
  if (head.hour < hour) return { kind: 'seal-missing', hour: head.hour + 1 };
  const altered = replaced ?? (await findReplaced(ctx, extent));
  return altered === undefined ? undefined : { kind: 'seal-altered', hour: altered };
}

type Ctx = Pick<Context, 'caches' | 'clock' | 'metadata' | 'hasher' | 'sealer' | 'config' | 'telemetry'>;

export interface SavedSeals {
  readonly term: Term;
  readonly head: AuditHead | undefined;
  readonly revision: 'absent' | Revision;
}

/** @throws LeaseLost when a later leader has begun */
export async function holdSeals(
  ctx: Pick<Ctx, 'metadata' | 'telemetry'>,
  generation: number,
): Promise<SavedSeals> {
  const { metadata } = ctx;
  const term = await beginSealing(metadata, generation);
  const found = await findSoundAuditHead(metadata);
  // The leader before may have died between the commit that gave an hour up and the removal of its rows.
  if (found !== undefined && found.state.keptFrom > found.state.first)
    await clearHour(ctx, found.state.keptFrom - 1);
  return { term, head: found?.state, revision: found?.revision ?? 'absent' };
}

/** Rows that cannot be removed because of damage stay until they expire by themselves. */
async function clearHour(
  { metadata, telemetry }: Pick<Ctx, 'metadata' | 'telemetry'>,
  hour: number,
): Promise<void> {
  const cleared = await unlessDamaged(() => clearAuditHour(metadata, hour));
  if (cleared instanceof MetadataDamaged)
    telemetry.log('ERROR', 'an hour of the audit log cannot be removed', {
      hour: toTime(hour),
      cause: cleared,
    });
}

interface SealStep {
  readonly saved: SavedSeals;
  /** The rows that were sealed or removed; undefined when nothing was due. */
  readonly rows?: number;
}

/** Seals the next hour, or removes the oldest one. @param rest called before each page of rows */
export async function stepSeals(ctx: Ctx, saved: SavedSeals, rest: () => Promise<void>): Promise<SealStep> {
  const now = await ctx.metadata.now();
  if (!isClockTrusted(ctx, now, saved.head)) return { saved };
  const lastClosed = auditHourOf(now - auditSealDelayMs) - 1;
  const next = saved.head === undefined ? lastClosed : saved.head.hour + 1;
  if (next <= lastClosed && !(await isWaiting(ctx, next, now)))
    return sealHour(ctx, saved, { hour: next, rest });
  const { head } = saved;
  const isExpired =
    head !== undefined &&
    head.keptFrom <= head.hour &&
    (head.keptFrom + 1) * auditHourMs + ctx.config.SVC_AUDIT_RETENTION <= now;
  return isExpired ? removeHour(ctx, saved, head) : { saved };
}

/** A leader that finds the last sealed hour older than this cannot tell whether no process ran or the clock jumped. */
const lateMs = 24 * 60 * 60_000;

/** A store's clock that is ahead would seal hours to which rows are still added, and remove rows long before they expire. */
function isClockTrusted(
  { caches, clock, telemetry }: Ctx,
  now: number,
  head: AuditHead | undefined,
): boolean {
  // Runs are too short there to observe the clock, and its platform keeps it.
  if (clock.hasRequestScopedTimers === true) return true;
  const isLate = head !== undefined && (head.hour + 1) * auditHourMs + lateMs < now;
  const isEven = caches.of(ClockWatch).isTrusted({ now, elapsed: clock.elapsed(), isLate });
  if (isEven && !isAhead(now, clock.now())) return true;
  const fields = { storeTime: new Date(now).toISOString(), processTime: new Date(clock.now()).toISOString() };
  telemetry.log('WARN', 'no hour of the audit log is sealed or removed: the clock may be ahead', fields);
  return false;
}

/** A warning where hours are sealed that are not over: no later hour is sealed until the clock has come to the last of them. */
export async function findSealWarning({ metadata }: Pick<Context, 'metadata'>): Promise<readonly string[]> {
  const head = (await findAuditHead(metadata))?.state;
  if (head === undefined || !isFuture(head.hour, await metadata.now())) return [];
  return [
    `the audit log is sealed through ${toTime(head.hour)}, which is in the future: a clock was ahead, and no hour is sealed until then`,
  ];
}

/** Whether the hour is not over. */
export const isFuture = (hour: number, now: number): boolean => (hour + 1) * auditHourMs > now;

/** Whether rows of the hour may follow from processes that died: their changes are settled within two `SVC_INTENT_TTL`. */
async function isWaiting({ metadata, config }: Ctx, hour: number, now: number): Promise<boolean> {
  const settled = (hour + 1) * auditHourMs + auditSealDelayMs + 2 * config.SVC_INTENT_TTL;
  return now < settled && (await hasPendingAudit(metadata));
}

async function sealHour(
  ctx: Ctx,
  saved: SavedSeals,
  { hour, rest }: { readonly hour: number; readonly rest: () => Promise<void> },
): Promise<SealStep> {
  const { rows, slots, damage } = await digestHour(ctx, hour, rest);
  if (damage !== undefined)
    ctx.telemetry.log('ERROR', 'an hour of the audit log is sealed without its damaged rows', {
      hour: toTime(hour),
      cause: damage,
    });
  const previous = saved.head?.seal ?? '';
  const content = digestSlots(ctx, slots);
  const retentionMs = ctx.config.SVC_AUDIT_RETENTION;
  const sealedAt = await ctx.metadata.now();
  const seal = chainLink(ctx, { previous, hour, rows, content, retentionMs, sealedAt });
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
  const head = { first: saved.head?.first ?? hour, keptFrom: saved.head?.keptFrom ?? hour, hour, seal };
  const next = await put(ctx, saved, { head, seal: { state, expect: 'absent' } });
  await noteSealed(ctx, head);
  // A copy of this line elsewhere proves a replacement of the whole chain, because the new chain has other seals.
  ctx.telemetry.log('INFO', 'an hour of the audit log was sealed', { hour: toTime(hour), rows, seal });
  return { saved: next, rows };
}

/**
 * The commit comes first: once the rows are missing, the chain says that they have expired. Where the seal is damaged, or was removed by other
 * means, which the verification reports, the rows stay until they expire by themselves, and the later hours are removed all the same.
 */
async function removeHour(ctx: Ctx, saved: SavedSeals, head: AuditHead): Promise<SealStep> {
  const { telemetry } = ctx;
  const found = await readSeal(ctx, head.keptFrom);
  const after = { ...head, keptFrom: head.keptFrom + 1 };
  if (found === undefined || found instanceof MetadataDamaged) {
    const what = found === undefined ? 'missing' : 'damaged';
    telemetry.log('ERROR', `a seal of the audit log is ${what}`, {
      hour: toTime(head.keptFrom),
      cause: found,
    });
    return { saved: await put(ctx, saved, { head: after }), rows: 0 };
  }
  const { slots: _, ...state } = found.state;
  const next = await put(ctx, saved, { head: after, seal: { state, expect: found.revision } });
  await clearHour(ctx, head.keptFrom);
  return { saved: next, rows: found.state.rows };
}

async function put(
  { metadata }: Pick<Ctx, 'metadata'>,
  { term, revision }: SavedSeals,
  {
    head,
    seal,
  }: {
    readonly head: AuditHead;
    readonly seal?: { readonly state: AuditSeal; readonly expect: 'absent' | Revision };
  },
): Promise<SavedSeals> {
  const outcome = await putAuditSeal(metadata, { head: { state: head, expect: revision }, seal, term });
  if (!outcome.applied) throw new LeaseLost('audit-seal', term.generation);
  return { term, head, revision: outcome.revision };
}

/** The start of an hour, such as `2026-01-31T12:00:00.000Z`. */
export const toTime = (hour: number): string => new Date(hour * auditHourMs).toISOString();
