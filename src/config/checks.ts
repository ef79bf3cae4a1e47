/** Checks between settings, after each of them has been read. */

import type { Config, SettingName } from '../config.ts';
import { poolFields } from './clusters.ts';
import { dataBackends } from './data.ts';
import { keyProviderNames, keyProviders } from './keys.ts';
import { metadataBackends } from './metadata.ts';
import { showListen } from './network.ts';
import { resolveUpstreams } from './upstreams.ts';

/** A rule about settings that depend on each other. It is skipped when a setting that it reads has a fault. */
interface Check {
  readonly reads: readonly SettingName[];
  readonly find: (config: Config) => string | undefined;
}

// Checks of the settings of key providers: each provider has what it needs, and nothing is given that it does not use.

const keyProviderChecks = keyProviderNames.map((provider): Check => {
  const { needs, login } = keyProviders[provider];
  const ofLogin = login === undefined ? [] : [login.by, ...Object.values(login.needs).flat()];
  return {
    reads: ['SVC_KEY_PROVIDER', ...needs, ...ofLogin],
    find: (config) => {
      if (config.SVC_KEY_PROVIDER !== provider) return undefined;
      const way = login && String(config[login.by]);
      const needed = way === undefined ? needs : [...needs, ...(login?.needs[way] ?? [])];
      // A list that is not set is empty.
      const missing = needed.filter((name) => String(config[name] ?? '') === '').join(' and ');
      const chosen = `SVC_KEY_PROVIDER=${provider}${way === undefined ? '' : ` with ${login?.by}=${way}`}`;
      return missing === '' ? undefined : `${chosen} needs ${missing}`;
    },
  };
});

const hsmKeysAreUsed: Check = {
  reads: ['SVC_KEY_PROVIDER', 'SVC_HSM_KEYS_FILE'],
  find: ({ SVC_KEY_PROVIDER: provider, SVC_HSM_KEYS_FILE: file }) =>
    provider !== 'local-hsm' && file !== undefined
      ? 'SVC_HSM_KEYS_FILE is used by SVC_KEY_PROVIDER=local-hsm alone'
      : undefined,
};

// Checks between the settings of a metadata backend.

/** Metadata that several machines share; each must know the same credentials and open the same secrets. */
const sharedMetadata: Check = {
  reads: [
    'SVC_META_BACKEND',
    'SVC_KV_PD_ENDPOINTS',
    'SVC_WIDECOL_HOSTS',
    'SVC_CREDENTIALS',
    'SVC_CREDENTIALS_FILE',
    'SVC_MASTER_KEY_FILE',
  ],
  find: (config) => {
    const { SVC_META_BACKEND: backend, SVC_CREDENTIALS: inline, SVC_CREDENTIALS_FILE: file } = config;
    const { servers } = metadataBackends[backend];
    if (servers === undefined) return undefined;
    const missing = [
      ...(config[servers] === undefined ? [servers] : []),
      ...(inline === undefined && file === undefined ? ['SVC_CREDENTIALS_FILE'] : []),
      ...(config.SVC_MASTER_KEY_FILE === undefined ? ['SVC_MASTER_KEY_FILE'] : []),
    ];
    return missing.length === 0
      ? undefined
      : `SVC_META_BACKEND=${backend} needs ${missing.join(' and ')}, the same in every gateway`;
  },
};

const kvTls: Check = {
  reads: ['SVC_KV_CA_FILE', 'SVC_KV_CERT_FILE', 'SVC_KV_KEY_FILE'],
  find: ({ SVC_KV_CA_FILE: ca, SVC_KV_CERT_FILE: cert, SVC_KV_KEY_FILE: key }) => {
    if ((cert === undefined) !== (key === undefined))
      return `SVC_KV_CERT_FILE and SVC_KV_KEY_FILE go together: ${cert === undefined ? 'the first' : 'the second'} is not set`;
    return cert !== undefined && ca === undefined ? 'SVC_KV_CERT_FILE needs SVC_KV_CA_FILE' : undefined;
  },
};

const wideColumnTls: Check = {
  reads: [
    'SVC_WIDECOL_TLS',
    'SVC_WIDECOL_CA_FILE',
    'SVC_WIDECOL_CERT_FILE',
    'SVC_WIDECOL_KEY_FILE',
    'SVC_WIDECOL_SERVER_NAME',
  ],
  find: ({ SVC_WIDECOL_TLS: isOn, SVC_WIDECOL_CA_FILE: ca, ...config }) => {
    const cert = config.SVC_WIDECOL_CERT_FILE;
    if ((cert === undefined) !== (config.SVC_WIDECOL_KEY_FILE === undefined))
      return `SVC_WIDECOL_CERT_FILE and SVC_WIDECOL_KEY_FILE go together: ${cert === undefined ? 'the first' : 'the second'} is not set`;
    if (isOn || ca !== undefined) return undefined;
    const name = cert !== undefined ? 'SVC_WIDECOL_CERT_FILE' : 'SVC_WIDECOL_SERVER_NAME';
    return cert !== undefined || config.SVC_WIDECOL_SERVER_NAME !== undefined
      ? `${name} needs SVC_WIDECOL_TLS=on or SVC_WIDECOL_CA_FILE`
      : undefined;
  },
};

const wideColumnLogin: Check = {
  reads: ['SVC_WIDECOL_USERNAME', 'SVC_WIDECOL_PASSWORD'],
  find: ({ SVC_WIDECOL_USERNAME: username, SVC_WIDECOL_PASSWORD: password }) =>
    (username === undefined) === (password === undefined)
      ? undefined
      : `SVC_WIDECOL_USERNAME and SVC_WIDECOL_PASSWORD go together: ${username === undefined ? 'the first' : 'the second'} is not set`,
};

/** How long the locks of a dead gateway remain on TiKV (`backends/tikv/transaction.ts`). */
const kvLockMs = 6_000;

const timeoutOutlastsLocks: Check = {
  reads: ['SVC_META_BACKEND', 'SVC_KV_TIMEOUT'],
  find: ({ SVC_META_BACKEND: backend, SVC_KV_TIMEOUT: timeoutMs }) =>
    backend === 'ordered-kv' && timeoutMs <= kvLockMs
      ? `SVC_KV_TIMEOUT=${timeoutMs}ms is no longer than the locks of a gateway that died (${kvLockMs}ms): writes that meet one are answered 503`
      : undefined,
};

const metadataChecks: { readonly faults: readonly Check[]; readonly warnings: readonly Check[] } = {
  faults: [sharedMetadata, kvTls, wideColumnTls, wideColumnLogin],
  warnings: [timeoutOutlastsLocks],
};

const needsDataDir: Check = {
  reads: ['SVC_DATA_DIR', 'SVC_META_BACKEND', 'SVC_DATA_BACKEND', 'SVC_POOL_CLUSTERS'],
  find: (config) => {
    if (config.SVC_DATA_DIR !== undefined) return undefined;
    const needsDirectories =
      dataBackends[config.SVC_DATA_BACKEND].isOnDisks === true &&
      config.SVC_POOL_CLUSTERS.some(({ dir }) => dir === undefined);
    const wanting = [
      ...(metadataBackends[config.SVC_META_BACKEND].needsDataDir
        ? [`SVC_META_BACKEND=${config.SVC_META_BACKEND}`]
        : []),
      ...(needsDirectories ? [`SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND}`] : []),
    ];
    return wanting.length > 0
      ? `${wanting.join(' and ')} ${wanting.length > 1 ? 'need' : 'needs'} SVC_DATA_DIR`
      : undefined;
  },
};

const tlsPair: Check = {
  reads: ['SVC_TLS_CERT_FILE', 'SVC_TLS_KEY_FILE'],
  find: ({ SVC_TLS_CERT_FILE: cert, SVC_TLS_KEY_FILE: key }) =>
    (cert === undefined) === (key === undefined)
      ? undefined
      : `SVC_TLS_CERT_FILE and SVC_TLS_KEY_FILE go together: ${cert === undefined ? 'the first' : 'the second'} is not set`,
};

const deliveryEndsFirst: Check = {
  reads: ['SVC_NOTIFY_RETRY_MAX', 'SVC_QUEUE_RETENTION', 'SVC_NOTIFY_TARGETS'],
  find: ({ SVC_NOTIFY_RETRY_MAX: retry, SVC_QUEUE_RETENTION: retained, SVC_NOTIFY_TARGETS: targets }) =>
    retry < retained || targets.length === 0
      ? undefined
      : 'SVC_NOTIFY_RETRY_MAX is not shorter than SVC_QUEUE_RETENTION: events are dropped before they become dead letters',
};

const oneCredentialSource: Check = {
  reads: ['SVC_CREDENTIALS', 'SVC_CREDENTIALS_FILE'],
  find: (config) =>
    config.SVC_CREDENTIALS !== undefined && config.SVC_CREDENTIALS_FILE !== undefined
      ? 'SVC_CREDENTIALS and SVC_CREDENTIALS_FILE exclude each other'
      : undefined,
};

const twoListeners: Check = {
  reads: ['SVC_LISTEN', 'SVC_ADMIN_LISTEN'],
  find: ({ SVC_LISTEN: main, SVC_ADMIN_LISTEN: admin }) =>
    admin !== undefined && main.port !== 0 && showListen(main) === showListen(admin)
      ? `SVC_ADMIN_LISTEN=${showListen(admin)} is the address of SVC_LISTEN`
      : undefined,
};

/** Memory belongs to one process; several would each answer from their own. */
export const backendsCanShare = (config: Pick<Config, 'SVC_META_BACKEND' | 'SVC_DATA_BACKEND'>): boolean =>
  metadataBackends[config.SVC_META_BACKEND].scope !== 'process' &&
  dataBackends[config.SVC_DATA_BACKEND].lifetime !== 'process';

const sharedByProcesses: Check = {
  reads: ['SVC_PROCESSES', 'SVC_META_BACKEND', 'SVC_DATA_BACKEND'],
  find: (config) =>
    typeof config.SVC_PROCESSES === 'number' && config.SVC_PROCESSES > 1 && !backendsCanShare(config)
      ? `SVC_PROCESSES=${config.SVC_PROCESSES} needs backends that processes can share: a memory backend lives in one`
      : undefined,
};

const upstreamsAreWhole: Check = {
  reads: [
    'SVC_DATA_BACKEND',
    'SVC_UPSTREAMS',
    'SVC_UPSTREAM_ENDPOINT',
    'SVC_UPSTREAM_REGION',
    'SVC_UPSTREAM_ACCESS_KEY',
    'SVC_UPSTREAM_SECRET_KEY',
    'SVC_UPSTREAM_SECRET_KEY_FILE',
  ],
  find: (config) => {
    const { SVC_DATA_BACKEND: backend, SVC_UPSTREAM_SECRET_KEY: secret } = config;
    if (secret !== undefined && config.SVC_UPSTREAM_SECRET_KEY_FILE !== undefined)
      return 'SVC_UPSTREAM_SECRET_KEY and SVC_UPSTREAM_SECRET_KEY_FILE exclude each other';
    if (dataBackends[backend].list !== 'SVC_UPSTREAMS')
      return config.SVC_UPSTREAMS.length === 0
        ? undefined
        : `SVC_UPSTREAMS is given, but SVC_DATA_BACKEND=${backend} does not use it`;
    if (config.SVC_UPSTREAMS.length === 0) return `SVC_DATA_BACKEND=${backend} needs SVC_UPSTREAMS`;
    const lacking = resolveUpstreams(config).filter(({ missing }) => missing.length > 0);
    if (lacking.length === 0) return undefined;
    const each = lacking.map(({ upstream, missing }) => `"${upstream.id}" lacks ${missing.join(', ')}`);
    return `SVC_UPSTREAMS: ${each.join('; ')}, which SVC_UPSTREAM_ENDPOINT, _ACCESS_KEY and _SECRET_KEY may give for all`;
  },
};

const clusterFieldsAreUsed: Check = {
  reads: ['SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND'],
  find: ({ SVC_POOL_CLUSTERS: clusters, SVC_DATA_BACKEND: backend }) => {
    const unused = (['dir', ...poolFields] as const)
      .filter((name) => !dataBackends[backend].fields.includes(name))
      .filter((name) => clusters.some((each) => each[name]));
    return unused.length === 0
      ? undefined
      : `SVC_POOL_CLUSTERS gives a ${unused.join(', ')}, which SVC_DATA_BACKEND=${backend} does not use`;
  },
};

const pinsAreListed: Check = {
  reads: ['SVC_STORAGE_CLASSES', 'SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND', 'SVC_UPSTREAMS'],
  find: (config) => {
    const { SVC_STORAGE_CLASSES: classes, SVC_DATA_BACKEND: backend } = config;
    const { list } = dataBackends[backend];
    const clusters: readonly { readonly id: string }[] = config[list];
    const unlisted = classes
      .flatMap(({ cluster }) => cluster ?? [])
      .filter((id) => !clusters.some((each) => each.id === id));
    return unlisted.length === 0
      ? undefined
      : `SVC_STORAGE_CLASSES pins classes to ${unlisted.join(', ')}, which ${list} does not list`;
  },
};

const poolsAreUsed: Check = {
  reads: ['SVC_STORAGE_CLASSES', 'SVC_DATA_BACKEND'],
  find: ({ SVC_STORAGE_CLASSES: classes, SVC_DATA_BACKEND: backend }) =>
    dataBackends[backend].hasPools !== true && classes.some(({ pool }) => pool !== undefined)
      ? `SVC_STORAGE_CLASSES names pools, which SVC_DATA_BACKEND=${backend} does not have`
      : undefined,
};

const halvesLastAlike: Check = {
  reads: ['SVC_META_BACKEND', 'SVC_DATA_BACKEND'],
  find: (config) => {
    const metadataLasts = metadataBackends[config.SVC_META_BACKEND].scope !== 'process';
    const { lifetime } = dataBackends[config.SVC_DATA_BACKEND];
    if (metadataLasts === (lifetime === 'persistent') || lifetime === 'none') return undefined;
    return metadataLasts
      ? `SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} loses at exit the bytes that SVC_META_BACKEND=${config.SVC_META_BACKEND} remembers`
      : `SVC_META_BACKEND=${config.SVC_META_BACKEND} forgets at exit the objects whose bytes SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} keeps`;
  },
};

export const checks: { readonly faults: readonly Check[]; readonly warnings: readonly Check[] } = {
  faults: [
    needsDataDir,
    tlsPair,
    ...metadataChecks.faults,
    oneCredentialSource,
    twoListeners,
    sharedByProcesses,
    clusterFieldsAreUsed,
    ...keyProviderChecks,
    hsmKeysAreUsed,
    upstreamsAreWhole,
    pinsAreListed,
    poolsAreUsed,
  ],
  warnings: [halvesLastAlike, deliveryEndsFirst, ...metadataChecks.warnings],
};
