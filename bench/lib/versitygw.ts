/** The peer, pinned and built once into .cache; the Go module proxy has its module and all dependencies. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const versitygwVersion = 'v1.8.0';
const cache = fileURLToPath(new URL(`../../.cache/versitygw-${versitygwVersion}`, import.meta.url));

/** The path of the binary. The first call takes minutes. */
export async function installVersitygw(): Promise<string> {
  const binary = `${cache}/versitygw`;
  if (existsSync(binary)) return binary;
  mkdirSync(cache, { recursive: true });
  process.stderr.write(`building versitygw ${versitygwVersion} into ${cache}\n`);
  await promisify(execFile)(
    'go',
    ['install', `github.com/versity/versitygw/cmd/versitygw@${versitygwVersion}`],
    {
      env: { ...process.env, GOBIN: cache },
    },
  );
  return binary;
}
