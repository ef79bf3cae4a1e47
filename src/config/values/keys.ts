/** Reads files of keys: each fault by line or name, never a byte of a key. */
import { fromBase64 } from '../../base/text/base64.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import { fault, type Read, value } from '../setting.ts';

const keysMax = 64;
const hsmKeysMax = 10_000;

function parseKey(text: unknown): Uint8Array | undefined {
  if (typeof text !== 'string' || !/^[A-Za-z0-9+/]{43}=$/.test(text)) return undefined;
  return fromBase64(text);
}

/** The keys of `SVC_MASTER_KEY_FILE`, one on each line. */
export function masterKeys(text: string): Read<readonly Uint8Array[]> {
  const keys: Uint8Array[] = [];
  const faults: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    const key = parseKey(trimmed);
    if (key === undefined) faults.push(`line ${index + 1} is not the base64 of ${cipherKeyBytes} bytes`);
    else keys.push(key);
  }
  if (faults.length > 0) return fault(...faults);
  if (keys.length === 0) return fault('has no key; `openssl rand -base64 32` makes one');
  return keys.length > keysMax ? fault(`has more than ${keysMax} keys`) : value(keys);
}

/** The keys of `SVC_HSM_KEYS_FILE` by id, the ids by alias, and by id the accounts of those keys that name them. */
export interface HsmKeys {
  readonly keys: ReadonlyMap<string, Uint8Array>;
  readonly aliases: ReadonlyMap<string, string>;
  readonly accounts: ReadonlyMap<string, readonly string[]>;
}

const keyIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const aliasPattern = /^alias\/[A-Za-z0-9/_.-]{1,120}$/;

const accountPattern = /^(?:\*|[A-Za-z0-9][A-Za-z0-9._@-]{0,127})$/;
const accountsMax = 1_000;
/** A list of account ids, or of `*` for every account. */
export const isAccounts = (given: unknown): given is readonly string[] =>
  Array.isArray(given) &&
  given.length <= accountsMax &&
  given.every((each) => typeof each === 'string' && accountPattern.test(each));

const providedKeyPattern = /^[\x21-\x7e]{1,512}$/;

/** `SVC_KEY_ACCOUNTS`: `{ "<key id>": ["<account>"] }`. */
export function keyAccounts(text: string): Read<ReadonlyMap<string, readonly string[]>> {
  const entries = parseEntries(text);
  if (entries === undefined) return fault('is not a JSON object of lists of accounts by key id');
  if (entries.length > hsmKeysMax) return fault(`has more than ${hsmKeysMax} keys`);
  const wrong = entries.find(([id, names]) => !providedKeyPattern.test(id) || !isAccounts(names));
  if (wrong !== undefined)
    return fault(
      `: ${JSON.stringify(wrong[0])} must be a key id, with a list of accounts such as ["alice"] or ["*"]`,
    );
  return value(new Map(entries as readonly (readonly [string, readonly string[]])[]));
}

/** An entry: the base64 of a key, or `{ "key": "<base64>", "accounts": ["<account>"] }`. */
function parseEntry(given: unknown): { readonly key?: unknown; readonly accounts?: unknown } | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return { key: given };
  const isKnown = Object.keys(given).every((name) => name === 'key' || name === 'accounts');
  return isKnown ? given : undefined;
}

/** A JSON object: `{ "<id>": "<base64>" or { "key": "<base64>", "accounts": ["<account>"] }, "alias/<name>": "<id>" }`. */
export function hsmKeys(text: string): Read<HsmKeys> {
  const entries = parseEntries(text);
  if (entries === undefined) return fault('is not a JSON object of key ids and keys');
  if (entries.length > hsmKeysMax) return fault(`has more than ${hsmKeysMax} keys`);
  const keys = new Map<string, Uint8Array>();
  const aliases = new Map<string, string>();
  const accounts = new Map<string, readonly string[]>();
  const faults: string[] = [];
  for (const [name, given] of entries) {
    if (aliasPattern.test(name)) {
      if (typeof given === 'string') aliases.set(name, given);
      else faults.push(`: "${name}" is not the id of a key`);
    } else if (!keyIdPattern.test(name)) faults.push(`: "${name.slice(0, 128)}" cannot be the id of a key`);
    else {
      const entry = parseEntry(given);
      const key = parseKey(entry?.key);
      if (entry === undefined) faults.push(`: "${name}" has a field that is neither "key" nor "accounts"`);
      else if (key === undefined) faults.push(`: "${name}" is not the base64 of ${cipherKeyBytes} bytes`);
      else keys.set(name, key);
      if (isAccounts(entry?.accounts)) accounts.set(name, entry.accounts);
      else if (entry?.accounts !== undefined)
        faults.push(
          `: the accounts of "${name}" are not a list of at most ${accountsMax} account ids or "*"`,
        );
    }
  }
  for (const [alias, id] of aliases)
    if (!keys.has(id)) faults.push(`: "${alias}" stands for no key of this file`);
  if (faults.length > 0) return fault(...faults);
  return keys.size === 0 ? fault('has no key') : value({ keys, aliases, accounts });
}

function parseEntries(text: string): [string, unknown][] | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? Object.entries(parsed)
      : undefined;
  } catch {
    return undefined;
  }
}
