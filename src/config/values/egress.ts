/** Which addresses this gateway connects to on behalf of settings and configurations: sinks of events, and peers. */
import { type Cidr, parseCidr } from './network.ts';

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
