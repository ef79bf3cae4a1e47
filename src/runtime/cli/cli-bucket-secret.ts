/** `sluice bucket-secret`: derives the secrets that sign requests about a bucket with a signing key. They are read from standard input. */
import { createHmac } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { deriveCombinedSecret, deriveSharedSecret } from '../../signing/signing-key.ts';

const hasher = {
  hmacSha256: (key: Uint8Array, data: Uint8Array | string) => createHmac('sha256', key).update(data).digest(),
};

interface Kind {
  /** What the lines of the input are. */
  readonly lines: readonly string[];
  readonly derive: (lines: readonly string[]) => string;
}

const kinds: Readonly<Record<string, Kind>> = {
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
  const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
  if (kind === undefined || rest.length > 0)
    return refuse(
      `usage: sluice bucket-secret ${Object.keys(kinds).join('|')}, with the secrets on standard input`,
    );
  const lines = (await text(process.stdin)).split(/\r?\n/).filter((line) => line !== '');
  if (lines.length !== kind.lines.length)
    return refuse(`standard input must have one line for each of: ${kind.lines.join(', ')}`);
  process.stdout.write(`${kind.derive(lines)}\n`);
  return 0;
}
