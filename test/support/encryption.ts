/** The kinds of encryption as request headers, and keys for them. */
import { createHash } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SettingName } from '../../src/config.ts';

export type Headers = Readonly<Record<string, string>>;

export const keyOf = (seed: number): Buffer => Buffer.alloc(32, seed);
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const md5Of = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('base64');

/** The headers with a customer's key. */
export function customer(seed = 1, whose: '' | 'copy-source-' = ''): Headers {
  const key = keyOf(seed);
  const prefix = `*-${whose}server-side-encryption-customer`;
  return {
    [`${prefix}-algorithm`]: 'AES256',
    [`${prefix}-key`]: base64(key),
    [`${prefix}-key-MD5`]: md5Of(key),
  };
}

export const service: Headers = { '*-server-side-encryption': 'AES256' };
export const provider = (keyId?: string, more: Headers = {}): Headers => ({
  '*-server-side-encryption': 'aws:kms',
  ...(keyId === undefined ? {} : { '*-server-side-encryption-aws-kms-key-id': keyId }),
  ...more,
});

/** One kind of encryption: the headers of a write, those that each read and part needs, and those of replies. */
export interface Mode {
  readonly name: string;
  readonly write: Headers;
  readonly read: Headers;
  /** The headers that a copy from such an object needs. */
  readonly source: Headers;
  readonly shown: Headers;
  readonly hidesMd5: boolean;
}

export const modes: readonly Mode[] = [
  { name: 'SSE-S3', write: service, read: {}, source: {}, shown: service, hidesMd5: false },
  {
    name: 'SSE-KMS',
    write: provider('alias/main'),
    read: {},
    source: {},
    shown: provider('first'),
    hidesMd5: true,
  },
  {
    name: 'SSE-C',
    write: customer(),
    read: customer(),
    source: customer(1, 'copy-source-'),
    shown: {
      '*-server-side-encryption-customer-algorithm': 'AES256',
      '*-server-side-encryption-customer-key-MD5': md5Of(keyOf(1)),
    },
    hidesMd5: true,
  },
];

export const hsmKeys = {
  first: { key: base64(keyOf(101)), accounts: ['*'] },
  second: { key: base64(keyOf(102)), accounts: ['*'] },
  'alias/main': 'first',
};

/** One key file for all worlds of a process of tests. */
let keyFile: Promise<string> | undefined;
export async function writeKeyFile(keys: object = hsmKeys): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), 'sluice-keys-')), 'keys.json');
  await writeFile(file, JSON.stringify(keys), { mode: 0o600 });
  return file;
}

/** Settings under which every mode works: a key file, and customers' keys over plain HTTP. */
export async function encryptingSettings(): Promise<Partial<Record<SettingName, string>>> {
  keyFile ??= writeKeyFile();
  return {
    SVC_KEY_PROVIDER: 'local-hsm',
    SVC_HSM_KEYS_FILE: await keyFile,
    SVC_SSE_C_REQUIRE_TLS: 'false',
  };
}
