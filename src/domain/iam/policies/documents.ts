/** Policy documents as they were sent: inline policies, versions of managed policies, trust policies. */
import { fail } from '../../../errors/refusal.ts';

/** The size of a policy as the public API counts it: characters without white space. */
export const sizeOf = (text: string): number => text.replace(/\s+/g, '').length;

/** The limit with white space: a document is stored in one row. */
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
