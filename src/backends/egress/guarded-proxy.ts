/**
 * Connections through an HTTP proxy, by a tunnel for each. The proxy resolves the name of the server, so only the proxy's address is
 * checked, and the server's where it is named by one.
 */
import { isIP } from 'node:net';
// By its file name, because Bun replaces the bare name by a module of its own.
import undici from 'undici/index.js';
import { type EgressOptions, EgressRefused, guardedLookup } from './guarded-agent.ts';

export interface ProxyOptions extends EgressOptions {
  /** `http://host:port`. */
  readonly proxy: string;
  /** The origin of the server. */
  readonly endpoint: string;
}

const bare = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '');

/** @throws EgressRefused */
export function guardedProxy(options: ProxyOptions): undici.ProxyAgent {
  const { proxy, endpoint, mayReach, timeoutMs, connections, ca, cert, key } = options;
  for (const host of [bare(proxy), bare(endpoint)])
    if (isIP(host) !== 0 && !mayReach(host)) throw new EgressRefused(host, host);
  const host = bare(endpoint);
  return new undici.ProxyAgent({
    uri: proxy,
    proxyTunnel: true,
    connections,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    // For `http` proxies too: options of the connection to the proxy.
    proxyTls: { timeout: timeoutMs, lookup: guardedLookup(mayReach) },
    requestTls: {
      timeout: timeoutMs,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    },
  });
}
