/** The version of this build, from package.json. */
import { readFileSync } from 'node:fs';

/** The source and the built layout are both two or three levels below the package. */
export function packageVersion(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      const found = JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')) as Record<string, unknown>;
      if (found['name'] === 'sluice' && typeof found['version'] === 'string') return found['version'];
    } catch {
      // Not at this level.
    }
  }
  return 'unknown';
}
