/**
 * The key providers, their settings, and those of the keys that they wrap. To add one: a row and its settings here, its row in
 * `runtime/compose/open-keys.ts` and its name in `protocol/admin/storage.ts`, where the compiler asks for them, and a file in
 * `backends/keys`. Faults of a file of keys name a line, never a byte of a key.
 */

import type { OptionalPackage } from '../base/optional-packages.ts';
import { fromBase64 } from '../base/text/base64.ts';
import { cipherKeyBytes } from '../ports/cryptography.ts';
import { awsApi } from '../ports/trace.ts';
import { choice, duration, integer, list, text, toggle } from './kinds.ts';
import { endpoint, filePath } from './network.ts';
import { fault, optional, type Read, type ValueOf, value } from './setting.ts';
import { keyPattern, regionPattern } from './upstreams.ts';

// The settings of `SVC_KEY_PROVIDER=cloud-kms`.

const cloudKmsSettings = {
  SVC_KMS_ENDPOINT: optional(
    endpoint('The endpoint of the AWS KMS API, such as https://kms.eu-central-1.amazonaws.com.'),
  ),
  SVC_KMS_REGION: text({
    kind: 'region name',
    fallback: 'us-east-1',
    pattern: regionPattern,
    doc: 'The region that requests to the key-management service are signed for.',
  }),
  SVC_KMS_CREDENTIALS: choice({
    of: ['static', 'profile', 'imds', 'web-identity'],
    fallback: 'static',
    doc: 'Where the credentials for the AWS KMS API come from: settings, a profile of a credentials file, the metadata service of the machine, or a role that a token of a workload assumes.',
  }),
  SVC_KMS_ACCESS_KEY: optional(
    text({ kind: 'access key', pattern: keyPattern, doc: 'The access key of `SVC_KMS_CREDENTIALS=static`.' }),
  ),
  SVC_KMS_SECRET_KEY_FILE: optional(filePath('A file with the secret key of SVC_KMS_ACCESS_KEY.')),
  SVC_KMS_PROFILE: text({
    kind: 'profile name',
    fallback: 'default',
    pattern: /^[\w.-]{1,128}$/,
    doc: 'The profile of `SVC_KMS_CREDENTIALS=profile`.',
  }),
  SVC_KMS_PROFILE_FILE: optional(
    filePath('The credentials file of `SVC_KMS_CREDENTIALS=profile`; it is read again every five minutes.'),
  ),
  SVC_KMS_IMDS_ENDPOINT: {
    ...endpoint('The metadata service of `SVC_KMS_CREDENTIALS=imds`; SVC_EGRESS_ALLOW must contain it.'),
    fallback: 'http://169.254.169.254',
  },
  SVC_KMS_ROLE_ARN: optional(
    text({
      kind: 'ARN of a role',
      pattern: /^arn:[\x21-\x7e]{1,512}$/,
      doc: 'The role of `SVC_KMS_CREDENTIALS=web-identity`.',
    }),
  ),
  SVC_KMS_WEB_IDENTITY_TOKEN_FILE: optional(
    filePath('The token of `SVC_KMS_CREDENTIALS=web-identity`; it is read whenever the role is assumed.'),
  ),
  SVC_KMS_STS_ENDPOINT: optional(
    endpoint(
      'The STS endpoint of `SVC_KMS_CREDENTIALS=web-identity`, such as https://sts.eu-central-1.amazonaws.com.',
    ),
  ),
  SVC_KMS_CA_FILE: optional(
    filePath(
      'PEM certificates that are trusted for SVC_KMS_ENDPOINT and SVC_KMS_STS_ENDPOINT, not the built-in ones.',
    ),
  ),
} as const;

// The settings of `SVC_KEY_PROVIDER=pkcs11`.

const pkcs11Settings = {
  SVC_PKCS11_MODULE: optional(
    filePath('The PKCS#11 module of the security module, such as /usr/lib/softhsm/libsofthsm2.so.'),
  ),
  SVC_PKCS11_TOKENS: list({
    kind: 'comma list of token labels',
    doc: 'The tokens with the keys; a key is used in the first that is present and has it.',
    item: (input) =>
      /^[\x20-\x7e]{1,32}$/.test(input) ? value(input) : fault('is not a label of 1 to 32 ASCII characters'),
  }),
  SVC_PKCS11_PIN_FILE: optional(filePath('A file with the user PIN of the tokens.')),
  SVC_PKCS11_SESSIONS: integer({
    fallback: '2',
    range: ['1', '64'],
    doc: 'How many sessions a process opens with each token: as many calls run at a time, on threads that Node has for files too (UV_THREADPOOL_SIZE).',
  }),
} as const;

// The settings of `SVC_KEY_PROVIDER=transit`.

const path = {
  pattern: /^[A-Za-z0-9_-]{1,64}(\/[A-Za-z0-9_-]{1,64}){0,7}$/,
  otherwise: 'is not a path of letters, digits, "-", "_" and "/", such as transit',
} as const;
const name = {
  pattern: /^[\x21-\x7e]{1,512}$/,
  otherwise: 'is not 1 to 512 printable ASCII characters without spaces',
} as const;

const transitSettings = {
  SVC_TRANSIT_ADDR: optional(
    endpoint('The address of OpenBao or Vault, such as https://bao.example.com:8200.'),
  ),
  SVC_TRANSIT_MOUNT: text({
    kind: 'path',
    fallback: 'transit',
    doc: 'Where the transit engine is mounted.',
    ...path,
  }),
  SVC_TRANSIT_NAMESPACE: optional(
    text({ kind: 'path', doc: 'The namespace of the engine and of the login.', ...path }),
  ),
  SVC_TRANSIT_AUTH: choice({
    of: ['token', 'approle', 'kubernetes'],
    fallback: 'token',
    doc: 'How this service logs in: with a token from a file, as an AppRole, or as a Kubernetes service account.',
  }),
  SVC_TRANSIT_AUTH_MOUNT: optional(
    text({
      kind: 'path',
      doc: 'Where the auth method is mounted; if unset, `approle` or `kubernetes`.',
      ...path,
    }),
  ),
  SVC_TRANSIT_TOKEN_FILE: optional(
    filePath('A file with the token of `SVC_TRANSIT_AUTH=token`; it is read again when the token ends.'),
  ),
  SVC_TRANSIT_ROLE_ID: optional(
    text({ kind: 'role id', doc: 'The role id of `SVC_TRANSIT_AUTH=approle`.', ...name }),
  ),
  SVC_TRANSIT_SECRET_ID_FILE: optional(
    filePath('A file with the secret id of `SVC_TRANSIT_AUTH=approle`; it is read at each login.'),
  ),
  SVC_TRANSIT_ROLE: optional(
    text({ kind: 'role', doc: 'The role of `SVC_TRANSIT_AUTH=kubernetes`.', ...name }),
  ),
  SVC_TRANSIT_JWT_FILE: {
    ...filePath(
      'The token of the service account, for `SVC_TRANSIT_AUTH=kubernetes`; it is read at each login.',
    ),
    fallback: '/var/run/secrets/kubernetes.io/serviceaccount/token',
  },
  SVC_TRANSIT_CA_FILE: optional(
    filePath('PEM certificates that are trusted for SVC_TRANSIT_ADDR, not the built-in ones.'),
  ),
} as const;

const localHsmSettings = {
  SVC_HSM_KEYS_FILE: optional(
    filePath(
      'The keys of `local-hsm`: a JSON object of `{"key": "<base64 of 32 bytes>", "accounts": ["<account>"]}` by key id, and of key ids by `alias/<name>`. `accounts` lists who may use the key, `"*"` means every account. A key without `accounts`, or as its base64 alone, encrypts only if all credentials belong to one account.',
    ),
  ),
} as const;

// The key providers.

const providerSettings = {
  ...localHsmSettings,
  ...transitSettings,
  ...cloudKmsSettings,
  ...pkcs11Settings,
} as const;
type ProviderSetting = keyof typeof providerSettings;

interface KeyProviderRow {
  /** The settings without which it cannot be opened. */
  readonly needs: readonly ProviderSetting[];
  /** The setting that says how it logs in, and what each way needs beside them. */
  readonly login?: {
    readonly by: ProviderSetting;
    readonly needs: Readonly<Record<string, readonly ProviderSetting[]>>;
  };
  /** Its keys have versions, so what they wrapped can be wrapped again. */
  readonly hasVersions?: true;
  /** The settings whose files must be readable at the start, beside those that are read then. */
  readonly files?: readonly ProviderSetting[];
  readonly packages?: readonly OptionalPackage[];
  /** What traces call it, where that is not its name here. */
  readonly system?: string;
  /** The setting that says where requests to it go. */
  readonly address?: 'SVC_TRANSIT_ADDR' | 'SVC_KMS_ENDPOINT';
}

type TransitAuth = ValueOf<typeof transitSettings.SVC_TRANSIT_AUTH>;
type KmsCredentials = ValueOf<typeof cloudKmsSettings.SVC_KMS_CREDENTIALS>;

const rows = {
  'local-hsm': { needs: ['SVC_HSM_KEYS_FILE'] },
  transit: {
    needs: ['SVC_TRANSIT_ADDR'],
    login: {
      by: 'SVC_TRANSIT_AUTH',
      needs: {
        token: ['SVC_TRANSIT_TOKEN_FILE'],
        approle: ['SVC_TRANSIT_ROLE_ID', 'SVC_TRANSIT_SECRET_ID_FILE'],
        kubernetes: ['SVC_TRANSIT_ROLE'],
      } satisfies Readonly<Record<TransitAuth, readonly ProviderSetting[]>>,
    },
    hasVersions: true,
    files: ['SVC_TRANSIT_CA_FILE'],
    system: 'vault',
    address: 'SVC_TRANSIT_ADDR',
  },
  'cloud-kms': {
    needs: ['SVC_KMS_ENDPOINT'],
    login: {
      by: 'SVC_KMS_CREDENTIALS',
      needs: {
        static: ['SVC_KMS_ACCESS_KEY', 'SVC_KMS_SECRET_KEY_FILE'],
        profile: ['SVC_KMS_PROFILE_FILE'],
        imds: [],
        'web-identity': ['SVC_KMS_ROLE_ARN', 'SVC_KMS_WEB_IDENTITY_TOKEN_FILE', 'SVC_KMS_STS_ENDPOINT'],
      } satisfies Readonly<Record<KmsCredentials, readonly ProviderSetting[]>>,
    },
    hasVersions: true,
    files: ['SVC_KMS_CA_FILE'],
    system: awsApi,
    address: 'SVC_KMS_ENDPOINT',
  },
  pkcs11: {
    needs: ['SVC_PKCS11_MODULE', 'SVC_PKCS11_TOKENS', 'SVC_PKCS11_PIN_FILE'],
    hasVersions: true,
    files: ['SVC_PKCS11_MODULE', 'SVC_PKCS11_PIN_FILE'],
    packages: ['koffi'],
  },
} as const satisfies Readonly<Record<string, KeyProviderRow>>;

export type KeyProviderName = keyof typeof rows;

export const keyProviders: Readonly<Record<KeyProviderName, KeyProviderRow>> = rows;
// The cast: the keys of a literal.
export const keyProviderNames = Object.keys(rows) as readonly KeyProviderName[];

export const keySettings = {
  SVC_KEY_PROVIDER: optional(
    choice({
      of: keyProviderNames,
      fallback: 'local-hsm',
      doc: 'The provider of the keys for SSE-KMS and for signing keys of buckets: a file, a transit engine (OpenBao, Vault), the AWS KMS API, or a security module (PKCS#11). Unset: requests that need one are refused.',
    }),
  ),
  ...providerSettings,
  SVC_KEY_ACCOUNTS: {
    kind: 'JSON object',
    doc: 'The accounts that may use each key of a provider that is not `local-hsm`, by its id: `{"payroll": ["alice"], "shared": ["*"]}`. A key that is not listed encrypts only if all credentials belong to one account, or as SVC_KMS_DEFAULT_KEY_ID.',
    fallback: '{}',
    read: keyAccounts,
  },
  SVC_KEY_TIMEOUT: duration({
    fallback: '5s',
    range: ['100ms', '60s'],
    doc: 'How long a call to a key provider outside of this process may take, with its retries and probes.',
  }),
  SVC_KMS_DEFAULT_KEY_ID: optional(
    text({
      kind: 'key id',
      doc: 'The id, alias or ARN of the key for requests that name none; unset: the key whose id is the bucket name. Without `accounts`, every account may encrypt with it.',
      pattern: /^[\x21-\x7e]{1,512}$/,
      otherwise: 'is not a key id: 1 to 512 printable ASCII characters without spaces',
    }),
  ),
  SVC_DEK_CACHE_TTL: duration({
    fallback: '5m',
    range: ['30s', '1h'],
    doc: 'How long a process caches a key that the provider unwrapped: signing keys of buckets, and object keys if the provider is outside of this process.',
  }),
  SVC_KEY_MAX_AGE: duration({
    fallback: '2160h',
    range: ['24h', '8760h'],
    doc: 'The age at which the signing key of a bucket expires: requests are refused with KeyExpired until it is rotated.',
  }),
  SVC_MASTER_KEYS_RETIRED: list({
    kind: 'list of names of master keys',
    doc: 'Former master keys that SVC_MASTER_KEY_FILE lacks, each by the name that a refused start prints. What they sealed cannot be opened.',
    item: (input) =>
      /^[0-9a-f]{16}$/.test(input) ? value(input) : fault('is not a name of 16 hexadecimal digits'),
  }),
  SVC_SSE_C_REQUIRE_TLS: toggle('true', 'Refuses customer keys (SSE-C) that are sent over plain HTTP.'),
} as const;

const keysMax = 64;
const hsmKeysMax = 10_000;

function parseKey(text: unknown): Uint8Array | undefined {
  if (typeof text !== 'string' || !/^[A-Za-z0-9+/]{43}=$/.test(text)) return undefined;
  return fromBase64(text);
}

/** The keys of `SVC_MASTER_KEY_FILE`, one on each line. */
export function masterKeys(text: string): Read<readonly Uint8Array[]> {
  const keys: Uint8Array[] = [];
  const faults: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    const key = parseKey(trimmed);
    if (key === undefined) faults.push(`line ${index + 1} is not the base64 of ${cipherKeyBytes} bytes`);
    else keys.push(key);
  }
  if (faults.length > 0) return fault(...faults);
  if (keys.length === 0)
    return fault(
      'has no key; restore the file from its backup (`openssl rand -base64 32` makes the first key of an installation)',
    );
  return keys.length > keysMax ? fault(`has more than ${keysMax} keys`) : value(keys);
}

/** The keys of `SVC_HSM_KEYS_FILE` by id, the ids by alias, and by id the accounts of those keys that name them. */
export interface HsmKeys {
  readonly keys: ReadonlyMap<string, Uint8Array>;
  readonly aliases: ReadonlyMap<string, string>;
  readonly accounts: ReadonlyMap<string, readonly string[]>;
}

const keyIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const aliasPattern = /^alias\/[A-Za-z0-9/_.-]{1,120}$/;

const accountPattern = /^(?:\*|[A-Za-z0-9][A-Za-z0-9._@-]{0,127})$/;
const accountsMax = 1_000;
/** A list of account ids, or of `*` for every account. */
export const isAccounts = (input: unknown): input is readonly string[] =>
  Array.isArray(input) &&
  input.length <= accountsMax &&
  input.every((each) => typeof each === 'string' && accountPattern.test(each));

const providedKeyPattern = /^[\x21-\x7e]{1,512}$/;

/** `SVC_KEY_ACCOUNTS`: `{ "<key id>": ["<account>"] }`. */
function keyAccounts(text: string): Read<ReadonlyMap<string, readonly string[]>> {
  const entries = parseEntries(text);
  if (entries === undefined) return fault('is not a JSON object of lists of accounts by key id');
  if (entries.length > hsmKeysMax) return fault(`has more than ${hsmKeysMax} keys`);
  const wrong = entries.find(([id, names]) => !providedKeyPattern.test(id) || !isAccounts(names));
  if (wrong !== undefined)
    return fault(
      `: ${JSON.stringify(wrong[0])} must be a key id, with a list of accounts such as ["alice"] or ["*"]`,
    );
  return value(new Map(entries as readonly (readonly [string, readonly string[]])[]));
}

/** An entry: the base64 of a key, or `{ "key": "<base64>", "accounts": ["<account>"] }`. */
function parseEntry(input: unknown): { readonly key?: unknown; readonly accounts?: unknown } | undefined {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return { key: input };
  const isKnown = Object.keys(input).every((name) => name === 'key' || name === 'accounts');
  return isKnown ? input : undefined;
}

/** A JSON object: `{ "<id>": "<base64>" or { "key": "<base64>", "accounts": ["<account>"] }, "alias/<name>": "<id>" }`. */
export function hsmKeys(text: string): Read<HsmKeys> {
  const entries = parseEntries(text);
  if (entries === undefined) return fault('is not a JSON object of key ids and keys');
  if (entries.length > hsmKeysMax) return fault(`has more than ${hsmKeysMax} keys`);
  const keys = new Map<string, Uint8Array>();
  const aliases = new Map<string, string>();
  const accounts = new Map<string, readonly string[]>();
  const faults: string[] = [];
  for (const [name, input] of entries) {
    if (aliasPattern.test(name)) {
      if (typeof input === 'string') aliases.set(name, input);
      else faults.push(`: "${name}" is not the id of a key`);
    } else if (!keyIdPattern.test(name)) faults.push(`: "${name.slice(0, 128)}" cannot be the id of a key`);
    else {
      const entry = parseEntry(input);
      const key = parseKey(entry?.key);
      if (entry === undefined) faults.push(`: "${name}" has a field that is neither "key" nor "accounts"`);
      else if (key === undefined) faults.push(`: "${name}" is not the base64 of ${cipherKeyBytes} bytes`);
      else keys.set(name, key);
      if (isAccounts(entry?.accounts)) accounts.set(name, entry.accounts);
      else if (entry?.accounts !== undefined)
        faults.push(
          `: the accounts of "${name}" are not a list of at most ${accountsMax} account ids or "*"`,
        );
    }
  }
  for (const [alias, id] of aliases)
    if (!keys.has(id)) faults.push(`: "${alias}" stands for no key of this file`);
  if (faults.length > 0) return fault(...faults);
  return keys.size === 0 ? fault('has no key') : value({ keys, aliases, accounts });
}

function parseEntries(text: string): [string, unknown][] | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? Object.entries(parsed)
      : undefined;
  } catch {
    return undefined;
  }
}
