/** The double for a group of tests: started before them, reset after each. */
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { type Double, type DoubleOptions, noDouble, startDouble } from '../support/engines/tikv-double.ts';

/** The first start on a machine may have to build the double. */
export const buildMs = 600_000;

/** @param heal further repairs after each test */
export function describeOnDouble(
  title: string,
  { heal, ...options }: DoubleOptions & { readonly heal?: (double: Double) => Promise<void> },
  laws: (engine: Promise<Double>) => void,
): void {
  describe(title, () => {
    if (noDouble !== undefined) {
      it.skip(`(${noDouble})`, () => {});
      return;
    }
    const engine = startDouble(options);
    beforeAll(() => engine, buildMs);
    afterAll(async () => (await engine)[Symbol.asyncDispose]());
    afterEach(async () => {
      const double = await engine;
      await double.heal();
      await double.chaos(0);
      await heal?.(double);
    });
    laws(engine);
  });
}
