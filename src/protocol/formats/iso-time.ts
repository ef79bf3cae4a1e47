/**
 * Times as texts: of replies, of signatures, and in headers.
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

/** What signing clients write as `Date` beside the forms of HTTP: RFC 5322, as `date -R` and mail libraries do. */
const mailForm = /^(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:UTC|UT|[+-]\d{4})$/;

/** `YYYYMMDDTHHMMSSZ` of a date header of a signature, undefined when it is no date. */
export function toTimestamp(header: string): string | undefined {
  if (parseTimestamp(header) !== undefined) return header;
  const ms = parseHttpDate(header) ?? (mailForm.test(header) ? Date.parse(header) : Number.NaN);
  return Number.isNaN(ms) ? undefined : formatTimestamp(ms);
}

// HTTP dates. `Date.parse` reads nearly any text, and one without a zone in the time zone of the server.

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const httpForms = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
];

/**
 * Milliseconds since the epoch of an HTTP date in one of the three forms of RFC 9110 §5.6.7, all of which are GMT. Undefined for any
 * other text, and for a time that does not exist. Years of two digits are from 1970 to 2069.
 */
export function parseHttpDate(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  for (const form of httpForms) {
    const found = form.exec(text)?.groups;
    if (found === undefined) continue;
    const { year = '', month = '', day = '', time = '' } = found;
    const century = year.length === 4 ? '' : year < '70' ? '20' : '19';
    // 00 for another text, which is no month.
    const monthNumber = pairs[months.indexOf(month) + 1];
    return parseIsoTime(`${century}${year}-${monthNumber}-${day.replace(' ', '0')}T${time}Z`);
  }
  return undefined;
}

const isoForm =
  /^(\d{4}-(?:0[1-9]|1[0-2])-(\d\d))T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** Of `2026-11-05T10:00:00Z`, also with an offset. Undefined for any other text, and for a day that does not exist. */
export function parseIsoTime(text: string): number | undefined {
  const [, date, day] = isoForm.exec(text) ?? [];
  // `Date` moves 31 February into March; its day then differs from the one written.
  if (date === undefined || new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined;
  return Date.parse(text);
}

export const formatTimestamp = (ms: number): string => isoSeconds(ms).replaceAll('-', '').replaceAll(':', '');

/** `2013-05-24T00:00:00Z`, as error bodies carry times. */
export const isoSeconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
