/** Reads a list of credentials, naming each fault by position and never a secret. */
import type { Credential } from '../ports/credentials.ts';
import { fault, type Read, type Setting, value } from './setting.ts';

const credentialsMax = 10_000;
/** No slash: an access key is part of a credential scope, whose separator is the slash. */
const accessKeyPattern = /^[A-Za-z0-9._=+@-]{3,128}$/;
const secretKeyPattern = /^[\x21-\x7e]{8,256}$/;
const ownerPattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
const displayPattern = /^[^\u0000-\u001f\u007f]{1,256}$/u;
const emailPattern = /^[^\s@]{1,64}@[^\s@]{1,255}$/;

type Rule = { readonly pattern: RegExp; readonly must: string; readonly required: boolean };
const textRules: Readonly<Record<string, Rule>> = {
  accessKey: {
    pattern: accessKeyPattern,
    must: '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-',
    required: true,
  },
  secretKey: {
    pattern: secretKeyPattern,
    must: '8 to 256 printable ASCII characters without spaces',
    required: true,
  },
  owner: { pattern: ownerPattern, must: '1 to 128 characters of A-Z, a-z, 0-9 and ._@-', required: true },
  displayName: { pattern: displayPattern, must: '1 to 256 printable characters', required: false },
  email: { pattern: emailPattern, must: 'an e-mail address', required: false },
};
const booleanFields = ['root', 'operator'];

function fieldFaults(entry: Readonly<Record<string, unknown>>, at: string): readonly string[] {
  const faults: string[] = [];
  for (const [name, rule] of Object.entries(textRules)) {
    const input = entry[name];
    if (input === undefined && !rule.required) continue;
    if (input === undefined) faults.push(`${at} has no ${name}`);
    else if (typeof input !== 'string' || !rule.pattern.test(input))
      faults.push(`${at}: ${name} must be ${rule.must}`);
  }
  for (const name of booleanFields) {
    if (entry[name] !== undefined && typeof entry[name] !== 'boolean')
      faults.push(`${at}: ${name} must be true or false`);
  }
  for (const name of Object.keys(entry)) {
    if (textRules[name] === undefined && !booleanFields.includes(name))
      faults.push(`${at} has an unknown field "${name}"`);
  }
  return faults;
}

function listFaults(entries: readonly unknown[]): readonly string[] {
  const firstAt = new Map<string, number>();
  return entries.flatMap((entry, index) => {
    const at = `entry ${index + 1}`;
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
      return [`${at} is not an object`];
    const fields = entry as Readonly<Record<string, unknown>>;
    const faults = [...fieldFaults(fields, at)];
    if (typeof fields['accessKey'] === 'string') {
      const first = firstAt.get(fields['accessKey']);
      if (first !== undefined) faults.push(`${at} repeats the access key of entry ${first}`);
      else firstAt.set(fields['accessKey'], index + 1);
    }
    return faults;
  });
}

function toCredential(
  entry: Partial<Credential> & Pick<Credential, 'accessKey' | 'secretKey' | 'owner'>,
): Credential {
  return {
    accessKey: entry.accessKey,
    secretKey: entry.secretKey,
    owner: entry.owner,
    displayName: entry.displayName ?? entry.owner,
    ...(entry.email === undefined ? {} : { email: entry.email }),
    root: entry.root ?? false,
    operator: entry.operator ?? false,
  };
}

/** The JSON array of a setting or of a credentials file. */
export function readCredentials(json: string): Read<readonly Credential[]> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    // The parser's own message quotes the text, which holds secrets.
    return fault('is not valid JSON');
  }
  if (!Array.isArray(parsed)) return fault('is not a JSON array of {"accessKey", "secretKey", "owner", …}');
  if (parsed.length === 0) return fault('lists no credential');
  if (parsed.length > credentialsMax) return fault(`lists more than ${credentialsMax} credentials`);
  const faults = listFaults(parsed);
  return faults.length > 0 ? { faults } : value(parsed.map(toCredential));
}

export const credentials = (doc: string): Setting<readonly Credential[]> => ({
  kind: 'JSON array of `{accessKey, secretKey, owner, displayName?, email?, root?, operator?}`',
  doc,
  fallback: undefined,
  read: readCredentials,
});
