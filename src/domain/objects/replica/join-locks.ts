/** The lock of a version of which two sites have different ones. */
import type { Lock } from '../../../metadata/tables.ts';

const isCurrent = ({ mode, retainUntil = 0 }: Lock, now: number): boolean =>
  mode !== undefined && retainUntil > now;

/**
 * The stricter mode, the later end and the legal hold of either, so that a replica never weakens a lock, and all sites arrive at the same
 * one in any order. A retention that has ended counts as none.
 * @param now from `lockTime`
 * @returns `own` itself where `received` adds nothing
 */
export function joinLocks(own: Lock | undefined, received: Lock | undefined, now: number): Lock | undefined {
  if (own === undefined || received === undefined) return own ?? received;
  const retention = joinRetentions(own, received, now);
  const legalHold = own.legalHold || received.legalHold ? true : own.legalHold;
  const { mode, retainUntil } = retention;
  if (mode === own.mode && retainUntil === own.retainUntil && legalHold === own.legalHold) return own;
  return {
    ...(mode === undefined || retainUntil === undefined ? {} : { mode, retainUntil }),
    ...(legalHold === undefined ? {} : { legalHold }),
  };
}

function joinRetentions(own: Lock, received: Lock, now: number): Lock {
  if (!isCurrent(received, now)) return own;
  if (!isCurrent(own, now)) return received;
  const isStrict = own.mode === 'COMPLIANCE' || received.mode === 'COMPLIANCE';
  return {
    mode: isStrict ? 'COMPLIANCE' : 'GOVERNANCE',
    retainUntil: Math.max(own.retainUntil ?? 0, received.retainUntil ?? 0),
  };
}
