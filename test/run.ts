/**
 * The test commands: compilers, linter and generated docs first, then suites; the ten slowest files and one plain line
 * that counts come last. `npm test` runs what needs no engine and no client, `npm run test:all` (`--all`) every suite, `npm run test:ci`
 * (`--turn`) those whose turn it is, `--routines` the console's on Cassandra and Ceph alone, and arguments go to vitest, for example
 * `npm test -- test/handlers`.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { type ConsoleEngines, consoleEngines } from './console/on-engines.ts';
import { noChromium } from './console/world.ts';
import { noCassandra, sharedNodeVariable, startCassandra } from './support/engines/cassandra.ts';
import { noCeph, startCeph } from './support/engines/ceph.ts';
import { noTikv, startTikv } from './support/engines/tikv.ts';
import { startUpstreamServer } from './support/engines/upstream.ts';
import { withoutEngines } from './support/engines/wanted.ts';
import { errorsOutsideTests } from './support/errors-outside-tests.ts';
import { placeOf } from './support/slowest-files.ts';

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
  [
    'the package compiles, with declarations that name exported types only',
    'tsc',
    ['-p', 'tsconfig.build.json', '--noEmit'],
  ],
  ['the console compiles', 'tsc', ['-p', 'console']],
  ['the linter is content', 'biome', ['check', '--error-on-warnings']],
  ['the generated docs are up to date', 'node', ['docs/generate.ts', '--check']],
];

interface Results {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  /** Counts suites too, because a file that does not load, or whose hooks fail, fails without a test. */
  readonly testResults: readonly SuiteResult[];
}

interface SuiteResult {
  readonly name: string;
  /** In ms since the epoch. */
  readonly startTime: number;
  readonly endTime: number;
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly {
    readonly fullName: string;
    readonly status: string;
    readonly failureMessages: readonly string[];
  }[];
}

/** The failures; printed again at the end, because a log may be cut to its last lines. */
const failures: string[] = [];
const failureCharacters = 1500;

const hasFailedOutsideTests = ({
  status,
  assertionResults,
}: Pick<SuiteResult, 'status' | 'assertionResults'>): boolean =>
  status === 'failed' && assertionResults.every((test) => test.status !== 'failed');

function noteFailures({ name, status, message, assertionResults }: SuiteResult): void {
  const file = relative(root, name);
  if (hasFailedOutsideTests({ status, assertionResults }))
    failures.push(`${file} did not load, or its hooks failed: ${message.slice(0, failureCharacters)}`);
  for (const test of assertionResults) {
    if (test.status !== 'failed') continue;
    // Vitest gives a test that timed out this message, and a stack of its own.
    const why = test.failureMessages
      .join('\n')
      .replace('STACK_TRACE_ERROR', 'the test reached its time limit');
    failures.push(`${file} > ${test.fullName}\n${why.slice(0, failureCharacters)}`);
  }
}

/** What `npm test` runs: on memory, the embedded store and files, in this process and in servers. */
const quickFolders = ['tidy', 'unit', 'handlers', 'attacks', 'contract'].map((name) => `test/${name}`);

/**
 * Folders whose suites take long, with servers, engines or browsers. On CI every third file of them runs, because all take up to two
 * hours on two cores: a tree has one of three turns, and what one turn leaves out is in the others. The other folders run each time.
 */
const inTurns = [
  'ceph',
  'clients',
  'console',
  'deploy',
  'keys',
  'runtimes',
  'simulation',
  'sinks',
  'suites',
  'tikv',
  'workers',
];
/** Files of these folders that any change of the source may break, and that take seconds. They run each time. */
const quickFiles = ['test/workers/bundles.test.ts', 'test/workers/handler-suites.test.ts'];
const turns = [0, 1, 2] as const;
type Turn = (typeof turns)[number];

/**
 * `--turn=0` to `--turn=2` choose. Without a number a digit of the commit's tree does: the same tree always has the same turn.
 * A checkout without git has turn 0.
 */
function readTurn(argument: string): Turn {
  const chosen = turns.find((turn) => argument === `--turn=${turn}`);
  if (chosen !== undefined) return chosen;
  if (argument !== '--turn') throw new Error(`${argument} is not --turn, --turn=0, --turn=1 or --turn=2`);
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD^{tree}'], { cwd: root, encoding: 'utf8' });
  const digit = status === 0 ? Number.parseInt(stdout.trim().slice(-1), 16) : 0;
  return turns[digit % turns.length] ?? 0;
}

/** The folders that run each time, and the files of the others whose turn it is. */
function pathsOf(turn: Turn): readonly string[] {
  const folders = globSync('test/*/', { cwd: root }).filter((path) => !inTurns.includes(basename(path)));
  const exclude = ['**/node_modules/**'];
  const files = inTurns
    .flatMap((name) => globSync(`test/${name}/**/*.test.ts`, { cwd: root, exclude }).sort())
    .toSorted((a, b) => placeOf(a) - placeOf(b));
  const chosen = files.filter((file, at) => at % turns.length === turn || quickFiles.includes(file));
  process.stdout.write(`\n== turn ${turn}: ${chosen.length} of ${files.length} files that take turns\n`);
  return [...folders.map((path) => `${path}/`), ...chosen];
}

const mode = process.argv[2] ?? '';
const turn = mode.startsWith('--turn') ? readTurn(mode) : undefined;
const isWhole = mode === '--all' || turn !== undefined;
const args = process.argv.slice(isWhole ? 3 : 2);
const hasChecks = isWhole || args.length === 0;
const passedChecks = hasChecks
  ? checks.map(([title, program, rest]) => {
      const ok = run(title, program, rest);
      if (!ok) failures.push(`the check that ${title}`);
      return ok;
    })
  : [];

/** The time of each file in the named run. */
const durations: { readonly file: string; readonly title: string; readonly ms: number }[] = [];
const slowestShown = 10;

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Runs vitest once and counts the results. */
function suites(title: string, rest: readonly string[]): Counts {
  rmSync(results, { force: true });
  rmSync(errorsOutsideTests, { force: true });
  const reporters = ['default', 'json', './test/support/errors-outside-tests.ts'];
  const output = [...reporters.map((name) => `--reporter=${name}`), `--outputFile.json=${results}`];
  const isGreen = run(title, 'vitest', ['run', ...output, ...rest]);
  const counted = JSON.parse(readFileSync(results, 'utf8')) as Results;
  const errors = JSON.parse(readFileSync(errorsOutsideTests, 'utf8')) as readonly string[];
  for (const error of errors)
    failures.push(`${title} > outside of any test\n${error.slice(0, failureCharacters)}`);
  counted.testResults.forEach(noteFailures);
  for (const { name, startTime, endTime } of counted.testResults)
    durations.push({ file: relative(root, name), title, ms: endTime - startTime });
  const unloaded = counted.testResults.filter(hasFailedOutsideTests);
  const failed = counted.numFailedTests + unloaded.length + errors.length;
  if (!isGreen && failed === 0) failures.push(`${title}: vitest failed without a failed test`);
  return {
    passed: counted.numPassedTests,
    failed: isGreen ? failed : Math.max(failed, 1),
    skipped: counted.numPendingTests + counted.numTodoTests,
  };
}

/** Files of the front door with `@storage`: their results depend on how rows are stored, so they run on engines too. */
const aboutStorage = ['test/handlers', 'test/attacks'].flatMap((folder) =>
  readdirSync(join(root, folder))
    .map((name) => join(folder, name))
    .filter(
      (path) => path.endsWith('.test.ts') && readFileSync(join(root, path), 'utf8').includes('@storage'),
    ),
);
/** The limits of their number: more would take too long, and far fewer mean that the filter no longer finds them. */
const storageLaws = { min: 220, max: 330 } as const;

interface StorageEngine {
  readonly name: string;
  readonly backend: string;
  /** The reason why the engine cannot run here. */
  readonly missing: string | undefined;
  /** The setting that tells test worlds its address. */
  readonly setting: string;
  start(): Promise<AsyncDisposable & { readonly at: readonly string[] }>;
}

const tikv: StorageEngine = {
  name: 'TiKV',
  backend: 'ordered-kv',
  missing: noTikv,
  setting: 'SVC_KV_PD_ENDPOINTS',
  start: async () => {
    const engine = await startTikv();
    return Object.assign(engine, { at: engine.endpoints });
  },
};

const cassandra: StorageEngine = {
  name: 'Cassandra',
  backend: 'wide-column',
  missing: noCassandra,
  setting: 'SVC_WIDECOL_HOSTS',
  start: async () => {
    const engine = await startCassandra();
    return Object.assign(engine, { at: engine.hosts });
  },
};

async function onEngine({
  name,
  backend,
  missing,
  setting,
  start,
}: StorageEngine): Promise<Counts | undefined> {
  if (missing !== undefined) return undefined;
  await using engine = await start();
  process.env[setting] = engine.at.join(',');
  const counts = laws(name, [...aboutStorage, '-t', backend]);
  delete process.env[setting];
  const count = counts.passed + counts.failed;
  if (count >= storageLaws.min && count <= storageLaws.max) return counts;
  const bounds = `at least ${storageLaws.min} and at most ${storageLaws.max}`;
  failures.push(`${count} laws marked @storage ran on ${name}, not ${bounds}`);
  return { ...counts, failed: counts.failed + 1 };
}

/** The suites about bytes, with this gateway as the upstream of another. */
const onUpstreamToo = [
  'put-object',
  'get-object',
  'multipart',
  'copy',
  'delete-objects',
  'versioning',
  'encryption',
  'list-uploads',
  'object-attributes',
];

async function onUpstream(): Promise<Counts> {
  await using upstream = await startUpstreamServer();
  Object.assign(process.env, upstream.environment);
  const counts = laws('an upstream', [
    ...onUpstreamToo.map((name) => `test/handlers/${name}`),
    '-t',
    'upstream-store',
  ]);
  for (const name of Object.keys(upstream.environment)) delete process.env[name];
  return counts;
}

/** What operators and tenants do by the console's pages, but for files that write rows of earlier days into the embedded store. */
const consoleRoutines = ['access', 'danger', 'identity', 'journal', 'operators', 'routines'];

/** On embedded metadata and files they are among the other suites. */
async function routinesOnEngines(): Promise<Counts | undefined> {
  if (noCassandra !== undefined || noCeph !== undefined || noChromium !== undefined) return undefined;
  await using node = await startCassandra();
  await using ceph = await startCeph();
  const engines: ConsoleEngines = { hosts: node.hosts, conf: ceph.conf };
  process.env[consoleEngines] = JSON.stringify(engines);
  const files = consoleRoutines.map((name) => `test/console/${name}.test.ts`);
  const { passed, failed } = suites('the routines of the console on Cassandra and Ceph', files);
  delete process.env[consoleEngines];
  // The skipped ones were counted before.
  return { passed, failed, skipped: 0 };
}

/** Runs suites on an engine. Their skipped tests do not concern the engine and were counted before. */
function laws(engine: string, rest: readonly string[]): Counts {
  const { passed, failed } = suites(`the front door on ${engine}`, rest);
  return { passed, failed, skipped: 0 };
}

async function chosenSuites(): Promise<readonly (Counts | undefined)[]> {
  if (isWhole) {
    // One node for all suites, because its start takes 15 s of both cores. TiKV's takes one.
    await using node = noCassandra === undefined ? await startCassandra() : undefined;
    if (node !== undefined) process.env[sharedNodeVariable] = node.hosts.join(',');
    const all: (Counts | undefined)[] =
      turn === undefined ? [suites('every suite', args)] : [suites('the suites of this turn', pathsOf(turn))];
    const isIn = (one: Turn): boolean => turn === undefined || turn === one;
    if (isIn(0)) all.push(await onEngine(tikv), await onUpstream());
    if (isIn(1)) all.push(await onEngine(cassandra));
    if (isIn(2)) all.push(await routinesOnEngines());
    return all;
  }
  if (args[0] === '--routines') return [await routinesOnEngines()];
  if (args.length > 0) return [suites(args.join(' '), args)];
  Object.assign(process.env, withoutEngines);
  return [suites('the suites that need no engine', quickFolders)];
}

const counted = await chosenSuites();
const runs = counted.filter((counts) => counts !== undefined);
const sum = (of: (counts: Counts) => number): number => runs.reduce((total, counts) => total + of(counts), 0);
const passed = sum((counts) => counts.passed) + passedChecks.filter((ok) => ok).length;
const failed = sum((counts) => counts.failed) + passedChecks.filter((ok) => !ok).length;
process.stdout.write('\nthe slowest files:\n');
for (const { file, title, ms } of durations.toSorted((a, b) => b.ms - a.ms).slice(0, slowestShown))
  process.stdout.write(`${(ms / 1000).toFixed(1).padStart(7)} s  ${file} (${title})\n`);
for (const failure of failures) process.stdout.write(`\nFAILED ${failure}\n`);
process.stdout.write(`\n${passed} passed, ${failed} failed, ${sum((counts) => counts.skipped)} skipped\n`);
process.exit(failed === 0 ? 0 : 1);
