/** Settings that name places on a network: addresses to listen on, ranges of addresses, domains. */

import { trimEnd } from '../base/text/printable.ts';
import { list, text } from './kinds.ts';
import { fault, type Read, type Setting, value } from './setting.ts';
import { isEndpoint } from './upstreams.ts';

// A setting that names the origin of a server.

export const endpoint = (doc: string): Setting<string> => ({
  ...text({ kind: 'URL', doc }),
  read: (input) =>
    isEndpoint(input)
      ? value(new URL(input).origin)
      : fault('is not an http or https address without a path, such as https://keys.example.com:8200'),
});

export interface ListenAddress {
  /** Without brackets; `0.0.0.0` when the text names a port alone. */
  readonly host: string;
  /** 0 asks the system for a free port. */
  readonly port: number;
}

function readListen(input: string): Read<ListenAddress> {
  const match = /^(?:\[([0-9a-fA-F:.%]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(input);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535)
    return fault('is not an address such as 127.0.0.1:9000, [::1]:9000 or :9000');
  return value({ host: match[1] ?? (match[2] || '0.0.0.0'), port });
}
export const listen = (fallback: string, doc: string): Setting<ListenAddress> => ({
  kind: 'host:port',
  doc,
  fallback,
  read: readListen,
});

/** The text that a listen address was written as. */
export const showListen = ({ host, port }: ListenAddress): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

/** A range of addresses. */
export interface Cidr {
  readonly text: string;
  /** An IPv4 range also contains its addresses written as IPv6 (`::ffff:10.0.0.1`). */
  contains(address: string): boolean;
}

/** The bits of an address, IPv4 as the last 32 of `::ffff:0:0/96`; undefined when the text is no address. */
function addressBits(address: string): bigint | undefined {
  const four = /^(?:::ffff:)?(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/i.exec(address);
  if (four !== null) {
    const parts = four.slice(1).map(Number);
    if (parts.some((part) => part > 255)) return undefined;
    return parts.reduce((bits, part) => (bits << 8n) | BigInt(part), 0xffffn);
  }
  const halves = address.split('::');
  if (halves.length > 2 || !/^[0-9a-f:]+$/i.test(address)) return undefined;
  const [head = [], tail = []] = halves.map((half) => (half === '' ? [] : half.split(':')));
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array<string>(missing).fill('0'), ...tail];
  if (groups.some((group) => group === '' || group.length > 4)) return undefined;
  return groups.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
}

/** `10.0.0.0/8`, `fd00::/8`, or a single address. */
export function parseCidr(input: string): Cidr | undefined {
  const [address = '', prefix, ...rest] = input.split('/');
  const base = addressBits(address);
  const width = address.includes(':') ? 128 : 32;
  if (base === undefined || rest.length > 0 || (prefix !== undefined && !/^\d{1,3}$/.test(prefix)))
    return undefined;
  const length = prefix === undefined ? width : Number(prefix);
  if (length > width) return undefined;
  const shift = BigInt(width - length);
  return {
    text: input,
    contains: (other) => {
      const bits = addressBits(other);
      return bits !== undefined && bits >> shift === base >> shift;
    },
  };
}

export const cidrs = (doc: string): Setting<readonly Cidr[]> =>
  list({
    kind: 'comma list of CIDRs',
    doc,
    item: (input) => {
      const parsed = parseCidr(input);
      return parsed === undefined ? fault('is not an address range such as 10.0.0.0/8') : value(parsed);
    },
  });

const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
const domainName = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*$`);
/** Domain names in lower case. */
export const domains = (doc: string): Setting<readonly string[]> =>
  list({
    kind: 'comma list of domains',
    doc,
    item: (input) => {
      const name = input.toLowerCase();
      return domainName.test(name) ? value(name) : fault('is not a domain name such as s3.example.com');
    },
  });

export const pathIn = (directory: string, ...names: readonly string[]): string =>
  [trimEnd(directory, '/'), ...names].join('/');

export const filePath = (doc: string): Setting<string> => text({ kind: 'path', doc });

const server = /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$/;

interface Servers {
  readonly doc: string;
  readonly kind: string;
  readonly pattern: RegExp;
}
const servers = ({ doc, kind, pattern }: Servers): Setting<readonly string[]> => ({
  kind: `comma-separated list of ${kind}`,
  doc,
  fallback: undefined,
  read: (input) => {
    const all = input.split(',').map((each) => each.trim());
    const wrong = all.find((each) => !pattern.test(each));
    return wrong === undefined ? value(all) : fault(`names "${wrong}", which is not ${kind}`);
  },
});

export const endpoints = (doc: string): Setting<readonly string[]> =>
  servers({ doc, kind: 'host:port', pattern: /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$/ });

export const hosts = (doc: string): Setting<readonly string[]> =>
  servers({ doc, kind: 'host or host:port', pattern: server });

// Which addresses this gateway connects to on behalf of settings and configurations: sinks of events, and peers.

/**
 * Refused unless `SVC_EGRESS_ALLOW` contains the address: this machine, its link (where clouds answer with credentials), private networks,
 * other addresses of metadata services, and ranges that contain IPv4 addresses in another form.
 */
const refusedRanges: readonly Cidr[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
  '::/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2001::/32',
  '2002::/16',
  'fc00::/7',
  'fe80::/9',
  'ff00::/8',
].map((text) => parseCidr(text) as Cidr);

const everyAddress: readonly Cidr[] = ['0.0.0.0/0', '::/0'].map((text) => parseCidr(text) as Cidr);

/** @param address an IP address, as it was resolved; any other text is refused */
export const mayReach = (address: string, allow: readonly Cidr[]): boolean =>
  allow.some((range) => range.contains(address)) ||
  (everyAddress.some((range) => range.contains(address)) &&
    !refusedRanges.some((range) => range.contains(address)));
