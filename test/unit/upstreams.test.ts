/** `SVC_UPSTREAMS`, and the settings that are defaults for its entries. */
import { expect, test } from 'vitest';
import { configWith, parseConfig } from '../../src/config/read-config.ts';
import { resolveUpstreams } from '../../src/config/upstreams.ts';
import type { SettingName } from '../../src/config.ts';

type Texts = Partial<Readonly<Record<SettingName, string>>>;
const shared: Texts = {
  SVC_DATA_BACKEND: 'upstream-store',
  SVC_UPSTREAM_ENDPOINT: 'https://s3.example.com',
  SVC_UPSTREAM_ACCESS_KEY: 'key',
  SVC_UPSTREAM_SECRET_KEY: 'secret',
};
const faultsOf = (texts: Texts): readonly string[] => {
  const parsed = parseConfig(texts);
  return 'faults' in parsed ? parsed.faults : [];
};
const entries = (...list: readonly object[]): Texts => ({ ...shared, SVC_UPSTREAMS: JSON.stringify(list) });

test('plain ids are buckets of the one endpoint', () => {
  const config = configWith({ ...shared, SVC_UPSTREAMS: 'photos, archive' });
  expect(resolveUpstreams(config).map(({ upstream }) => upstream)).toEqual(
    ['photos', 'archive'].map((id) => ({
      id,
      bucket: id,
      endpoint: 'https://s3.example.com',
      region: 'us-east-1',
      style: 'path',
      prefix: 'sluice/',
      accessKey: 'key',
      secretKey: 'secret',
      secretKeyFile: undefined,
      caFile: undefined,
      insecure: false,
    })),
  );
});

test('the fields of an entry take precedence', () => {
  const own = {
    id: 'eu',
    endpoint: 'http://10.0.0.1:7480',
    region: 'eu-west-1',
    bucket: 'Objects',
    style: 'virtual-host',
    prefix: '',
    accessKey: 'other',
    secretKeyFile: '/run/secret',
    caFile: '/ca.pem',
    insecure: true,
  };
  const [found] = resolveUpstreams(configWith(entries(own)));
  expect(found).toEqual({ upstream: { ...own, secretKey: undefined }, missing: [] });
});

test('reports the missing settings of an upstream', () => {
  expect(faultsOf({ SVC_DATA_BACKEND: 'upstream-store' })).toEqual([
    'SVC_DATA_BACKEND=upstream-store needs SVC_UPSTREAMS',
  ]);
  expect(faultsOf({ SVC_DATA_BACKEND: 'upstream-store', SVC_UPSTREAMS: 'photos' })).toEqual([
    'SVC_UPSTREAMS: "photos" lacks an endpoint, an access key, a secret key, which SVC_UPSTREAM_ENDPOINT, _ACCESS_KEY and _SECRET_KEY may give for all',
  ]);
  expect(faultsOf({ SVC_UPSTREAMS: 'photos' })).toEqual([
    'SVC_UPSTREAMS is given, but SVC_DATA_BACKEND=memory does not use it',
  ]);
  expect(faultsOf({ ...shared, SVC_UPSTREAMS: 'a', SVC_UPSTREAM_SECRET_KEY_FILE: '/f' })).toEqual([
    'SVC_UPSTREAM_SECRET_KEY and SVC_UPSTREAM_SECRET_KEY_FILE exclude each other',
  ]);
});

test.each([
  [{ id: 'A' }, ': entry 1 needs an id'],
  [{ id: 'a', dir: '/x' }, 'has an unknown field "dir"'],
  [{ id: 'a', toString: 1 }, 'has an unknown field "toString"'],
  [{ id: 'a', endpoint: 'https://h/path' }, 'endpoint that is not an http or https address'],
  [{ id: 'a', endpoint: 'ftp://h' }, 'endpoint that is not'],
  [{ id: 'a', endpoint: 'http://user:word@h' }, 'endpoint that is not'],
  [{ id: 'a', style: 'host' }, 'style that is not "path" or "virtual-host"'],
  [{ id: 'a', insecure: 'yes' }, 'insecure that is not true or false'],
  [{ id: 'a', prefix: 'é' }, 'prefix that is not'],
  [{ id: 'a', secretKey: 'a b' }, 'secretKey that is not printable'],
  [{ id: 'a', secretKey: 'x', secretKeyFile: '/x' }, 'has both secretKey and secretKeyFile'],
])('refuses %j', (entry, why) => {
  const [fault] = faultsOf(entries(entry));
  expect(fault).toContain(why);
  expect(fault).not.toContain('a b');
});

test('refuses an id twice, and pins to what is not listed', () => {
  expect(faultsOf(entries({ id: 'a' }, { id: 'a' }))).toEqual(['SVC_UPSTREAMS: entry 2 repeats the id "a"']);
  expect(faultsOf({ ...shared, SVC_UPSTREAMS: 'a', SVC_STORAGE_CLASSES: 'archive@b' })).toEqual([
    'SVC_STORAGE_CLASSES pins classes to b, which SVC_UPSTREAMS does not list',
  ]);
});
