/** `sluice keygen` mints keys and prints them, this once; `sluice bucket-secret` derives what a bucket is signed with. Nothing is stored. */
import { randomBytes } from 'node:crypto';

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
