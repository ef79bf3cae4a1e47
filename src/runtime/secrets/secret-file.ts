/** Reads a file of secrets that a setting names: errors name the place in the file, never its contents. */

import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Read } from '../../config/setting.ts';

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
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
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
