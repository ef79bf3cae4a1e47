/** Reads `SVC_CREDENTIALS_FILE`: faults by position, never a secret. */
import { readCredentials } from '../../config/values/credentials.ts';
import type { Credential } from '../../ports/crypto/credentials.ts';
import { readSecretFile, type SecretFile } from './secret-file.ts';

export const readCredentialsFile = (path: string): Promise<SecretFile<readonly Credential[]>> =>
  readSecretFile(path, {
    setting: 'SVC_CREDENTIALS_FILE',
    bytesMax: 16 * 1024 * 1024,
    read: readCredentials,
  });
