/** IP addresses, ranges and networks. An IPv4 address is also the IPv6 address that maps it. */

/** The 128 bits as four words, most significant first; IPv4 addresses are in `::ffff:0:0/96`. */
export type Address = readonly [number, number, number, number];

const octet = /^(?:0|[1-9]\d{0,2})$/;
const group = /^[0-9a-f]{1,4}$/i;

function parseFour(text: string): number | undefined {
  const parts = text.split('.');
  if (parts.length !== 4) return undefined;
  let bits = 0;
  for (const part of parts) {
    // A leading zero is octal to some readers and decimal to others.
    if (!octet.test(part) || Number(part) > 255) return undefined;
    bits = bits * 256 + Number(part);
  }
  return bits;
}

/** Groups of sixteen bits; the last may be written as IPv4 and counts as two. */
function parseGroups(text: string, mayEndInFour: boolean): readonly number[] | undefined {
  if (text === '') return [];
  const parts = text.split(':');
  const groups: number[] = [];
  for (const [index, part] of parts.entries()) {
    const four =
      mayEndInFour && index === parts.length - 1 && part.includes('.') ? parseFour(part) : undefined;
    if (four !== undefined) groups.push(Math.floor(four / 65_536), four % 65_536);
    else if (group.test(part)) groups.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return groups;
}

/** Undefined when the text is no address. */
function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const four = parseFour(text);
    return four === undefined ? undefined : [0, 0, 0xffff, four];
  }
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? '', halves.length === 1);
  const tail = parseGroups(halves[1] ?? '', true);
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array<number>(missing).fill(0), ...tail];
  const word = (at: number): number => (groups[at] ?? 0) * 65_536 + (groups[at + 1] ?? 0);
  return [word(0), word(2), word(4), word(6)];
}

/** The address of a peer, which may include the name of an interface (`fe80::1%eth0`). */
export const parsePeer = (text: string): Address | undefined => parseAddress(text.split('%', 1)[0] ?? '');

/** All addresses of an IPv6 network of 64 bits are one: a client can use any of them. IPv4 addresses are in `::ffff:0:0/96`. */
export function toNetwork(address: string): string {
  const words = parsePeer(address);
  if (words === undefined) return address;
  const [first, second, third] = words;
  return first === 0 && second === 0 && third === 0xffff ? words.join('.') : `${first}.${second}/64`;
}

export interface Range {
  readonly base: Address;
  /** The length of the prefix, of 128 bits. */
  readonly bits: number;
}

/** `10.0.0.0/8`, `fd00::/8`, or a single address. */
export function parseRange(text: string): Range | undefined {
  const [address = '', prefix, ...rest] = text.split('/');
  const base = parseAddress(address);
  if (base === undefined || rest.length > 0) return undefined;
  const width = address.includes(':') ? 128 : 32;
  if (prefix !== undefined && (!octet.test(prefix) || Number(prefix) > width)) return undefined;
  return { base, bits: 128 - width + (prefix === undefined ? width : Number(prefix)) };
}

export function rangeContains({ base, bits }: Range, address: Address): boolean {
  for (let word = 0; word < 4; word++) {
    const count = Math.min(32, Math.max(0, bits - word * 32));
    if (count === 0) return true;
    const size = 2 ** (32 - count);
    if (Math.floor((base[word] as number) / size) !== Math.floor((address[word] as number) / size))
      return false;
  }
  return true;
}
