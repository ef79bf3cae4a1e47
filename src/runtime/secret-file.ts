/** Files of secrets, and directories for them. Errors about what a setting names say the place in the file, never its contents. */
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type HsmKeys, hsmKeys, masterKeys } from '../config/keys.ts';
import { pathIn } from '../config/network.ts';
import type { Read } from '../config/setting.ts';
import { cipherKeyBytes } from '../ports/cryptography.ts';
import type { Random } from '../ports/random.ts';
import { StartRefusal } from './start-refusal.ts';

export interface SecretFile<T> {
  /** Absent where there is a fault. */
  readonly value?: T;
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

export interface SecretFileKind<T> {
  /** The setting that names the file. */
  readonly setting: string;
  readonly bytesMax: number;
  readonly read: (text: string) => Read<T>;
}

export async function readSecretFile<T>(
  path: string,
  { setting, bytesMax, read }: SecretFileKind<T>,
): Promise<SecretFile<T>> {
  const name = `${setting}=${path}`;
  const refused = (...reasons: readonly string[]): SecretFile<T> => ({
    faults: reasons.map((reason) => `${name} ${reason}`),
    warnings: [],
  });
  try {
    const found = await stat(path);
    if (found.isDirectory()) return refused('is a directory');
    if (found.size > bytesMax) return refused(`is larger than ${bytesMax} bytes`);
    const result = read(await readFile(path, 'utf8'));
    if ('faults' in result) return refused(...result.faults);
    // Group-readable is how container platforms mount secrets; world-readable is always a mistake.
    const open = process.platform !== 'win32' && (found.mode & 0o004) !== 0;
    return { value: result.value, faults: [], warnings: open ? [`${name} is readable by everyone`] : [] };
  } catch (error) {
    return refused(`cannot be read: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
  }
}

/** The result for a setting that is not set. */
export const noSecretFile: SecretFile<never> = { faults: [], warnings: [] };

// A secret's file that is written once, by the process that comes first; readers never see half of it.

/**
 * Writes the whole file under a temporary name, then links it: the first link wins, and no reader sees half of it.
 * @returns whether this call wrote it; false where it existed already
 */
export async function keepFile(path: string, text: string): Promise<boolean> {
  await makePrivateDirectory(dirname(path));
  const draft = `${path}.${randomUUID()}`;
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await link(draft, path);
    await syncDirectory(dirname(path));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await file.close().catch(() => {});
    await rm(draft, { force: true });
  }
}

/** A name is on the disk only when its directory is. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Reads `SVC_HSM_KEYS_FILE`, the keys of the `local-hsm` key provider. */
export const readHsmKeysFile = (path: string): Promise<SecretFile<HsmKeys>> =>
  readSecretFile(path, { setting: 'SVC_HSM_KEYS_FILE', bytesMax: 4 * 1024 * 1024, read: hsmKeys });

export async function readHsmKeys(path: string): Promise<HsmKeys> {
  const { value, faults } = await readHsmKeysFile(path);
  if (value === undefined) throw new StartRefusal(faults.join('; '), 2);
  return value;
}

interface StoredKeys {
  readonly path: string;
  readonly dataDir: string | undefined;
  readonly random: Random;
  /** Whether the installation is new, so that a key may be created. */
  readonly mayMake: () => Promise<boolean>;
}

/** The keys in the file; in the data directory it is made when there is none. */
export async function storedMasterKeys({
  path,
  dataDir,
  random,
  mayMake,
}: StoredKeys): Promise<readonly Uint8Array[]> {
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

/**
 * Reads `SVC_MASTER_KEY_FILE` before the start: the keys that seal secrets at rest, one base64 line each. The first one seals, the others
 * open what was sealed before. The file in the data directory is created at the first start, so one that is missing there is valid. A file
 * that a setting names is never created, because a new key could not open what is stored.
 */
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

/** That only this user may enter, with its parents. A `mkdir` that is recursive answers ENOENT on a read-only file system. @throws what the file system answers */
export async function makePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 }).catch(async (cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT' || dirname(path) === path) throw cause;
    await makePrivateDirectory(dirname(path));
    await mkdir(path, { mode: 0o700 });
  });
}
