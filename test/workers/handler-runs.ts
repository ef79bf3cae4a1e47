/** Runs suites of handlers in workerd. Import it after the variables that say so are set. */
import { afterAll, describe, expect, test } from 'vitest';
import type { Skips } from './handler-suites.ts';
import { skipped, stopWorker } from './handler-world.ts';

export function runHandlerSuites(suites: Readonly<Record<string, Skips>>): void {
  afterAll(stopWorker);
  for (const name of Object.keys(suites))
    describe(name, async () => {
      await import(`../handlers/${name}.test.ts`);
    });

  test('the listed tests are skipped, and no others', () => {
    const listed = Object.entries(suites).flatMap(([suite, skips]) =>
      Object.entries(skips).map(([title, reason]) => [`${suite}: ${title}`, reason]),
    );
    expect([...skipped].sort()).toEqual(listed.sort());
  });
}
