/** Numbers, dates and bytes in the notation of policies; undefined for an invalid text. */

/** No more digits than a double holds, so that equal means equal. */
const numberPattern = /^[+-]?\d{1,15}(?:\.\d{1,9})?$/;

export const parseNumber = (text: string): number | undefined =>
  numberPattern.test(text) && text.replace(/\D/g, '').length <= 15 ? Number(text) : undefined;

const datePattern =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?))?)?)?$/;
const epochPattern = /^\d{5,12}(?:\.\d{1,9})?$/;

/** The offset of a written time zone from UTC, in milliseconds. */
function zoneMs(zone: string): number {
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
}

/** Milliseconds since the epoch, of a W3C date (ISO 8601) or of seconds since the epoch. */
export function parseDate(text: string): number | undefined {
  if (epochPattern.test(text)) return Number(text) * 1000;
  const found = datePattern.exec(text);
  if (found === null) return undefined;
  const [
    ,
    year,
    month = '01',
    day = '01',
    hour = '00',
    minute = '00',
    second = '00',
    fraction = '0',
    zone = 'Z',
  ] = found;
  const written = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const time = Date.parse(`${written}Z`);
  // Refuse a date such as February 30, which `Date.parse` turns into a date in March.
  if (Number.isNaN(time) || new Date(time).toISOString().slice(0, 19) !== written) return undefined;
  return time + Number(`0.${fraction}`) * 1000 - zoneMs(zone);
}

const base64Pattern = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The bytes of a base64 text, as a string of characters 0 to 255. */
export const parseBase64 = (text: string): string | undefined =>
  base64Pattern.test(text) ? atob(text) : undefined;

const utf8 = new TextEncoder();
/** The bytes of a text, as a string of characters 0 to 255. */
export const decodeBinary = (text: string): string =>
  Array.from(utf8.encode(text), (byte) => String.fromCharCode(byte)).join('');

/** `true` and `false` in any case. */
export function parseBool(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === 'true' || lower === 'false' ? lower === 'true' : undefined;
}
