/** The limits of a field that its schema documents, in words. */
import { formatNumber } from '../../text/text.ts';
import type { Schema } from './fields.tsx';
import { w } from './words.ts';

/** Limits of numbers that say nothing. */
const noLimit = 2 ** 31 - 1;

/** @returns '' where there are none */
export function describeLimits({ minimum, maximum, maxLength, minItems, maxItems }: Schema): string {
  const least = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER ? minimum : undefined;
  const most = maximum !== undefined && maximum < noLimit ? maximum : undefined;
  if (least !== undefined && most !== undefined) return w.between(formatNumber(least), formatNumber(most));
  if (least !== undefined) return w.atLeast(formatNumber(least));
  if (most !== undefined) return w.atMost(formatNumber(most));
  if (maxLength !== undefined) return w.characters(formatNumber(maxLength));
  if (maxItems !== undefined) return w.between(formatNumber(minItems ?? 0), formatNumber(maxItems));
  return '';
}
