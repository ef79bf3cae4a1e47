/** How the suites run: files in two processes, because the machine has two cores; slow ones name themselves. */
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { placeOf } from './test/support/slowest-files.ts';

/** A timeout reports a test that hangs; on a machine that others use a test may take a hundred times its usual time. */
const testMs = 900_000;
const hookMs = 900_000;
/** What other processes do may take that long there. */
const poll = { timeout: 180_000 };

/**
 * Files of these folders share a process and its loaded modules, because loading the gateway takes longer than most of these files.
 * `unit/clock.test.ts` has a process of its own: it advances all timers of its process by 60 days, which never ends beside a repeating timer of
 * another file.
 */
const sharing = ['unit/**/!(clock)', 'handlers/**/*', 'attacks/**/*'].map((path) => `test/${path}.test.ts`);
const common = {
  pool: 'forks',
  testTimeout: testMs,
  hookTimeout: hookMs,
  expect: { poll },
  // What CI prints of a failed test is its message alone: it says what a list had.
  chaiConfig: { truncateThreshold: 1_000 },
} as const;

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => placeOf(a.moduleId) - placeOf(b.moduleId));
  }
}

export default defineConfig({
  test: {
    maxWorkers: 2,
    sequence: { sequencer: SlowestFirst },
    projects: [
      { test: { ...common, name: 'sharing', include: sharing, isolate: false } },
      {
        test: {
          ...common,
          name: 'alone',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'test/console/**', ...sharing],
        },
      },
      {
        test: {
          ...common,
          name: 'console',
          include: ['test/console/**/*.test.ts'],
          globalSetup: 'test/console/build.ts',
        },
      },
    ],
  },
});
