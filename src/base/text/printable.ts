/** Text for a terminal: names that tenants chose may have escape sequences, line breaks and marks that turn the direction of text. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd');

// Trims in one pass. A pattern such as `/[ \t]+$/` searches from every blank to the end of its run, so a long run of blanks inside a
// text takes quadratic time.

/** The text without the characters of `set` at its end. */
export function trimEnd(text: string, set: string): string {
  let end = text.length;
  while (end > 0 && set.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** The text without the characters of `set` at both ends. */
export function trim(text: string, set: string): string {
  const rest = trimEnd(text, set);
  let start = 0;
  while (start < rest.length && set.includes(rest.charAt(start))) start += 1;
  return rest.slice(start);
}

// Names and ports of servers, by https://opentelemetry.io/docs/specs/semconv/registry/attributes/server/.

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
