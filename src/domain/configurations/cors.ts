/**
 * Finds the CORS rule that applies to a cross-origin request. A pattern has at most one `*`, so comparing both ends of the text
 * suffices, without backtracking.
 */
import type { Cors, CorsRule, RoutingRule, Website } from './families.ts';

/** A cross-origin request, or the preflight request before one. */
export interface CrossOrigin {
  readonly origin: string;
  readonly method: string;
  /** Names of its headers, in lower case. */
  readonly headers: readonly string[];
}

/** The first rule that allows the origin, the method and every header. */
export const findCorsRule = ({ CORSRule }: Cors, asked: CrossOrigin): CorsRule | undefined =>
  CORSRule.find((rule) => allows(rule, asked));

const allows = (
  { AllowedOrigin, AllowedMethod, AllowedHeader }: CorsRule,
  { origin, method, headers }: CrossOrigin,
): boolean =>
  AllowedMethod.includes(method) &&
  AllowedOrigin.some((pattern) => fits(pattern, origin)) &&
  headers.every((name) => AllowedHeader.some((pattern) => fits(pattern.toLowerCase(), name)));

/** `*` matches any text, the empty one too. */
function fits(pattern: string, text: string): boolean {
  const star = pattern.indexOf('*');
  if (star < 0) return pattern === text;
  const end = pattern.length - star - 1;
  return (
    text.length >= star + end &&
    text.startsWith(pattern.slice(0, star)) &&
    text.endsWith(pattern.slice(star + 1))
  );
}

// Decides the answer of a website to a key: a page, a redirect, or the error document. The order is the public service's: the
// redirect of all requests, routing rules without an error code, the page, routing rules with its error code.

/** A redirect target; absent parts stay as in the request. */
export interface Elsewhere {
  readonly protocol?: string | undefined;
  readonly host?: string | undefined;
  /** The beginning of the path as the site's owner wrote it, and the rest of the key. */
  readonly path: { readonly written: string; readonly key: string };
  readonly code: number;
}

const moved = 301;

/** The redirect before any page is read. */
export function findRedirect(site: Website, key: string): Elsewhere | undefined {
  const all = site.RedirectAllRequestsTo;
  if (all !== undefined)
    return { protocol: all.Protocol, host: all.HostName, path: { written: '', key }, code: moved };
  return ruleFor(site, key, undefined);
}

/** The redirect because the page could not be read. @param error the HTTP status */
export const redirectOfError = (site: Website, key: string, error: number): Elsewhere | undefined =>
  ruleFor(site, key, String(error));

function ruleFor({ RoutingRules = [] }: Website, key: string, error: string | undefined) {
  const rule = RoutingRules.find(({ Condition = {} }) => {
    const { KeyPrefixEquals = '', HttpErrorCodeReturnedEquals } = Condition;
    return HttpErrorCodeReturnedEquals === error && key.startsWith(KeyPrefixEquals);
  });
  return rule && follow(rule, key);
}

function follow({ Condition, Redirect }: RoutingRule, key: string): Elsewhere {
  const { Protocol, HostName, ReplaceKeyWith, ReplaceKeyPrefixWith, HttpRedirectCode } = Redirect;
  const prefix = Condition?.KeyPrefixEquals ?? '';
  let path = { written: '', key };
  if (ReplaceKeyWith !== undefined) path = { written: ReplaceKeyWith, key: '' };
  else if (ReplaceKeyPrefixWith !== undefined)
    path = { written: ReplaceKeyPrefixWith, key: key.slice(prefix.length) };
  const code = HttpRedirectCode === undefined ? moved : Number(HttpRedirectCode);
  return { protocol: Protocol, host: HostName, path, code };
}

/** The key of the page; for a directory, that of its index document. Undefined when the site has no index document. */
export function findPage({ IndexDocument }: Website, key: string): string | undefined {
  if (key !== '' && !key.endsWith('/')) return key;
  return IndexDocument === undefined ? undefined : key + IndexDocument.Suffix;
}
