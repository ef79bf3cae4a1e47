/** Reads a file of secrets that a setting names: errors name the place in the file, never its contents. */
import { readFile, stat } from 'node:fs/promises';
import type { Read } from '../../config/read/setting.ts';

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
