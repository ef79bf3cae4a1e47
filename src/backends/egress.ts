/**
 * Connections to servers that a setting or a configuration names. The address is checked after it was resolved, at each connect, so a
 * name that resolves to another address later (DNS rebinding) reaches no refused one. Redirects are not followed.
 * `openPoster` does not check the address, because an operator's setting names its server.
 */
import { lookup } from 'node:dns';
import { lookup as resolveName } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
// By its file name, because Bun replaces the bare name by a module of its own.
import undici from 'undici/index.js';

export type MayReach = (address: string) => boolean;

export interface EgressOptions {
  readonly mayReach: MayReach;
  /** How long a server may be silent. */
  readonly timeoutMs: number;
  readonly connections: number;
  /** PEM. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** The address is one that `SVC_EGRESS_ALLOW` does not allow. */
class EgressRefused extends Error {
  constructor(host: string, address: string) {
    super(
      `${host} ${host === address ? 'is' : `resolves to ${address}, which is`} an address of this machine or a private network: SVC_EGRESS_ALLOW does not contain it`,
    );
  }
}

/** A `lookup` for sockets that yields the addresses which may be reached. */
export const guardedLookup =
  (mayReach: MayReach): LookupFunction =>
  (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error !== null) return done(error, '', 0);
      const [first] = found;
      const reachable = found.filter(({ address }) => mayReach(address));
      const [chosen] = reachable;
      if (chosen === undefined) return done(new EgressRefused(host, first?.address ?? 'no address'), '', 0);
      // The cast: the types of node describe one address only, although `all` asks for several.
      if (options.all === true)
        return (done as unknown as (e: null, all: typeof found) => void)(null, reachable);
      done(null, chosen.address, chosen.family);
    });
  };

/** A pool of connections for requests to any host. */
export function guardedAgent({
  mayReach,
  timeoutMs,
  connections,
  ca,
  cert,
  key,
}: EgressOptions): undici.Agent {
  const connect = undici.buildConnector({
    timeout: timeoutMs,
    lookup: guardedLookup(mayReach),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
  return new undici.Agent({
    connections,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    // A socket resolves no literal address, so it is checked here.
    connect: (options, done) => {
      const host = options.hostname.replace(/^\[|\]$/g, '');
      if (isIP(host) !== 0 && !mayReach(host)) return done(new EgressRefused(host, host), null);
      connect(options, done);
    },
  });
}

/** Whether there was a connection, which ended before the answer was complete, or the answer is no HTTP. */
export function endedAfterConnect(cause: unknown): boolean {
  const { code = '' } = cause as { readonly code?: string };
  return /^(UND_ERR_SOCKET|UND_ERR_HEADERS|UND_ERR_BODY|UND_ERR_RES|ECONNRESET|EPIPE|HPE_)/.test(code);
}

// The address of a server for clients that take no `lookup`: it is resolved and checked before each connect.

/** @throws EgressRefused when no address of the host may be reached */
export async function resolveGuarded(host: string, mayReach: MayReach): Promise<string> {
  const name = host.replace(/^\[|\]$/g, '');
  const found = await resolveName(name, { all: true });
  const chosen = found.find(({ address }) => mayReach(address));
  if (chosen === undefined) throw new EgressRefused(name, found[0]?.address ?? 'no address');
  return chosen.address;
}

// Connections through an HTTP proxy, by a tunnel for each. The proxy resolves the name of the server, so only the proxy's address is
// checked, and the server's where it is named by one.

interface ProxyOptions extends EgressOptions {
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

// Posts of JSON.

interface PosterOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** PEM. */
  readonly ca?: string | undefined;
  readonly timeoutMs: number;
}

interface Poster {
  /** The status, and the seconds of `Retry-After`. @throws when there is no answer */
  post(body: string): Promise<{ readonly status: number; readonly retryAfter: number | undefined }>;
  close(): Promise<void>;
}

/**
 * Posts JSON to a server that an operator's setting names. Unlike the targets of events, its address is the operator's alone to choose,
 * and a collector is usually on this machine, so `SVC_EGRESS_ALLOW` does not apply.
 */
export function openPoster({ url, headers, ca, timeoutMs }: PosterOptions): Poster {
  const { origin, pathname, search } = new URL(url);
  const pool = new undici.Pool(origin, {
    connections: 1,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) },
  });
  return {
    async post(body) {
      const reply = await pool.request({
        method: 'POST',
        path: pathname + search,
        headers: { ...headers, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(timeoutMs),
      });
      await reply.body.dump();
      const seconds = Number(reply.headers['retry-after']);
      return { status: reply.statusCode, retryAfter: seconds > 0 ? seconds : undefined };
    },
    close: () => pool.destroy(),
  };
}
