/** The address of the client behind trusted proxies (SVC_TRUSTED_PROXIES); forwarding headers of other peers are ignored. */
import type { Wire } from './wire.ts';

interface Network {
  contains(address: string): boolean;
}

/**
 * The request as the client sent it to the proxies. `X-Forwarded-For` is read from its end, past every trusted hop: the first address that
 * is not a trusted proxy is the client's, whatever is in front of it.
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
  // The proxy does not forward the TLS version and cipher of the client.
  return { ...wire, remote, secure, tlsVersion: undefined, tlsCipher: undefined };
}
