/** How the suites run: files in two processes, because the machine has two cores; slow ones name themselves. */
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

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
const common = { pool: 'forks', testTimeout: testMs, hookTimeout: hookMs, expect: { poll } } as const;

/** Files of many minutes: they begin first, because one that begins last runs on alone while the other process has nothing left to do. */
const slowest = ['wide-column-ring', 'axe', 's3fs', 'engines', 'linearizable', 'paused-leaders', 'kill-engines'];

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = slowest.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at === -1 ? slowest.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b));
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
