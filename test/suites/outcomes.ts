/** Reads the test results of another project's suite from the reports of Go, JUnit and pytest. */
import { readFileSync } from 'node:fs';
import { XMLParser } from 'fast-xml-parser';

export interface Outcome {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'skipped';
}

const goLine = /^ *--- (PASS|FAIL|SKIP): (\S+) \(/;
const goResults = { PASS: 'passed', FAIL: 'failed', SKIP: 'skipped' } as const;

/** The leaf tests of `go test -v`. Parents are skipped, because a parent fails whenever a child fails. */
export function readGoOutcomes(output: string): readonly Outcome[] {
  const all = output.split('\n').flatMap((line): Outcome[] => {
    const [, result, name] = goLine.exec(line) ?? [];
    return name === undefined ? [] : [{ name, result: goResults[result as keyof typeof goResults] }];
  });
  const parents = new Set(all.map(({ name }) => name.slice(0, name.lastIndexOf('/'))));
  return all.filter(({ name }) => !parents.has(name));
}

interface TestCase {
  readonly '@_classname': string;
  readonly '@_name': string;
  readonly failure?: unknown;
  readonly error?: unknown;
  readonly skipped?: unknown;
}

const parser = new XMLParser({ ignoreAttributes: false, isArray: (name) => name === 'testcase' });

/** The test cases of one JUnit report in a file, which pytest writes too. */
export function readJunitOutcomes(path: string): readonly Outcome[] {
  const { testsuites, testsuite } = parser.parse(readFileSync(path, 'utf8'));
  const cases: readonly TestCase[] = (testsuites?.testsuite ?? testsuite).testcase;
  return cases.map((test) => ({
    name: `${test['@_classname'].slice(test['@_classname'].lastIndexOf('.') + 1)}.${test['@_name']}`,
    result:
      (test.failure ?? test.error ?? undefined)
        ? 'failed'
        : test.skipped === undefined
          ? 'passed'
          : 'skipped',
  }));
}

/** A test that is expected to fail, and why. The list may only shrink: a test that passes must be removed from it. */
export type ExpectedFailures = Readonly<Record<string, string>>;

export interface Comparison {
  readonly unexpectedFailures: readonly string[];
  readonly mendedTests: readonly string[];
  readonly passed: number;
}

export function compareOutcomes(outcomes: readonly Outcome[], expected: ExpectedFailures): Comparison {
  const named = (result: Outcome['result']) =>
    outcomes.filter((outcome) => outcome.result === result).map(({ name }) => name);
  const failed = named('failed');
  return {
    unexpectedFailures: failed.filter((name) => !(name in expected)),
    mendedTests: Object.keys(expected).filter((name) => !failed.includes(name)),
    passed: named('passed').length,
  };
}
