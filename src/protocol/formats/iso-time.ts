/**
 * Times as texts of ISO 8601: of replies and of signatures.
 *
 * Times of replies are such as `2026-11-05T10:00:00.000Z`. The public service has whole seconds, as `Last-Modified`
 * has; clients compare the two. `Date` would be slower, and a page of a listing has a thousand.
 */
import { memoizeLast } from '../../base/bounded-cache.ts';

const dayMs = 86_400_000;
const pairs = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));

const endings = pairs.map((second) => `${second}.000Z`);

/** The second of the last call and its text: objects that are listed together were often written together. */
let lastSecond = Number.NaN;
let lastTime = '';
/** The minute of the last call, and the text that its moments begin with. The same for its day. */
let lastMinute = Number.NaN;
let lastText = '';
let lastDay = Number.NaN;
let lastDate = '';

/** @param ms since the epoch; a part of a second is cut off */
export function isoTime(ms: number): string {
  const seconds = Math.floor(Math.trunc(ms) / 1000);
  if (seconds === lastSecond) return lastTime;
  const minute = Math.floor(seconds / 60);
  if (minute !== lastMinute) {
    lastText = formatMinute(minute);
    lastMinute = minute;
  }
  lastTime = lastText + endings[seconds - 60 * minute];
  lastSecond = seconds;
  return lastTime;
}

/** @param minute since the epoch */
function formatMinute(minute: number): string {
  const hour = Math.floor(minute / 60);
  const day = Math.floor(hour / 24);
  if (day !== lastDay) {
    lastDate = new Date(day * dayMs).toISOString().slice(0, -13);
    lastDay = day;
  }
  return `${lastDate}${pairs[hour - 24 * day]}:${pairs[minute - 60 * hour]}:`;
}

// The time formats of signatures: `20130524T000000Z`, and HTTP dates.

/** Milliseconds since the epoch of a `YYYYMMDDTHHMMSSZ` text, undefined when it is anything else. */
export const parseTimestamp = memoizeLast(parse);

function parse(text: string): number | undefined {
  if (text.length !== 16 || text.charCodeAt(8) !== 84 || text.charCodeAt(15) !== 90) return undefined;
  const year = digits(text, 0, 4);
  const month = digits(text, 4, 6);
  const day = digits(text, 6, 8);
  const hour = digits(text, 9, 11);
  const minute = digits(text, 11, 13);
  const second = digits(text, 13, 15);
  // A field that is no number fails its comparison.
  const inRange = month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour <= 23 && minute <= 59;
  if (!inRange || !(second <= 59) || !(year >= 1970)) return undefined;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

function digits(text: string, from: number, to: number): number {
  let value = 0;
  for (let i = from; i < to; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = value * 10 + digit;
  }
  return value;
}

/** `YYYYMMDDTHHMMSSZ` of a date header in either form, undefined when it is neither. */
export function toTimestamp(header: string): string | undefined {
  if (parseTimestamp(header) !== undefined) return header;
  const ms = Date.parse(header);
  return Number.isNaN(ms) ? undefined : formatTimestamp(ms);
}

export const formatTimestamp = (ms: number): string => isoSeconds(ms).replaceAll('-', '').replaceAll(':', '');

/** `2013-05-24T00:00:00Z`, as error bodies carry times. */
export const isoSeconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
