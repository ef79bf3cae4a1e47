/**
 * `node test/mutation/run.ts [group …]`: breaks the source on purpose, one place at a time, and prints what no test noticed.
 *
 * Stryker changes copies of the files and runs the tests that cover each change; docs/mutation.md has the scores. It reads
 * `tsconfig.json` by an API that TypeScript 7 no longer has, so it works in a directory without one.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Group, groups } from './groups.ts';

const root = join(import.meta.dirname, '../..');
/** Below the root, so that the project's own packages are found from there. */
const place = join(root, '.cache/mutation');
const vitestConfig = 'vitest.mutation.config.ts';

function install(): void {
  if (existsSync(join(place, 'node_modules/@stryker-mutator'))) return;
  mkdirSync(place, { recursive: true });
  cpSync(join(import.meta.dirname, 'package.json'), join(place, 'package.json'));
  execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', place], {
    stdio: 'inherit',
  });
}

function copySources(): void {
  for (const folder of ['src', 'test']) {
    rmSync(join(place, folder), { recursive: true, force: true });
    const skipped = join(root, 'test/runtimes/node_modules');
    cpSync(join(root, folder), join(place, folder), { recursive: true, filter: (from) => from !== skipped });
  }
}

function mutate(name: string, { mutate: files, tests }: Group): void {
  const settings = { include: tests, pool: 'threads', maxWorkers: 1, testTimeout: 60_000 };
  writeFileSync(join(place, vitestConfig), `export default ${JSON.stringify({ test: settings })};\n`);
  const config = {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: vitestConfig },
    mutate: files,
    // Texts of refusals are for people; tests compare codes.
    mutator: { excludedMutations: ['StringLiteral'] },
    reporters: ['clear-text', 'json'],
    jsonReporter: { fileName: `${name}.json` },
    coverageAnalysis: 'perTest',
    concurrency: 1,
    timeoutMS: 20_000,
  };
  const configFile = `${name}.config.json`;
  writeFileSync(join(place, configFile), JSON.stringify(config));
  const stryker = join(place, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  execFileSync(process.execPath, [stryker, 'run', configFile], { cwd: place, stdio: 'inherit' });
}

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => groups[name] === undefined);
if (unknown.length > 0) {
  process.stderr.write(`no group ${unknown.join(', ')}; there are ${Object.keys(groups).join(', ')}\n`);
  process.exit(2);
}
install();
copySources();
for (const [name, group] of Object.entries(groups))
  if (asked.length === 0 || asked.includes(name)) mutate(name, group);
