/** Examples that are folders, because their framework builds them: each runs in a copy beside the installed frameworks. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const home = join(import.meta.dirname, 'frameworks');
const modules = join(home, 'node_modules');

export function installFrameworks(): void {
  if (!['next', 'vite'].every((name) => existsSync(join(modules, '.bin', name))))
    execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--prefix', home], { stdio: 'inherit' });
  // The package of this checkout, so that a framework treats it as any other package.
  const own = join(modules, 'sluice');
  mkdirSync(own, { recursive: true });
  const exports = { '.': './mod.js', './node': './node.js' };
  writeFileSync(
    join(own, 'package.json'),
    JSON.stringify({ name: 'sluice', version: '0.1.0', type: 'module', exports }),
  );
  for (const [file, entry] of [
    ['mod.js', 'mod.ts'],
    ['node.js', 'runtime/node.ts'],
  ] as const)
    writeFileSync(join(own, file), `export * from ${JSON.stringify(join(root, 'src', entry))};\n`);
}

/** The folder of an installed package. */
export const frameworkPackage = (name: string): string => join(modules, name);

/** The path of a framework's command. */
export const frameworkCommand = (name: string): string => join(modules, '.bin', name);

/** A copy of `examples/<name>` in which its framework finds its packages. */
export function copyExample(name: string): { readonly folder: string; remove(): void } {
  installFrameworks();
  const folder = mkdtempSync(join(home, 'run-'));
  cpSync(join(root, 'examples', name), folder, { recursive: true });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
