/** `sluice bucket-secret`, and the command of docs/operations/keys.md for users without it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { combined, sharedSecret } from '../support/keyed-buckets.ts';
import { cliPath } from './command.ts';

const bucketSecret = 'ab'.repeat(32);
const secretKey = 'PhrA7-mellow';

async function run(args: readonly string[], input: string) {
  const child = spawn(process.execPath, [cliPath, 'bucket-secret', ...args]);
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number]>,
  ]);
  return { code, stdout, stderr };
}

test('derives the shared secret and the combined secret from its input', async () => {
  const shared = await run(['shared'], `${bucketSecret}\n`);
  expect([shared.code, shared.stdout]).toEqual([0, `${sharedSecret(bucketSecret)}\n`]);
  const both = await run(['combined'], `${secretKey}\n${shared.stdout}`);
  expect([both.code, both.stdout]).toEqual([0, `${combined({ secretKey }, bucketSecret).secretKey}\n`]);
});

test('refuses another number of lines and unknown kinds, and repeats no secret', async () => {
  for (const [args, input] of [
    [['combined'], `${secretKey}\n`],
    [['shared'], `${secretKey}\n${secretKey}\n`],
    [['shared', secretKey], ''],
    [[], ''],
  ] as const) {
    const refused = await run(args, input);
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).not.toContain(secretKey);
  }
});

test('gives what the documented line of Python gives', async () => {
  const operations = await readFile(new URL('../../docs/operations/keys.md', import.meta.url), 'utf8');
  const [, program = ''] =
    /^python3 -c '(import hmac.*)' own\.secret shared\.secret$/m.exec(operations) ?? [];
  const directory = await mkdtemp(join(tmpdir(), 'sluice-secret-'));
  const python = async (first: string, second: string) => {
    const files = [join(directory, 'first'), join(directory, 'second')] as const;
    await writeFile(files[0], `${first}\n`);
    await writeFile(files[1], `${second}\n`);
    return (await text(spawn('python3', ['-c', program, ...files]).stdout)).trim();
  };
  try {
    const shared = await python(bucketSecret, 'sluice-shared-secret');
    expect(shared).toBe(sharedSecret(bucketSecret));
    expect(await python(secretKey, shared)).toBe(combined({ secretKey }, bucketSecret).secretKey);
  } finally {
    await rm(directory, { recursive: true });
  }
});
