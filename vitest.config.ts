/** How the suites run: files in two processes, because the machine has two cores; slow ones name themselves. */
import { defineConfig } from 'vitest/config';

/** A timeout reports a test that hangs; on a machine that others use a test may take a hundred times its usual time. */
const testMs = 300_000;
const hookMs = 600_000;
/** What other processes do may take that long there. */
const poll = { timeout: 60_000 };

/** Files of these folders share a process and its loaded modules, because loading the gateway takes longer than most of these files. */
const sharing = ['unit', 'handlers', 'attacks'].map((folder) => `test/${folder}/**/*.test.ts`);
const common = { pool: 'forks', testTimeout: testMs, hookTimeout: hookMs, expect: { poll } } as const;

export default defineConfig({
  test: {
    maxWorkers: 2,
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
