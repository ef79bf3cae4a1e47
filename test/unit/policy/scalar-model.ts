/**
 * The slow model of condition values that are not plain text: addresses, dates, numbers, bytes and Booleans. It shares no code with the
 * engine: the platform's URL parser reads addresses, which are compared as texts of 128 bits.
 */

/** 'unreadable': the request's value is not of the operator's kind. */
export type ScalarAnswer = boolean | 'unreadable';

/** An IPv4 address is the IPv6 address that maps it. */
function bitsOfAddress(text: string): string | undefined {
  const [plain = ''] = text.split('%');
  let host: string;
  try {
    host = new URL(`http://[${plain.includes(':') ? plain : `::ffff:${plain}`}]/`).hostname.slice(1, -1);
  } catch {
    return undefined;
  }
  const [head = '', tail] = host.split('::').map((half) => half.split(':').filter((group) => group !== ''));
  const groups =
    tail === undefined ? [...head] : [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail];
  return groups.map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0')).join('');
}

function isInRange(wanted: string, value: string): ScalarAnswer {
  const [base = '', prefix] = wanted.split('/');
  const width = base.includes(':') ? 128 : 32;
  const length = 128 - width + Number(prefix ?? width);
  const address = bitsOfAddress(value);
  if (address === undefined) return 'unreadable';
  return address.slice(0, length) === bitsOfAddress(base)?.slice(0, length);
}

function readDate(text: string): number | undefined {
  if (/^\d{5,}$/.test(text)) return Number(text) * 1000;
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? [];
  if (day !== undefined && Number(day) > new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate())
    return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
function readNumber(text: string): number | undefined {
  const found = Number(text);
  return text === '' || Number.isNaN(found) ? undefined : found;
}
function readBool(text: string): boolean | undefined {
  if (/^true$/i.test(text)) return true;
  return /^false$/i.test(text) ? false : undefined;
}

type Scalar = (wanted: string, value: string) => ScalarAnswer;
function comparing<T>(
  read: (text: string) => T | undefined,
  holds: (value: T, wanted: T) => boolean,
): Scalar {
  return (wanted, value) => {
    const [left, right] = [read(value), read(wanted)];
    if (right === undefined) throw new Error(`the test writes a policy with the value ${wanted}`);
    return left === undefined ? 'unreadable' : holds(left, right);
  };
}

const orders: Readonly<Record<string, (value: number, wanted: number) => boolean>> = {
  Equals: (value, wanted) => value === wanted,
  LessThan: (value, wanted) => value < wanted,
  LessThanEquals: (value, wanted) => value <= wanted,
  GreaterThan: (value, wanted) => value > wanted,
  GreaterThanEquals: (value, wanted) => value >= wanted,
};

export const scalars: Readonly<Record<string, Scalar>> = {
  ...Object.fromEntries(
    Object.entries(orders).flatMap(([name, holds]) => [
      [`Numeric${name}`, comparing(readNumber, holds)],
      [`Date${name}`, comparing(readDate, holds)],
    ]),
  ),
  Bool: comparing(readBool, (value, wanted) => value === wanted),
  BinaryEquals: (wanted, value) => Buffer.from(wanted, 'base64').equals(Buffer.from(value, 'utf8')),
  IpAddress: isInRange,
};
