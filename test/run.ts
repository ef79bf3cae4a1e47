/**
 * The test command: compilers, linter and generated docs first, then every suite; ends with one plain line
 * that counts. Arguments go to vitest, for example `npm test -- test/handlers`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const results = join(root, '.cache/test-results.json');

/** Runs a program of the project; its name stands for `node_modules/.bin/<name>`. */
function run(title: string, program: string, args: readonly string[]): boolean {
  process.stdout.write(`\n== ${title}\n`);
  const path = program === 'node' ? process.execPath : join(root, 'node_modules/.bin', program);
  const { status } = spawnSync(path, args, { cwd: root, stdio: 'inherit' });
  return status === 0;
}

const checks: readonly (readonly [string, string, readonly string[]])[] = [
  ['the core compiles without any runtime', 'tsc', ['-p', 'tsconfig.json']],
  ['everything compiles', 'tsc', ['-p', 'tsconfig.runtime.json']],
  ['the linter is content', 'biome', ['check', '--error-on-warnings']],
  ['the generated docs are up to date', 'node', ['docs/generate.ts', '--check']],
];

interface Results {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  /** Suites count too: a file that does not load has failed without a test. */
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[];
}

const args = process.argv.slice(2);
const passedChecks = args.length > 0 ? [] : checks.map(([title, program, rest]) => run(title, program, rest));
rmSync(results, { force: true });
const json = ['--reporter=default', '--reporter=json', `--outputFile.json=${results}`];
const isGreen = run('tests', 'vitest', ['run', ...json, ...args]);

const counted = JSON.parse(readFileSync(results, 'utf8')) as Results;
const unloaded = counted.testResults.filter(
  ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
);
const passed = counted.numPassedTests + passedChecks.filter((ok) => ok).length;
const failed = counted.numFailedTests + unloaded.length + passedChecks.filter((ok) => !ok).length;
const skipped = counted.numPendingTests + counted.numTodoTests;
process.stdout.write(`\n${passed} passed, ${failed} failed, ${skipped} skipped\n`);
process.exit(isGreen && failed === 0 ? 0 : 1);
