/** Times in the bodies of the operator API. */
import { fail } from '../../errors/refusal.ts';

const toSeconds = '2026-01-31T12:00:00'.length;

/** Of a `moment`, whose form the schema has checked. @returns ms since the epoch @throws InvalidArgument for a day such as 2026-02-31 */
export function readTime<T extends string | undefined>(
  field: string,
  given: T,
): T extends string ? number : undefined;
export function readTime(field: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const time = Date.parse(given);
  // Engines take a day such as the 31st of February for one of March.
  const isOfCalendar =
    !Number.isNaN(time) && new Date(time).toISOString().startsWith(given.slice(0, toSeconds));
  if (!isOfCalendar)
    throw fail('InvalidArgument', {
      message: `${field} is no time of the calendar, such as 2026-01-31T12:00:00Z.`,
      field,
    });
  return time;
}

/** Times of replies are in whole seconds, those of rows in ms. */
export const seconds = (ms: number): number => Math.floor(ms / 1000);

/** The state of a long task. */
export const runState = (finishedAt: number | undefined): 'running' | 'done' =>
  finishedAt === undefined ? 'running' : 'done';
