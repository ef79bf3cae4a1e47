/**
 * `sluice keygen` mints keys and prints them, this once; `sluice bucket-secret` derives what a bucket is signed with.
 * Nothing is stored.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { deriveCombinedSecret, deriveSharedSecret } from '../../signing/signing-key.ts';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** 32 letters divide 256, so each is as likely. */
const letters = (count: number): string =>
  Array.from(randomBytes(count), (byte) => alphabet.charAt(byte % alphabet.length)).join('');

/** What each kind prints, in the form of the file or setting that takes it. */
const kinds: Readonly<Record<string, () => string>> = {
  'access-key': () =>
    JSON.stringify(
      { accessKey: `AK${letters(18)}`, secretKey: randomBytes(30).toString('base64url') },
      undefined,
      2,
    ),
  'master-key': () => randomBytes(32).toString('base64'),
  'hsm-key': () =>
    JSON.stringify({ [`key-${randomBytes(4).toString('hex')}`]: randomBytes(32).toString('base64') }),
};

/** @returns the exit code */
export function runKeygen(args: readonly string[]): number {
  const [kind = 'access-key', ...rest] = args;
  const mint = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (mint === undefined || rest.length > 0) {
    process.stderr.write(`sluice: usage: sluice keygen ${Object.keys(kinds).join('|')}\n`);
    return 2;
  }
  process.stdout.write(`${mint()}\n`);
  return 0;
}

// `sluice bucket-secret`: derives the secrets that sign requests about a bucket with a signing key. They are read from standard input.

const hasher = {
  hmacSha256: (key: Uint8Array, data: Uint8Array | string) => createHmac('sha256', key).update(data).digest(),
};

interface SecretKind {
  /** What the lines of the input are. */
  readonly lines: readonly string[];
  readonly derive: (lines: readonly string[]) => string;
}

const secretKinds: Readonly<Record<string, SecretKind>> = {
  shared: {
    lines: ['the secret of the bucket'],
    derive: ([bucketSecret = '']) => deriveSharedSecret(hasher, bucketSecret),
  },
  combined: {
    lines: ['the secret of the access key', 'the shared secret of the bucket'],
    derive: ([ownSecret = '', sharedSecret = '']) => deriveCombinedSecret(hasher, ownSecret, sharedSecret),
  },
};

const refuse = (message: string): number => {
  process.stderr.write(`sluice: ${message}\n`);
  return 2;
};

/** @returns the exit code */
export async function runBucketSecret(args: readonly string[]): Promise<number> {
  const [name = '', ...rest] = args;
  const kind = Object.hasOwn(secretKinds, name) ? secretKinds[name] : undefined;
  if (kind === undefined || rest.length > 0)
    return refuse(
      `usage: sluice bucket-secret ${Object.keys(secretKinds).join('|')}, with the secrets on standard input`,
    );
  const lines = (await text(process.stdin)).split(/\r?\n/).filter((line) => line !== '');
  if (lines.length !== kind.lines.length)
    return refuse(`standard input must have one line for each of: ${kind.lines.join(', ')}`);
  process.stdout.write(`${kind.derive(lines)}\n`);
  return 0;
}
