/** A server with encryption: TLS, which SSE-C requires, and a key file for SSE-KMS. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hsmKeys } from '../support/encryption.ts';
import { one } from '../support/server-tls.ts';
import type { ServerOptions } from './drivers.ts';

export function encrypting(): ServerOptions {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-encrypting-'));
  const write = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const caFile = write('cert.pem', one.cert);
  const settings = {
    SVC_TLS_CERT_FILE: caFile,
    SVC_TLS_KEY_FILE: write('key.pem', one.key),
    SVC_KEY_PROVIDER: 'local-hsm',
    SVC_HSM_KEYS_FILE: write('hsm-keys.json', JSON.stringify(hsmKeys)),
  };
  return { settings, caFile };
}
