/** Reads `SVC_CREDENTIALS_FILE`: faults by position, never a secret. */
import { readFile, stat } from 'node:fs/promises';
import { readCredentials } from '../config/credentials.ts';
import type { Credential } from '../ports/credentials.ts';

const fileBytesMax = 16 * 1024 * 1024;

export interface CredentialsFile {
  readonly credentials: readonly Credential[];
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

export async function readCredentialsFile(path: string): Promise<CredentialsFile> {
  const name = `SVC_CREDENTIALS_FILE=${path}`;
  const refused = (reason: string): CredentialsFile => ({
    credentials: [],
    faults: [`${name} ${reason}`],
    warnings: [],
  });
  try {
    const found = await stat(path);
    if (found.isDirectory()) return refused('is a directory');
    if (found.size > fileBytesMax) return refused(`is larger than ${fileBytesMax} bytes`);
    const read = readCredentials(await readFile(path, 'utf8'));
    if ('faults' in read)
      return { credentials: [], faults: read.faults.map((why) => `${name} ${why}`), warnings: [] };
    // Group-readable is how container platforms mount secrets; the world is nobody's intention.
    const open = process.platform !== 'win32' && (found.mode & 0o004) !== 0;
    return { credentials: read.value, faults: [], warnings: open ? [`${name} is readable by everyone`] : [] };
  } catch (error) {
    return refused(`cannot be read: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
  }
}
