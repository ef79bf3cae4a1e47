/** The time formats of signatures: `20130524T000000Z`, and HTTP dates. */
import { memoizeLast } from '../base/bounded-cache.ts';

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

// The secrets that are derived from the secret of a bucket's signing key (docs/adr/0032-what-a-bucket-secret-proves.md).
//
// shared secret   = hex(HMAC-SHA256(key = secret of the bucket, "sluice-shared-secret"))
// combined secret = hex(HMAC-SHA256(key = secret of the access key, shared secret))
//
