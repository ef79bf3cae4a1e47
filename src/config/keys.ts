/** The settings of key providers, and of the keys that they wrap. */
import { cloudKmsSettings } from './keys/cloud-kms.ts';
import { pkcs11Settings } from './keys/pkcs11.ts';
import { transitSettings } from './keys/transit.ts';
import { choice, duration, text, toggle } from './read/kinds.ts';
import { optional } from './read/setting.ts';
import { keyAccounts } from './values/keys.ts';
import { filePath } from './values/network.ts';

export const keySettings = {
  SVC_KEY_PROVIDER: optional(
    choice({
      of: ['local-hsm', 'transit', 'cloud-kms', 'pkcs11'],
      fallback: 'local-hsm',
      doc: 'The key provider of SSE-KMS and of the signing keys of buckets: keys from a file, a transit engine (OpenBao, Vault), the AWS KMS API, or a security module (PKCS#11). If unset, requests that need one are refused.',
    }),
  ),
  SVC_HSM_KEYS_FILE: optional(
    filePath(
      'The keys of `local-hsm`: a JSON object of `{"key": "<base64 of 32 bytes>", "accounts": ["<account>"]}` by key id, and of key ids by `alias/<name>`. `accounts` lists who may use the key, `"*"` means every account. A key without `accounts`, or given as its base64 alone, encrypts only if all credentials belong to one account.',
    ),
  ),
  ...transitSettings,
  ...cloudKmsSettings,
  ...pkcs11Settings,
  SVC_KEY_ACCOUNTS: {
    kind: 'JSON object',
    doc: 'The accounts that may use each key of a provider that is not `local-hsm`, by its id: `{"payroll": ["alice"], "shared": ["*"]}`. A key that is not listed encrypts only if all credentials belong to one account, or as SVC_KMS_DEFAULT_KEY_ID.',
    fallback: '{}',
    read: keyAccounts,
  },
  SVC_KEY_TIMEOUT: duration({
    fallback: '5s',
    range: ['100ms', '60s'],
    doc: 'How long a call to a key provider outside of this process may take, retries included.',
  }),
  SVC_KMS_DEFAULT_KEY_ID: optional(
    text({
      kind: 'key id',
      doc: 'The id, alias or ARN of the key for requests that name none; if unset, the key whose id is the name of the bucket. If it has no `accounts`, every account may encrypt with it.',
      pattern: /^[\x21-\x7e]{1,512}$/,
      otherwise: 'is not a key id: 1 to 512 printable ASCII characters without spaces',
    }),
  ),
  SVC_DEK_CACHE_TTL: duration({
    fallback: '5m',
    range: ['30s', '1h'],
    doc: 'How long a process caches a key that the key provider unwrapped: the signing keys of buckets, and object keys if the provider is outside of this process.',
  }),
  SVC_KEY_MAX_AGE: duration({
    fallback: '2160h',
    range: ['24h', '8760h'],
    doc: 'The age at which the signing key of a bucket expires: requests are refused with KeyExpired until it is rotated.',
  }),
  SVC_SSE_C_REQUIRE_TLS: toggle('true', 'Refuses customer keys (SSE-C) that are sent over plain HTTP.'),
} as const;
