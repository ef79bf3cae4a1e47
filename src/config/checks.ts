/** Checks between settings, after each of them has been read. */
import type { Config } from '../config.ts';
import { keyChecks } from './keys/checks.ts';
import { metadataBackends } from './metadata/backends.ts';
import { metadataChecks } from './metadata/checks.ts';
import type { Check } from './read/check.ts';
import { poolFields } from './values/clusters.ts';
import { showListen } from './values/network.ts';
import { resolveUpstreams } from './values/upstreams.ts';

const needsDataDir: Check = {
  reads: ['SVC_DATA_DIR', 'SVC_META_BACKEND', 'SVC_DATA_BACKEND', 'SVC_POOL_CLUSTERS'],
  find: (config) => {
    if (config.SVC_DATA_DIR !== undefined) return undefined;
    const file =
      config.SVC_DATA_BACKEND === 'file' && config.SVC_POOL_CLUSTERS.some(({ dir }) => dir === undefined);
    const wanting = [
      ...(metadataBackends[config.SVC_META_BACKEND].needsDataDir
        ? [`SVC_META_BACKEND=${config.SVC_META_BACKEND}`]
        : []),
      ...(file ? ['SVC_DATA_BACKEND=file'] : []),
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
  find: ({ SVC_NOTIFY_RETRY_MAX: retry, SVC_QUEUE_RETENTION: kept, SVC_NOTIFY_TARGETS: targets }) =>
    retry < kept || targets.length === 0
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
  metadataBackends[config.SVC_META_BACKEND].scope !== 'process' && config.SVC_DATA_BACKEND !== 'memory';

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
    if (backend !== 'upstream-store')
      return config.SVC_UPSTREAMS.length === 0
        ? undefined
        : `SVC_UPSTREAMS is given, but SVC_DATA_BACKEND=${backend} does not use it`;
    if (config.SVC_UPSTREAMS.length === 0) return 'SVC_DATA_BACKEND=upstream-store needs SVC_UPSTREAMS';
    const lacking = resolveUpstreams(config).filter(({ missing }) => missing.length > 0);
    if (lacking.length === 0) return undefined;
    const each = lacking.map(({ upstream, missing }) => `"${upstream.id}" lacks ${missing.join(', ')}`);
    return `SVC_UPSTREAMS: ${each.join('; ')}, which SVC_UPSTREAM_ENDPOINT, _ACCESS_KEY and _SECRET_KEY may give for all`;
  },
};

const directoriesAreUsed: Check = {
  reads: ['SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND'],
  find: (config) =>
    config.SVC_DATA_BACKEND !== 'file' && config.SVC_POOL_CLUSTERS.some(({ dir }) => dir !== undefined)
      ? `SVC_POOL_CLUSTERS gives a dir, which SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} does not use`
      : undefined,
};

const addressesAreUsed: Check = {
  reads: ['SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND'],
  find: ({ SVC_POOL_CLUSTERS: clusters, SVC_DATA_BACKEND: backend }) => {
    const unused =
      backend === 'cluster-pool' ? [] : poolFields.filter((name) => clusters.some((each) => each[name]));
    return unused.length === 0
      ? undefined
      : `SVC_POOL_CLUSTERS gives a ${unused.join(', ')}, which SVC_DATA_BACKEND=${backend} does not use`;
  },
};

const pinsAreListed: Check = {
  reads: ['SVC_STORAGE_CLASSES', 'SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND', 'SVC_UPSTREAMS'],
  find: (config) => {
    const { SVC_STORAGE_CLASSES: classes, SVC_DATA_BACKEND: backend } = config;
    const list = backend === 'upstream-store' ? 'SVC_UPSTREAMS' : 'SVC_POOL_CLUSTERS';
    const clusters: readonly { readonly id: string }[] = config[list];
    const unlisted = classes
      .flatMap(({ cluster }) => cluster ?? [])
      .filter((id) => !clusters.some((each) => each.id === id));
    return unlisted.length === 0
      ? undefined
      : `SVC_STORAGE_CLASSES pins classes to ${unlisted.join(', ')}, which ${list} does not list`;
  },
};

/** The data backends that keep their chunks in pools. */
const pooled: readonly string[] = ['cluster-pool'];

const poolsAreUsed: Check = {
  reads: ['SVC_STORAGE_CLASSES', 'SVC_DATA_BACKEND'],
  find: ({ SVC_STORAGE_CLASSES: classes, SVC_DATA_BACKEND: backend }) =>
    !pooled.includes(backend) && classes.some(({ pool }) => pool !== undefined)
      ? `SVC_STORAGE_CLASSES names pools, which SVC_DATA_BACKEND=${backend} does not have`
      : undefined,
};

const halvesLastAlike: Check = {
  reads: ['SVC_META_BACKEND', 'SVC_DATA_BACKEND'],
  find: (config) => {
    const metadataLasts = config.SVC_META_BACKEND !== 'memory';
    const bytesLast = config.SVC_DATA_BACKEND !== 'memory';
    if (metadataLasts === bytesLast || config.SVC_DATA_BACKEND === 'noop') return undefined;
    return metadataLasts
      ? `SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} loses at exit the bytes that SVC_META_BACKEND=${config.SVC_META_BACKEND} remembers`
      : `SVC_META_BACKEND=memory forgets at exit the objects whose bytes SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} keeps`;
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
    directoriesAreUsed,
    addressesAreUsed,
    ...keyChecks,
    upstreamsAreWhole,
    pinsAreListed,
    poolsAreUsed,
  ],
  warnings: [halvesLastAlike, deliveryEndsFirst, ...metadataChecks.warnings],
};
