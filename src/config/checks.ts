/** What settings ask of each other, once each of them has been read. */
import type { Config, SettingName } from '../config.ts';
import { showListen } from './network.ts';

/** One rule; it is passed over when a setting that it reads has a fault of its own. */
export interface Check {
  readonly reads: readonly SettingName[];
  readonly find: (config: Config) => string | undefined;
}

const needsDataDir: Check = {
  reads: ['SVC_DATA_DIR', 'SVC_META_BACKEND', 'SVC_DATA_BACKEND', 'SVC_POOL_CLUSTERS'],
  find: (config) => {
    if (config.SVC_DATA_DIR !== undefined) return undefined;
    const file =
      config.SVC_DATA_BACKEND === 'file' && config.SVC_POOL_CLUSTERS.some(({ dir }) => dir === undefined);
    const wanting = [
      ...(config.SVC_META_BACKEND === 'embedded' ? ['SVC_META_BACKEND=embedded'] : []),
      ...(file ? ['SVC_DATA_BACKEND=file'] : []),
    ];
    return wanting.length > 0
      ? `${wanting.join(' and ')} ${wanting.length > 1 ? 'need' : 'needs'} SVC_DATA_DIR`
      : undefined;
  },
};

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
    if (backend !== 'ordered-kv' && backend !== 'wide-column') return undefined;
    const servers = backend === 'ordered-kv' ? 'SVC_KV_PD_ENDPOINTS' : 'SVC_WIDECOL_HOSTS';
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

const tlsPair: Check = {
  reads: ['SVC_TLS_CERT_FILE', 'SVC_TLS_KEY_FILE'],
  find: ({ SVC_TLS_CERT_FILE: cert, SVC_TLS_KEY_FILE: key }) =>
    (cert === undefined) === (key === undefined)
      ? undefined
      : `SVC_TLS_CERT_FILE and SVC_TLS_KEY_FILE go together: ${cert === undefined ? 'the first' : 'the second'} is not set`,
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
  config.SVC_META_BACKEND !== 'memory' && config.SVC_DATA_BACKEND !== 'memory';

const sharedByProcesses: Check = {
  reads: ['SVC_PROCESSES', 'SVC_META_BACKEND', 'SVC_DATA_BACKEND'],
  find: (config) =>
    typeof config.SVC_PROCESSES === 'number' && config.SVC_PROCESSES > 1 && !backendsCanShare(config)
      ? `SVC_PROCESSES=${config.SVC_PROCESSES} needs backends that processes can share: a memory backend lives in one`
      : undefined,
};

const hsmHasKeys: Check = {
  reads: ['SVC_KEY_PROVIDER', 'SVC_HSM_KEYS_FILE'],
  find: ({ SVC_KEY_PROVIDER: provider, SVC_HSM_KEYS_FILE: file }) => {
    if (provider === 'local-hsm' && file === undefined)
      return 'SVC_KEY_PROVIDER=local-hsm needs SVC_HSM_KEYS_FILE';
    return provider === undefined && file !== undefined
      ? 'SVC_HSM_KEYS_FILE is used by SVC_KEY_PROVIDER=local-hsm alone'
      : undefined;
  },
};

const directoriesAreUsed: Check = {
  reads: ['SVC_POOL_CLUSTERS', 'SVC_DATA_BACKEND'],
  find: (config) =>
    config.SVC_DATA_BACKEND !== 'file' && config.SVC_POOL_CLUSTERS.some(({ dir }) => dir !== undefined)
      ? `SVC_POOL_CLUSTERS gives a dir, which SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} does not use`
      : undefined,
};

const halvesLastAlike: Check = {
  reads: ['SVC_META_BACKEND', 'SVC_DATA_BACKEND'],
  find: (config) => {
    const metadataLasts = config.SVC_META_BACKEND !== 'memory';
    const bytesLast = config.SVC_DATA_BACKEND === 'file';
    if (metadataLasts === bytesLast || config.SVC_DATA_BACKEND === 'noop') return undefined;
    return metadataLasts
      ? `SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} loses at exit the bytes that SVC_META_BACKEND=${config.SVC_META_BACKEND} remembers`
      : `SVC_META_BACKEND=memory forgets at exit the objects whose bytes SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND} keeps`;
  },
};

export const checks: { readonly faults: readonly Check[]; readonly warnings: readonly Check[] } = {
  faults: [
    needsDataDir,
    sharedMetadata,
    tlsPair,
    oneCredentialSource,
    twoListeners,
    sharedByProcesses,
    directoriesAreUsed,
    hsmHasKeys,
  ],
  warnings: [halvesLastAlike],
};
