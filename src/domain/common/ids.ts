/**
 * Ids. Those of versions and uploads are unique text in the order of time: an id never sorts before the version that it succeeds. The
 * others are random.
 */

import { memoizeLast } from '../../base/bounded-cache.ts';
import { invalidArgument } from '../../base/errors.ts';
import { toHex, toUpperHex } from '../../base/text/hex.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Random } from '../../ports/random.ts';

/** 12 hex digits of milliseconds, 4 of sequence, 16 of randomness. */
const orderedDigits = 16;

const timeText = memoizeLast((ms: number) => `${ms.toString(16).padStart(12, '0')}0000`);

/**
 * @param previous the latest version of the key: the new one sorts after it even if this process's clock runs behind the one that
 *   drew it
 */
export function drawVersion(
  ctx: { readonly clock: Clock; readonly random: Random },
  previous?: string,
): string {
  const now = timeText(ctx.clock.now());
  const ordered =
    previous === undefined || now > previous.slice(0, orderedDigits) ? now : successor(previous);
  return ordered + toHex(ctx.random.bytes(8));
}

/** The part of a version id that orders it among those of its key, without the part that makes it unique. */
export const versionOrder = (version: string): string => version.slice(0, orderedDigits);

/** The version id that a write drew before its bytes were stored, unless the latest version of the key has a later one. */
export const versionFor = (
  ctx: { readonly clock: Clock; readonly random: Random },
  requested: string | undefined,
  { behind: previous }: { readonly behind: string | undefined },
): string =>
  requested !== undefined && (previous === undefined || versionOrder(requested) > versionOrder(previous))
    ? requested
    : drawVersion(ctx, previous);

const successor = (version: string): string =>
  (BigInt(`0x${version.slice(0, orderedDigits)}`) + 1n).toString(16).padStart(orderedDigits, '0');

/** A version id that sorts ahead of another. */
export const versionBefore = (ctx: { readonly random: Random }, next: string): string =>
  (BigInt(`0x${versionOrder(next)}`) - 1n).toString(16).padStart(orderedDigits, '0') +
  toHex(ctx.random.bytes(8));

/** When a version or upload id was drawn, in ms since the epoch. */
export const versionTime = (version: string): number => Number.parseInt(version.slice(0, 12), 16);

/** Whether a text has the form of a version id; `null` names the null version. */
export const isVersionId = (text: string): boolean => text === 'null' || /^[0-9a-f]{32}$/.test(text);

/** @throws InvalidArgument, in the public service's words */
export function assertVersionId(text: string | undefined): void {
  if (text === undefined || isVersionId(text)) return;
  throw invalidArgument(
    'versionId',
    text,
    text === '' ? 'Version id cannot be the empty string' : 'Invalid version id specified',
  );
}

/** Upload ids are drawn like version ids. */
export const isUploadId = (text: string): boolean => /^[0-9a-f]{32}$/.test(text);

/** A fresh identifier of 128 random bits, for buckets and requests. */
export const drawId = (random: Random): string => toHex(random.bytes(16));

/** In the form of the public service: 16 upper-case hex digits. */
export const drawRequestId = (random: Random): string => toUpperHex(random.bytes(8));

/** The version id that clients see. */
export const formatVersionId = (row: Pick<ObjectRow, 'isNull' | 'version'>): string =>
  row.isNull ? 'null' : row.version;
