/** The page of a website for a key, without a gateway. */
import { describe, expect, test } from 'vitest';
import type { RoutingRule, Website } from '../../src/domain/configurations/families.ts';
import { findPage, findRedirect, redirectOfError } from '../../src/gateway/site.ts';

const site: Website = { IndexDocument: { Suffix: 'index.html' } };
const rule = (Redirect: RoutingRule['Redirect'], Condition?: RoutingRule['Condition']): RoutingRule =>
  Condition === undefined ? { Redirect } : { Redirect, Condition };
const ruled = (...RoutingRules: readonly RoutingRule[]): Website => ({ ...site, RoutingRules });

test('a directory is shown by its index, and so is the root', () => {
  expect(['', 'a/', 'a/b/', 'a', 'a/b.html'].map((key) => findPage(site, key))).toEqual([
    'index.html',
    'a/index.html',
    'a/b/index.html',
    'a',
    'a/b.html',
  ]);
  const elsewhere: Website = { RedirectAllRequestsTo: { HostName: 'h' } };
  expect([findPage(elsewhere, ''), findPage(elsewhere, 'a/')]).toEqual([undefined, undefined]);
});

test('a website that redirects all requests sends them to its host, with the key', () => {
  const elsewhere: Website = { RedirectAllRequestsTo: { HostName: 'h', Protocol: 'https' } };
  expect(findRedirect(elsewhere, 'a/b')).toEqual({
    protocol: 'https',
    host: 'h',
    path: { written: '', key: 'a/b' },
    code: 301,
  });
  expect(findRedirect(site, 'a/b')).toBeUndefined();
});

describe('a rule', () => {
  test.each([
    ['replaces the host alone', { HostName: 'h' }, undefined, 'a/b', { written: '', key: 'a/b' }],
    ['replaces the key', { ReplaceKeyWith: 'new' }, undefined, 'a/b', { written: 'new', key: '' }],
    [
      'replaces a prefix',
      { ReplaceKeyPrefixWith: 'c/' },
      { KeyPrefixEquals: 'a/' },
      'a/b',
      { written: 'c/', key: 'b' },
    ],
    [
      'removes a prefix',
      { ReplaceKeyPrefixWith: '' },
      { KeyPrefixEquals: 'a/' },
      'a/b',
      { written: '', key: 'b' },
    ],
    [
      'puts a prefix before all',
      { ReplaceKeyPrefixWith: '#!/' },
      undefined,
      'a/b',
      { written: '#!/', key: 'a/b' },
    ],
    ['passes over another key', { ReplaceKeyWith: 'new' }, { KeyPrefixEquals: 'a/' }, 'b', undefined],
    ['passes over another case', { ReplaceKeyWith: 'new' }, { KeyPrefixEquals: 'A' }, 'a', undefined],
  ] as const)('%s', (_, redirect, condition, key, path) => {
    expect(findRedirect(ruled(rule(redirect, condition)), key)?.path).toEqual(path);
  });

  test('counts by its place, and by its error only when there is one', () => {
    const rules = ruled(
      rule({ ReplaceKeyWith: 'denied', HttpRedirectCode: '302' }, { HttpErrorCodeReturnedEquals: '403' }),
      rule({ ReplaceKeyWith: 'first' }, { KeyPrefixEquals: 'a' }),
      rule({ ReplaceKeyWith: 'second' }, { KeyPrefixEquals: 'a/b' }),
      rule({ ReplaceKeyWith: 'lost' }, { KeyPrefixEquals: 'a/', HttpErrorCodeReturnedEquals: '404' }),
    );
    expect(findRedirect(rules, 'a/b')?.path.written).toBe('first');
    expect(findRedirect(rules, 'b')).toBeUndefined();
    expect([redirectOfError(rules, 'x', 403)?.code, redirectOfError(rules, 'a/', 404)?.code]).toEqual([
      302, 301,
    ]);
    expect(redirectOfError(rules, 'x', 404)).toBeUndefined();
    expect(redirectOfError(rules, 'a/b', 500)).toBeUndefined();
  });
});
