/** A reporter of vitest: writes the errors outside of any test to a file, because the JSON reporter leaves them out. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reporter } from 'vitest/node';

/** Holds a JSON array of texts. */
export const errorsOutsideTests = join(import.meta.dirname, '../../.cache/test-errors.json');

export default class ErrorsOutsideTests implements Reporter {
  onTestRunEnd: NonNullable<Reporter['onTestRunEnd']> = (_modules, errors) => {
    const texts = errors.map(({ name, message, stack }) => stack ?? `${name}: ${message}`);
    writeFileSync(errorsOutsideTests, JSON.stringify(texts));
  };
}
