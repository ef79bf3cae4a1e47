/**
 * The test command: compilers, linter and generated docs first, then every suite; ends with one plain line
 * that counts. Arguments go to vitest, for example `npm test -- test/handlers`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { noCassandra, startCassandra } from './support/engines/cassandra.ts';
import { noTikv, startTikv } from './support/engines/tikv.ts';

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

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** One run of vitest, counted. */
function suites(title: string, rest: readonly string[]): Counts {
  rmSync(results, { force: true });
  const json = ['--reporter=default', '--reporter=json', `--outputFile.json=${results}`];
  const isGreen = run(title, 'vitest', ['run', ...json, ...rest]);
  const counted = JSON.parse(readFileSync(results, 'utf8')) as Results;
  const unloaded = counted.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
  );
  const failed = counted.numFailedTests + unloaded.length;
  return {
    passed: counted.numPassedTests,
    // Errors outside of any test fail the run too.
    failed: isGreen ? failed : Math.max(failed, 1),
    skipped: counted.numPendingTests + counted.numTodoTests,
  };
}

/** The front door once more, on metadata engines: those laws that name their backend. */
async function onTikv(): Promise<Counts | undefined> {
  if (args.length > 0 || noTikv !== undefined) return undefined;
  await using engine = await startTikv();
  process.env['SVC_KV_PD_ENDPOINTS'] = engine.endpoints.join(',');
  const counts = laws('TiKV', ['test/handlers', 'test/attacks', '-t', 'ordered-kv']);
  delete process.env['SVC_KV_PD_ENDPOINTS'];
  return counts;
}

/** Those about how keys, versions, uploads and listings are kept: each world empties the tables, which takes a while. */
const onCassandraToo = [
  'put-object',
  'get-object',
  'versioning',
  'multipart',
  'list-',
  'delete',
  'conditions',
  'model',
];

async function onCassandra(): Promise<Counts | undefined> {
  if (args.length > 0 || noCassandra !== undefined) return undefined;
  await using engine = await startCassandra();
  process.env['SVC_WIDECOL_HOSTS'] = engine.hosts.join(',');
  const files = onCassandraToo.map((name) => `test/handlers/${name}`);
  const counts = laws('Cassandra', [...files, '-t', 'wide-column']);
  delete process.env['SVC_WIDECOL_HOSTS'];
  return counts;
}

/** What is not about the engine was counted before. */
function laws(engine: string, rest: readonly string[]): Counts {
  const { passed, failed } = suites(`the front door on ${engine}`, rest);
  return { passed, failed, skipped: 0 };
}

const runs = [suites('tests', args), await onTikv(), await onCassandra()].filter(
  (counts) => counts !== undefined,
);
const sum = (of: (counts: Counts) => number): number => runs.reduce((total, counts) => total + of(counts), 0);
const passed = sum((counts) => counts.passed) + passedChecks.filter((ok) => ok).length;
const failed = sum((counts) => counts.failed) + passedChecks.filter((ok) => !ok).length;
process.stdout.write(`\n${passed} passed, ${failed} failed, ${sum((counts) => counts.skipped)} skipped\n`);
process.exit(failed === 0 ? 0 : 1);
