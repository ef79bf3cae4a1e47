/** The address of the client behind trusted proxies (SVC_TRUSTED_PROXIES); forwarding headers of other peers are ignored. */
import type { Wire } from './wire.ts';

interface Network {
  contains(address: string): boolean;
}

/**
 * The wire as the client's own side of the proxies shows it. `X-Forwarded-For` is read from its end, past every
 * trusted hop: the first address that is not ours is the client's, whatever it claims in front of that.
 */
export function behindProxies(wire: Wire, proxies: readonly Network[]): Wire {
  const isTrusted = (address: string): boolean => proxies.some((network) => network.contains(address));
  if (proxies.length === 0 || !isTrusted(wire.remote)) return wire;
  const hops = (wire.headers.get('x-forwarded-for') ?? '')
    .split(',')
    .map((hop) => hop.trim())
    .filter((hop) => hop !== '');
  const remote = hops.findLast((hop) => !isTrusted(hop)) ?? hops[0] ?? wire.remote;
  const scheme = wire.headers.get('x-forwarded-proto')?.split(',').at(-1)?.trim().toLowerCase();
  const secure = scheme === undefined ? wire.secure : scheme === 'https';
  // What the proxy spoke with the client it does not tell.
  return { ...wire, remote, secure, tlsVersion: undefined, tlsCipher: undefined };
}
