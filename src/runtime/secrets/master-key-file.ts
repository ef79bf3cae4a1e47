/**
 * `SVC_MASTER_KEY_FILE`: the keys that seal secrets at rest, one base64 line each. The first one seals, the others open what was sealed
 * before. The file in the data directory is created at the first start. A file that a setting names is never created, because a new key
 * could not open what is stored.
 */
import { stat } from 'node:fs/promises';
import { masterKeys } from '../../config/values/keys.ts';
import { pathIn } from '../../config/values/network.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import type { Random } from '../../ports/random.ts';
import { StartRefusal } from '../start-refusal.ts';
import { keepFile, noSecretFile, readSecretFile, type SecretFile } from './secret-file.ts';

interface KeptKeys {
  readonly path: string;
  readonly dataDir: string | undefined;
  readonly random: Random;
  /** Whether the installation is new, so that a key may be created. */
  readonly mayMake: () => Promise<boolean>;
}

/** The keys in the file; in the data directory it is made when there is none. */
export async function keptMasterKeys({
  path,
  dataDir,
  random,
  mayMake,
}: KeptKeys): Promise<readonly Uint8Array[]> {
  if (isOurs(path, dataDir) && !(await exists(path))) {
    // Another process that starts makes the key before it makes anything else: then there is one by now.
    if (!(await mayMake()) && !(await exists(path)))
      throw new StartRefusal(
        `SVC_MASTER_KEY_FILE=${path} is missing, and there is data that was sealed under it; restore the key from its backup: another one opens nothing of it`,
        2,
      );
    await keepFile(path, `${Buffer.from(random.bytes(cipherKeyBytes)).toString('base64')}\n`);
  }
  const { value, faults } = await readMasterKeyFile(path);
  if (value === undefined) throw new StartRefusal(faults.join('; '), 2);
  return value;
}

const isOurs = (path: string, dataDir: string | undefined): boolean =>
  dataDir !== undefined && path === pathIn(dataDir, 'master.key');

/** Reads a master key file before the start; a file that is yet to be created is valid. */
export async function lookAtMasterKeyFile(
  path: string | undefined,
  dataDir: string | undefined,
): Promise<SecretFile<unknown>> {
  if (path === undefined || (isOurs(path, dataDir) && !(await exists(path)))) return noSecretFile;
  return readMasterKeyFile(path);
}

/** Any other fault shows when the file is read. */
const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );

/** The current key first. */
export const readMasterKeyFile = (path: string): Promise<SecretFile<readonly Uint8Array[]>> =>
  readSecretFile(path, { setting: 'SVC_MASTER_KEY_FILE', bytesMax: 64 * 1024, read: masterKeys });
