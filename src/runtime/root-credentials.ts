/**
 * The root key that is created at the first start when no credentials are configured: kept in
 * the data directory where there is one, or only in memory.
 */
import { unlinkSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { readCredentials } from '../config/credentials.ts';
import type { Credential } from '../ports/credentials.ts';
import type { Random } from '../ports/random.ts';
import { keepFile, readSecretFile, type SecretFile } from './secret-file.ts';
import { StartRefusal } from './start-refusal.ts';

/** 32 letters each, so that five random bits are one character, and nothing that a shell could read. */
const accessAlphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const secretAlphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const draw = (random: Random, alphabet: string, length: number): string =>
  [...random.bytes(length)].map((byte) => alphabet[byte & 31]).join('');

/** 200 bits of secret. */
export const mintRootCredential = (random: Random): Credential => ({
  accessKey: `SL${draw(random, accessAlphabet, 18)}`,
  secretKey: draw(random, secretAlphabet, 40),
  owner: 'root',
  displayName: 'root',
  root: true,
  operator: true,
});

export const rootCredentialFile = (dataDir: string): string => join(dataDir, 'root-credentials.json');

/** A mark beside the key until a start has printed it. No mark means printed, because older directories have none. */
const unshownMark = (path: string): string => `${path}.unshown`;

/** Whether the key was never printed; true for exactly one caller, also among processes. */
export function takeUnshown(path: string): boolean {
  try {
    unlinkSync(unshownMark(path));
    return true;
  } catch {
    // There is no mark, or it belongs to another user: do not print the secret, the banner names its file.
    return false;
  }
}

/** The root key of a data directory, created if it does not exist. Processes that start together get the same one. */
export async function storedRootCredential(dataDir: string, random: Random): Promise<Credential> {
  const path = rootCredentialFile(dataDir);
  const stored = await readStored(path);
  if (stored !== undefined) return stored;
  const credential = mintRootCredential(random);
  if (await keepFile(path, `${JSON.stringify([credential], undefined, 2)}\n`)) {
    await writeFile(unshownMark(path), '', { mode: 0o600 });
    return credential;
  }
  const first = await readStored(path);
  if (first === undefined) throw new Error(`${path} vanished while it was read`);
  return first;
}

async function readStored(path: string): Promise<Credential | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const read = readCredentials(text);
  const faults = 'faults' in read ? read.faults : [];
  const credential = 'value' in read ? read.value[0] : undefined;
  if (credential === undefined) {
    const cure = 'restore it, or remove it to mint a new root key';
    throw new StartRefusal(`${resolve(path)} ${faults.join('; ')}; ${cure}`, 2);
  }
  return credential;
}

// Reads `SVC_CREDENTIALS_FILE`: faults by position, never a secret.

export const readCredentialsFile = (path: string): Promise<SecretFile<readonly Credential[]>> =>
  readSecretFile(path, {
    setting: 'SVC_CREDENTIALS_FILE',
    bytesMax: 16 * 1024 * 1024,
    read: readCredentials,
  });
