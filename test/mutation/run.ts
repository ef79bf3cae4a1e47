/**
 * `node test/mutation/run.ts [group …]`: changes the source, one place at a time, and prints the changes that no test detects.
 * `--sample=<lines> --seed=<n>` breaks random lines of `src/auth`, `src/domain` and `src/protocol` instead, and runs the tests of
 * the front door too; the seed names the same lines again.
 *
 * Stryker changes copies of the files and runs the tests that cover each change; docs/mutation.md has the scores. It reads
 * `tsconfig.json` by an API that TypeScript 7 no longer has, so it works in a directory without one.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { withoutEngines } from '../support/engines/wanted.ts';
import { seeded } from '../support/load-model.ts';
import { type Group, groups } from './groups.ts';
import { sampleLines } from './sample.ts';

const root = join(import.meta.dirname, '../..');
/** Below the root, so that Node finds the project's packages from there. */
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

function mutate(name: string, { mutate: files, tests, excluded = [] }: Group): void {
  const settings = {
    include: tests,
    exclude: excluded,
    pool: 'threads',
    isolate: false,
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  };
  writeFileSync(join(place, vitestConfig), `export default ${JSON.stringify({ test: settings })};\n`);
  const config = {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: vitestConfig },
    mutate: files,
    // Tests compare error codes, not the texts of errors.
    mutator: { excludedMutations: ['StringLiteral'] },
    reporters: ['clear-text', 'json'],
    jsonReporter: { fileName: `${name}.json` },
    coverageAnalysis: 'perTest',
    concurrency: 2,
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 30,
    // Code that runs once when its module is loaded, such as a table, would need every test for each change.
    ignoreStatic: true,
  };
  const configFile = `${name}.config.json`;
  writeFileSync(join(place, configFile), JSON.stringify(config));
  const stryker = join(place, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const env = { ...process.env, ...withoutEngines };
  execFileSync(process.execPath, [stryker, 'run', configFile], { cwd: place, stdio: 'inherit', env });
}

/** The tests of a sample: those that run in one process with the source that they test. */
const frontDoor = {
  tests: ['unit', 'handlers', 'attacks'].map((folder) => `test/${folder}/**/*.test.ts`),
  // The first writes 100,000 rows for each change; the second imports from `examples`, which is not copied.
  excluded: ['test/handlers/listing-cost.test.ts', 'test/unit/runtime-hono.test.ts'],
};

const { values: sample, positionals: asked } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: 'string' }, seed: { type: 'string', default: '1' } },
});
const unknown = asked.filter((name) => groups[name] === undefined);
if (unknown.length > 0) {
  process.stderr.write(`no group ${unknown.join(', ')}; there are ${Object.keys(groups).join(', ')}\n`);
  process.exit(2);
}
install();
copySources();
if (sample.sample !== undefined) {
  const lines = await sampleLines(place, {
    count: Number(sample.sample),
    random: seeded(Number(sample.seed)),
  });
  mutate(`sample-${sample.seed}`, { mutate: lines, ...frontDoor });
  process.exit();
}
for (const [name, group] of Object.entries(groups))
  if (asked.length === 0 || asked.includes(name)) mutate(name, group);
