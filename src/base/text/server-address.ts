/** Names and ports of servers, by https://opentelemetry.io/docs/specs/semconv/registry/attributes/server/. */

type ServerAttributes = Readonly<Record<'server.address', string>> &
  Readonly<Partial<Record<'server.port', number>>>;

const ports: Readonly<Record<string, number>> = { http: 80, https: 443 };

/** @param authority `host` or `host:port`, as in a Host header. @param scheme names the port where the authority has none */
export function describeServer(authority: string, scheme: string): ServerAttributes | undefined {
  const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority) ?? [];
  const address = host.replace(/^\[|\]$/g, '');
  const number = port === undefined ? ports[scheme] : Number(port);
  if (address === '') return undefined;
  return { 'server.address': address, ...(number === undefined ? {} : { 'server.port': number }) };
}

/** The path of a URL is left out, because it may contain a token. */
export function describeServerOfUrl(url: string): ServerAttributes | undefined {
  if (!URL.canParse(url)) return undefined;
  const { host, protocol } = new URL(url);
  return describeServer(host, protocol.slice(0, -1));
}
