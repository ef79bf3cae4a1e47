/**
 * Decides the answer of a website to a key: a page, a redirect, or the error document. The order is the public service's: the
 * redirect of all requests, routing rules without an error code, the page, routing rules with its error code.
 */
import type { RoutingRule, Website } from './families.ts';

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
