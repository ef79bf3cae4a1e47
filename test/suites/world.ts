/** Starts a server for one test suite, and runs the suite as a program that reports its test results. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { compareOutcomes, type ExpectedFailures, type Outcome } from './outcomes.ts';

/** The folder into which install.sh puts the suites. */
export const suitesHome = join(import.meta.dirname, '../../.cache/suites');
export const region = 'us-east-1';
/** A suite takes a minute or two on a machine with nothing else to do; this ends one that hangs. */
export const suiteMs = 1_200_000;
const runMs = suiteMs - 60_000;
const outputMax = 64 * 1024 * 1024;

export interface SuiteWorld {
  readonly server: TestServer;
  readonly user: (typeof testCredentials)['alice'];
  /** Empty at first; HOME and the working directory of the suite unless it names another. */
  readonly home: string;
  /** Runs the suite to its end and ignores its exit code. @returns its output */
  run(program: string, args: readonly string[], options?: RunOptions): Promise<string>;
  stop(): Promise<void>;
}

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Suite {
  /** Below this many passed tests the suite has not run as a whole. */
  readonly passedMin: number;
  readonly expectedFailures?: ExpectedFailures;
  /** Tests that pass or fail by the time which the client itself takes, and why: they count neither way. */
  readonly races?: Readonly<Record<string, string>>;
  /** Further settings of the server; files that they name may be stored in the folder. */
  readonly settings?: (folder: string) => Readonly<Record<string, string>>;
  readonly run: (
    world: SuiteWorld,
  ) => Promise<{ readonly output: string; readonly outcomes: (output: string) => readonly Outcome[] }>;
}

/** Runs a suite against a separate server. Every test must pass but the expected failures, and those must still fail. */
export async function expectSuite({
  passedMin,
  expectedFailures = {},
  races = {},
  settings,
  run,
}: Suite): Promise<void> {
  const world = await startSuiteWorld(settings);
  try {
    const { output, outcomes } = await run(world);
    const decided = outcomes(output).filter(({ name }) => !(name in races));
    const { unexpectedFailures, mendedTests, passed } = compareOutcomes(decided, expectedFailures);
    expect(unexpectedFailures, output.slice(-16_000)).toEqual([]);
    expect(mendedTests).toEqual([]);
    expect(passed, output.slice(-8_000)).toBeGreaterThanOrEqual(passedMin);
  } finally {
    await world.stop();
  }
}

/** @param settings further settings of the server; files that they name may be stored in the folder */
async function startSuiteWorld(
  settings: (folder: string) => Readonly<Record<string, string>> = () => ({}),
): Promise<SuiteWorld> {
  execFileSync(join(import.meta.dirname, 'install.sh'), { stdio: 'inherit' });
  const home = mkdtempSync(join(tmpdir(), 'sluice-suite-'));
  const server = await startServer({ env: { SVC_PROCESSES: '2', ...settings(join(home, 'settings')) } });
  const user = testCredentials.alice;
  const environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    LC_ALL: 'C.UTF-8',
    AWS_ACCESS_KEY_ID: user.accessKey,
    AWS_SECRET_ACCESS_KEY: user.secretKey,
    AWS_REGION: region,
    AWS_DEFAULT_REGION: region,
  };
  return {
    server,
    user,
    home,
    run: (program, args, { cwd = home, env = {} } = {}) =>
      runToEnd(program, args, { cwd, env: { ...environment, ...env } }),
    stop: async () => {
      await server.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function runToEnd(
  program: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: Record<string, string> },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], timeout: runMs });
    const output: Buffer[] = [];
    let size = 0;
    const keep = (bytes: Buffer): void => {
      size += bytes.length;
      if (size <= outputMax) output.push(bytes);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', reject);
    child.on('close', () => resolve(Buffer.concat(output).toString()));
  });
}
