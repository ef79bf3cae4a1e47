/** Times in the bodies of the operator API. */
import { fail } from '../../errors/refusal.ts';

/** @returns ms since the epoch @throws InvalidRequest for a text that is no time */
export function readTime(name: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/.test(given) ? Date.parse(given) : Number.NaN;
  if (Number.isNaN(time)) throw fail('InvalidRequest', `${name} is not a time such as 2026-01-31T12:00:00Z.`);
  return time;
}
