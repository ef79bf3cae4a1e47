/**
 * What a visitor of a website is shown for a key: a page, another address, or the page for errors. The
 * order is the public service's: redirects of everything, rules without an error, the page, rules with its error.
 */
import type { RoutingRule, Website } from './families.ts';

/** Another address; what is absent stays as in the request. */
export interface Elsewhere {
  readonly protocol?: string | undefined;
  readonly host?: string | undefined;
  /** The beginning of the path as the site's owner wrote it, and what is left of the key behind it. */
  readonly path: { readonly written: string; readonly key: string };
  readonly code: number;
}

const moved = 301;

/** Where the visitor is sent before any page is looked for. */
export function redirectOf(site: Website, key: string): Elsewhere | undefined {
  const all = site.RedirectAllRequestsTo;
  if (all !== undefined)
    return { protocol: all.Protocol, host: all.HostName, path: { written: '', key }, code: moved };
  return ruleFor(site, key, undefined);
}

/** Where the visitor is sent because the page could not be shown. @param error the HTTP status */
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

/** The key of the page: that of its index document, where the key is a directory. Undefined where there is none. */
export function pageOf({ IndexDocument }: Website, key: string): string | undefined {
  if (key !== '' && !key.endsWith('/')) return key;
  return IndexDocument === undefined ? undefined : key + IndexDocument.Suffix;
}
