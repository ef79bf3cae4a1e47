/** Checks between the settings of a metadata backend. */
import type { Check } from '../read/check.ts';
import { metadataBackends } from './backends.ts';

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

/** How long the locks of a dead gateway remain on TiKV (`ordered-kv/tikv/transactions/heartbeat.ts`). */
const kvLockMs = 6_000;

const timeoutOutlastsLocks: Check = {
  reads: ['SVC_META_BACKEND', 'SVC_KV_TIMEOUT'],
  find: ({ SVC_META_BACKEND: backend, SVC_KV_TIMEOUT: timeoutMs }) =>
    backend === 'ordered-kv' && timeoutMs <= kvLockMs
      ? `SVC_KV_TIMEOUT=${timeoutMs}ms is no longer than the locks of a gateway that died (${kvLockMs}ms): writes that meet one are answered 503`
      : undefined,
};

export const metadataChecks: { readonly faults: readonly Check[]; readonly warnings: readonly Check[] } = {
  faults: [sharedMetadata, kvTls, wideColumnTls, wideColumnLogin],
  warnings: [timeoutOutlastsLocks],
};
