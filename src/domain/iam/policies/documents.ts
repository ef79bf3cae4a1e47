/** Policy documents as they were sent: inline policies, versions of managed ones, trust. */
import { fail } from '../../../errors/refusal.ts';

/** As the public API counts a policy: characters that are not blank. */
export const sizeOf = (text: string): number => text.replace(/\s+/g, '').length;

/** A document lies in one row, however blank it is. */
const documentBytesMax = 20_000;
const encoder = new TextEncoder();

/** @throws LimitExceeded */
export function assertSize(
  text: string,
  { what, max }: { readonly what: string; readonly max: number },
): void {
  if (sizeOf(text) > max) throw fail('LimitExceeded', `Cannot exceed quota for ${what}: ${max}`);
  if (encoder.encode(text).length > documentBytesMax)
    throw fail('LimitExceeded', `A policy document has at most ${documentBytesMax} bytes, blanks included.`);
}
