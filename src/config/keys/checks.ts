/** Checks of the settings of key providers: each provider has what it needs, and nothing is given that it does not use. */
import type { Check } from '../read/check.ts';

const hsmHasKeys: Check = {
  reads: ['SVC_KEY_PROVIDER', 'SVC_HSM_KEYS_FILE'],
  find: ({ SVC_KEY_PROVIDER: provider, SVC_HSM_KEYS_FILE: file }) => {
    if (provider === 'local-hsm' && file === undefined)
      return 'SVC_KEY_PROVIDER=local-hsm needs SVC_HSM_KEYS_FILE';
    return provider !== 'local-hsm' && file !== undefined
      ? 'SVC_HSM_KEYS_FILE is used by SVC_KEY_PROVIDER=local-hsm alone'
      : undefined;
  },
};

const transitNeeds = {
  token: ['SVC_TRANSIT_TOKEN_FILE'],
  approle: ['SVC_TRANSIT_ROLE_ID', 'SVC_TRANSIT_SECRET_ID_FILE'],
  kubernetes: ['SVC_TRANSIT_ROLE'],
} as const;

const transitIsWhole: Check = {
  reads: [
    'SVC_KEY_PROVIDER',
    'SVC_TRANSIT_ADDR',
    'SVC_TRANSIT_AUTH',
    'SVC_TRANSIT_TOKEN_FILE',
    'SVC_TRANSIT_ROLE_ID',
    'SVC_TRANSIT_SECRET_ID_FILE',
    'SVC_TRANSIT_ROLE',
  ],
  find: (config) => {
    if (config.SVC_KEY_PROVIDER !== 'transit') return undefined;
    const auth = config.SVC_TRANSIT_AUTH;
    const missing = (['SVC_TRANSIT_ADDR', ...transitNeeds[auth]] as const).filter(
      (name) => config[name] === undefined,
    );
    return missing.length === 0
      ? undefined
      : `SVC_KEY_PROVIDER=transit with SVC_TRANSIT_AUTH=${auth} needs ${missing.join(' and ')}`;
  },
};

const kmsNeeds = {
  static: ['SVC_KMS_ACCESS_KEY', 'SVC_KMS_SECRET_KEY_FILE'],
  profile: ['SVC_KMS_PROFILE_FILE'],
  imds: [],
  'web-identity': ['SVC_KMS_ROLE_ARN', 'SVC_KMS_WEB_IDENTITY_TOKEN_FILE', 'SVC_KMS_STS_ENDPOINT'],
} as const;

const kmsIsWhole: Check = {
  reads: [
    'SVC_KEY_PROVIDER',
    'SVC_KMS_ENDPOINT',
    'SVC_KMS_CREDENTIALS',
    'SVC_KMS_ACCESS_KEY',
    'SVC_KMS_SECRET_KEY_FILE',
    'SVC_KMS_PROFILE_FILE',
    'SVC_KMS_ROLE_ARN',
    'SVC_KMS_WEB_IDENTITY_TOKEN_FILE',
    'SVC_KMS_STS_ENDPOINT',
  ],
  find: (config) => {
    if (config.SVC_KEY_PROVIDER !== 'cloud-kms') return undefined;
    const from = config.SVC_KMS_CREDENTIALS;
    const missing = (['SVC_KMS_ENDPOINT', ...kmsNeeds[from]] as const).filter(
      (name) => config[name] === undefined,
    );
    return missing.length === 0
      ? undefined
      : `SVC_KEY_PROVIDER=cloud-kms with SVC_KMS_CREDENTIALS=${from} needs ${missing.join(' and ')}`;
  },
};

const pkcs11IsWhole: Check = {
  reads: ['SVC_KEY_PROVIDER', 'SVC_PKCS11_MODULE', 'SVC_PKCS11_TOKENS', 'SVC_PKCS11_PIN_FILE'],
  find: (config) => {
    if (config.SVC_KEY_PROVIDER !== 'pkcs11') return undefined;
    const missing = [
      ...(config.SVC_PKCS11_MODULE === undefined ? ['SVC_PKCS11_MODULE'] : []),
      ...(config.SVC_PKCS11_TOKENS.length === 0 ? ['SVC_PKCS11_TOKENS'] : []),
      ...(config.SVC_PKCS11_PIN_FILE === undefined ? ['SVC_PKCS11_PIN_FILE'] : []),
    ];
    return missing.length === 0 ? undefined : `SVC_KEY_PROVIDER=pkcs11 needs ${missing.join(' and ')}`;
  },
};

export const keyChecks: readonly Check[] = [hsmHasKeys, transitIsWhole, kmsIsWhole, pkcs11IsWhole];
