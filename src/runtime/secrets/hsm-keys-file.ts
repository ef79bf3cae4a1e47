/** Reads `SVC_HSM_KEYS_FILE`, the keys of the `local-hsm` key provider. */
import { type HsmKeys, hsmKeys } from '../../config/values/keys.ts';
import { StartRefusal } from '../start-refusal.ts';
import { readSecretFile, type SecretFile } from './secret-file.ts';

export const readHsmKeysFile = (path: string): Promise<SecretFile<HsmKeys>> =>
  readSecretFile(path, { setting: 'SVC_HSM_KEYS_FILE', bytesMax: 4 * 1024 * 1024, read: hsmKeys });

export async function readHsmKeys(path: string): Promise<HsmKeys> {
  const { value, faults } = await readHsmKeysFile(path);
  if (value === undefined) throw new StartRefusal(faults.join('; '), 2);
  return value;
}
