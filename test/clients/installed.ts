/** Finds the clients' programs and installs missing ones, except in CI, where the run must provide them. */
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const home = join(import.meta.dirname, '../../.cache/clients');
const installer = join(import.meta.dirname, 'install.sh');

/** Debian's clients come from the PATH, the others from the cache, which holds the pinned versions. */
const places = {
  aws: join(home, 'python/bin/aws'),
  python: join(home, 'python/bin/python'),
  s5cmd: join(home, 'bin/s5cmd'),
  mc: join(home, 'bin/mc'),
  s3cmd: undefined,
  rclone: undefined,
} as const;

export type Client = keyof typeof places;

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function find(client: Client): string | undefined {
  const place = places[client];
  const candidates =
    place === undefined
      ? (process.env['PATH'] ?? '').split(delimiter).map((directory) => join(directory, client))
      : [place];
  return candidates.find(isExecutable);
}

/** The path of a client's program. */
export function installed(client: Client): string {
  const isCi = Boolean(process.env['CI']);
  if (find(client) === undefined && !isCi) execFileSync(installer, { stdio: 'inherit' });
  const found = find(client);
  if (found === undefined) throw new Error(`${client} is not installed: run test/clients/install.sh first`);
  return found;
}
