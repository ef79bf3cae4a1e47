/** The lock of a version of which two sites have different ones. */
import type { Lock } from '../../../metadata/tables.ts';

export interface JoinRules {
  /** From `lockTime`. */
  readonly now: number;
  /** The received lock has the later stamp. */
  readonly isLater: boolean;
  /** The caller may shorten or remove a GOVERNANCE retention. */
  readonly bypass: boolean;
}

const isCurrent = ({ retainUntil = 0 }: Lock, now: number): boolean => retainUntil > now;

/**
 * The lock with the later stamp, except that a COMPLIANCE retention which has not ended is never shortened: the longer one of both sites
 * wins, whatever their stamps, so that all sites arrive at the same lock. A GOVERNANCE retention is shortened only for a caller that may
 * bypass it.
 */
export function joinLocks(
  own: Lock | undefined,
  received: Lock | undefined,
  { now, isLater, bypass }: JoinRules,
): Lock | undefined {
  const [winner, loser] = isLater ? [received, own] : [own, received];
  const { mode, retainUntil } = retention(own, received, { winner, loser, now, bypass });
  const legalHold = winner?.legalHold;
  if (winner?.mode === mode && winner?.retainUntil === retainUntil) return winner;
  return {
    ...(mode === undefined || retainUntil === undefined ? {} : { mode, retainUntil }),
    ...(legalHold === undefined ? {} : { legalHold }),
  };
}

function retention(
  own: Lock | undefined,
  received: Lock | undefined,
  {
    winner,
    loser,
    now,
    bypass,
  }: Pick<JoinRules, 'now' | 'bypass'> & {
    readonly winner: Lock | undefined;
    readonly loser: Lock | undefined;
  },
): Lock {
  const strict = [winner, loser].filter(
    (lock) => lock !== undefined && lock.mode === 'COMPLIANCE' && isCurrent(lock, now),
  );
  const [first = {}, second = {}] = strict;
  if (strict.length > 0) return (second.retainUntil ?? 0) > (first.retainUntil ?? 0) ? second : first;
  const isWeaker =
    winner === received &&
    own?.mode === 'GOVERNANCE' &&
    isCurrent(own, now) &&
    (winner?.retainUntil ?? 0) < (own.retainUntil ?? 0);
  return (isWeaker && !bypass ? own : winner) ?? {};
}
