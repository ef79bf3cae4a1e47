/** Object Lock: the retention and legal hold of a version, their end, and the lock of a new version. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { BucketRow, Lock, ObjectRow } from '../../metadata/tables.ts';
import { readDocument } from '../configurations/documents.ts';
import { objectLock } from '../configurations/families.ts';

export type RetentionMode = NonNullable<Lock['mode']>;
export interface Retention {
  readonly mode: RetentionMode;
  readonly retainUntil: number;
}

const dayMs = 24 * 60 * 60 * 1000;
/** The length of a year in the public API. */
const yearDays = 365;

/** The slower of two clocks, so that a clock that runs ahead releases nothing. */
export const lockTime = async (ctx: Pick<Context, 'clock' | 'metadata'>): Promise<number> =>
  Math.min(ctx.clock.now(), await ctx.metadata.now());

/** The retention that holds at a moment. A retention that cannot be read never ends. */
function lockedBy({ mode, retainUntil }: Lock, now: number): RetentionMode | undefined {
  if (mode === undefined && retainUntil === undefined) return undefined;
  const isReadable =
    (mode === 'GOVERNANCE' || mode === 'COMPLIANCE') &&
    typeof retainUntil === 'number' &&
    Number.isFinite(retainUntil);
  if (!isReadable) return 'COMPLIANCE';
  return retainUntil > now ? mode : undefined;
}

/** Every value but a plain OFF counts as a legal hold. */
const hasLegalHold = ({ legalHold }: Lock): boolean => legalHold !== undefined && legalHold !== false;

interface Release {
  /** From `lockTime`. */
  readonly now: number;
  /** The caller asked to bypass GOVERNANCE and has the permission. */
  readonly bypass: boolean;
}

const protectedByLock = () => fail('AccessDenied', 'Access Denied because object protected by object lock.');

/** Everything that removes a version calls this within the decision that its commit checks. @throws AccessDenied */
export function assertRemovable({ lock }: Pick<ObjectRow, 'lock'>, { now, bypass }: Release): void {
  if (lock === undefined) return;
  const mode = lockedBy(lock, now);
  const isReleased = mode === undefined || (mode === 'GOVERNANCE' && bypass);
  if (!isReleased || hasLegalHold(lock)) throw protectedByLock();
}

/**
 * The lock with another retention, or with none. Every caller may extend it in the same mode.
 * @throws AccessDenied when it would shorten, remove or change the mode of a COMPLIANCE retention, or of a GOVERNANCE one without bypass
 */
export function withRetention(
  lock: Lock | undefined,
  requested: Retention | undefined,
  { now, bypass }: Release,
): Lock | undefined {
  const mode = lockedBy(lock ?? {}, now);
  const isLonger =
    requested !== undefined &&
    requested.mode === lock?.mode &&
    requested.retainUntil >= (lock.retainUntil ?? Infinity);
  if (mode !== undefined && !isLonger && !(mode === 'GOVERNANCE' && bypass)) throw protectedByLock();
  const { mode: _, retainUntil: __, ...rest } = lock ?? {};
  return requested === undefined && rest.legalHold === undefined ? undefined : { ...rest, ...requested };
}

/**
 * The lock of a version that is written now: as its request asks, else the default of its bucket. The default applies too where the
 * requested retention has ended meanwhile, as that of an upload which is completed long after its start.
 */
export async function lockAtWrite(
  ctx: Pick<Context, 'caches' | 'clock' | 'metadata'>,
  bucket: BucketRow,
  input: Lock | undefined,
): Promise<Lock | undefined> {
  if (input?.mode !== undefined && (await isInForce(ctx, input))) return input;
  const rule = (await readDocument(ctx, bucket, objectLock))?.Rule?.DefaultRetention;
  if (rule === undefined) return input;
  const days = rule.Days ?? (rule.Years ?? Number.NaN) * yearDays;
  return { ...input, mode: rule.Mode, retainUntil: ctx.clock.now() + days * dayMs };
}

/** The store is asked for its time only where the retention has ended by this process's clock. */
const isInForce = async (ctx: Pick<Context, 'clock' | 'metadata'>, lock: Lock): Promise<boolean> =>
  lockedBy(lock, ctx.clock.now()) !== undefined || lockedBy(lock, await lockTime(ctx)) !== undefined;

/** @throws InvalidRequest */
export function assertLockable({ objectLock: isEnabled }: Pick<BucketRow, 'objectLock'>): void {
  if (!isEnabled) throw fail('InvalidRequest', 'Bucket is missing Object Lock Configuration');
}
