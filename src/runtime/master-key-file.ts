/**
 * `SVC_MASTER_KEY_FILE`: the keys that secrets at rest are sealed under (design §7.12), a base64 line each. The first
 * one seals, the others open what was sealed before. The one in the data directory is made at the first start; a file
 * that somebody named is never made for them, because a new key would open nothing that is stored.
 */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathIn } from '../config/network.ts';
import { cipherKeyBytes } from '../ports/cipher.ts';
import type { Random } from '../ports/random.ts';
import { keepFile } from './kept-file.ts';
import { StartRefusal } from './start-refusal.ts';

const keysMax = 64;
const fileBytesMax = 64 * 1024;

export interface MasterKeyFile {
  /** The current one first. */
  readonly keys: readonly Uint8Array[];
  /** What is wrong, without a byte of any key. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

interface KeptKeys {
  readonly path: string;
  readonly dataDir: string | undefined;
  readonly random: Random;
}

/** The keys in the file; in the data directory it is made when there is none. */
export async function keptMasterKeys({ path, dataDir, random }: KeptKeys): Promise<readonly Uint8Array[]> {
  if (isOurs(path, dataDir) && !(await exists(path)))
    await keepFile(path, `${toBase64(random.bytes(cipherKeyBytes))}\n`);
  const { keys, faults } = await readMasterKeyFile(path);
  if (faults.length > 0) throw new StartRefusal(faults.join('; '), 2);
  return keys;
}

const isOurs = (path: string, dataDir: string | undefined): boolean =>
  dataDir !== undefined && path === pathIn(dataDir, 'master.key');

const toBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** What is wrong with a master key file, before anything is started; one that is yet to be made is fine. */
export async function masterKeyFileFaults(
  path: string | undefined,
  dataDir: string | undefined,
): Promise<Omit<MasterKeyFile, 'keys'>> {
  if (path === undefined) return { faults: [], warnings: [] };
  if (isOurs(path, dataDir) && !(await exists(path))) return { faults: [], warnings: [] };
  return readMasterKeyFile(path);
}

/** Whatever else is wrong with it, reading it tells. */
const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );

export async function readMasterKeyFile(path: string): Promise<MasterKeyFile> {
  const name = `SVC_MASTER_KEY_FILE=${resolve(path)}`;
  const refused = (...reasons: readonly string[]): MasterKeyFile => ({
    keys: [],
    faults: reasons.map((reason) => `${name} ${reason}`),
    warnings: [],
  });
  try {
    const found = await stat(path);
    if (!found.isFile()) return refused('is not a file');
    if (found.size > fileBytesMax) return refused(`is larger than ${fileBytesMax} bytes`);
    const lines = (await readFile(path, 'utf8')).split('\n').map((line) => line.trim());
    const keys: Uint8Array[] = [];
    const bad: string[] = [];
    lines.forEach((line, index) => {
      if (line === '' || line.startsWith('#')) return;
      const key = keyOf(line);
      if (key === undefined) bad.push(`line ${index + 1} is not the base64 of ${cipherKeyBytes} bytes`);
      else keys.push(key);
    });
    if (bad.length > 0) return refused(...bad);
    if (keys.length === 0) return refused('has no key; `openssl rand -base64 32` makes one');
    if (keys.length > keysMax) return refused(`has more than ${keysMax} keys`);
    const open = process.platform !== 'win32' && (found.mode & 0o004) !== 0;
    return { keys, faults: [], warnings: open ? [`${name} is readable by everyone`] : [] };
  } catch (error) {
    return refused(`cannot be read: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
  }
}

function keyOf(line: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/]{43}=$/.test(line)) return undefined;
  return Uint8Array.from(Buffer.from(line, 'base64'));
}
