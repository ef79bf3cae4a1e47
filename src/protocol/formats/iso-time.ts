/**
 * Times of replies, such as `2026-11-05T10:00:00.000Z`. The public service has whole seconds, as `Last-Modified` has; clients compare the
 * two. `Date` would be slower, and a page of a listing has a thousand.
 */

const dayMs = 86_400_000;
const pairs = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));

/** The day of the last call, and the text that its moments begin with. */
let lastDay = Number.NaN;
let lastDate = '';

/** @param ms since the epoch; a part of a second is cut off */
export function isoTime(ms: number): string {
  const whole = Math.trunc(ms);
  const day = Math.floor(whole / dayMs);
  if (day !== lastDay) {
    lastDate = new Date(whole).toISOString().slice(0, -13);
    lastDay = day;
  }
  const seconds = Math.floor((whole - day * dayMs) / 1000);
  const hour = pairs[Math.floor(seconds / 3600)];
  const minute = pairs[Math.floor(seconds / 60) % 60];
  return `${lastDate}${hour}:${minute}:${pairs[seconds % 60]}.000Z`;
}
