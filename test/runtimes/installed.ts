/** The installed runtimes; they are installed when missing, outside of the project's dependencies because of their size. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const modules = join(import.meta.dirname, 'node_modules');
const node = (major: number): string => join(modules, `node${major}/bin/node`);
const command = (name: string): string => join(modules, '.bin', name);

export const runtimes = {
  'Node 22': [node(22)],
  'Node 24': [node(24)],
  'Node 26': [node(26)],
  Bun: [command('bun')],
  Deno: [command('deno'), 'run', '--allow-all'],
} as const;

/** Older than what the project needs. */
export const unsupportedNode = node(20);

export function install(): void {
  if ([unsupportedNode, ...Object.values(runtimes).map(([path]) => path)].every((path) => existsSync(path)))
    return;
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--prefix', import.meta.dirname], {
    stdio: 'inherit',
  });
}
