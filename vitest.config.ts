/** How the suites run: files in two processes, because the machine has two cores; slow ones name themselves. */
import { defineConfig } from 'vitest/config';

/** A time-out tells of what hangs, and of nothing else: on a machine that others use a law may take a hundred times its time. */
const testMs = 300_000;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: testMs,
    hookTimeout: 600_000,
  },
});
