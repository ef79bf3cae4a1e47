/** The endpoint that is printed: what a client on this machine can paste. */
import type { ListenAddress } from '../../config/values/network.ts';

export function formatEndpoint({ host, port }: ListenAddress, secure: boolean): string {
  const scheme = secure ? 'https' : 'http';
  if (host === '0.0.0.0' || host === '::')
    return `${scheme}://${host === '::' ? '[::1]' : '127.0.0.1'}:${port}`;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
