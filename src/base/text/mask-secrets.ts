/**
 * Masks the values of parameters and headers that carry a secret, wherever a request's text is echoed or logged. One list
 * serves error replies, access logs and the process's own log.
 */

/** Suffixes of names, in lower case: both dialects put prefixes in front of them. */
const secretEnds: readonly string[] = [
  'signature',
  'security-token',
  // Matches the header of the request and the one for the source of a copy.
  'server-side-encryption-customer-key',
  // The header contains the code of a one-time password.
  '-mfa',
  'tokencode',
  'webidentitytoken',
  'samlassertion',
  'secretaccesskey',
  'secret-access-key',
  'secretkey',
  'password',
];

/** Longer names than this carry no secret; the bound keeps the search linear. */
const nameMax = 200;

/** @param name of a header or query parameter, percent-encoded or not, in any case */
function isSecretName(name: string): boolean {
  if (name.length > nameMax) return false;
  const bare = decoded(name).toLowerCase();
  return secretEnds.some((end) => bare.endsWith(end));
}

function decoded(name: string): string {
  if (!name.includes('%')) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * Replaces the values of `name=value` in a text that contains a URL or a query: a value ends at `&`, a blank or a double quote.
 * @param mask replaces each secret value
 */
export function maskParameters(text: string, mask: string): string {
  let out = '';
  let from = 0;
  for (let equals = text.indexOf('='); equals >= 0; equals = text.indexOf('=', equals + 1)) {
    if (equals < from) continue;
    if (!isSecretName(nameBefore(text, equals))) continue;
    out += text.slice(from, equals + 1) + mask;
    from = equals + 1;
    while (from < text.length && !valueEnds.has(text.charCodeAt(from))) from += 1;
  }
  return from === 0 ? text : out + text.slice(from);
}

/** Replaces the passwords of URLs such as `https://user:password@host`. A password may have any character but a blank. */
export const maskPasswords = (text: string, mask: string): string =>
  text
    .split(/(?=\s)/)
    .map((word) => {
      const scheme = word.indexOf('://');
      const colon = word.indexOf(':', scheme + 3);
      const at = word.lastIndexOf('@');
      const hasPassword = scheme >= 0 && colon >= 0 && colon < at;
      return hasPassword ? word.slice(0, colon + 1) + mask + word.slice(at) : word;
    })
    .join('');

const codes = (text: string): ReadonlySet<number> => new Set(Array.from(text, (char) => char.charCodeAt(0)));
const valueEnds = codes('& \t\r\n"');
const nameStarts = codes('?& \t\r\n"=;,');

/** At most `nameMax` characters, so that a text of nothing but `=` or of one long name takes linear time. */
function nameBefore(text: string, end: number): string {
  let start = end;
  while (start > 0 && end - start <= nameMax && !nameStarts.has(text.charCodeAt(start - 1))) start -= 1;
  return text.slice(start, end);
}

/** Replaces the values of the lines `name:value` whose name carries a secret, and the parameters of all other lines. */
export const maskLines = (text: string, mask: string): string =>
  text
    .split('\n')
    .map((line) => {
      const colon = line.indexOf(':');
      return colon > 0 && isSecretName(line.slice(0, colon))
        ? `${line.slice(0, colon)}:${mask}`
        : maskParameters(line, mask);
    })
    .join('\n');
